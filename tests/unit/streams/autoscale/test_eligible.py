"""Scraping the fetchers and asking Prometheus, over loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from schemas.errors import ConfigError
from streams.autoscale.eligible import Prometheus, Workers, parse, resolve, source

PAGE = """\
# HELP crawler_eligible_backlog Held requests that politeness allows.
# TYPE crawler_eligible_backlog gauge
crawler_eligible_backlog {eligible}
crawler_window_requests {window}
crawler_ready_requests 3
crawler_requests_total{{outcome="ok"}} {fetched}
crawler_requests_total{{outcome="a }} b 7"}} 2.0 1700000000000
crawler_requests_created 1.7e9
"""


@contextmanager
def page(texts: list[bytes | None]) -> Iterator[str]:
    """A server that answers with the texts one after the other; None: HTTP 503."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = texts.pop(0) if len(texts) > 1 else texts[0]
            self.send_response(503 if text is None else 200)
            self.end_headers()
            self.wfile.write(text or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def text(eligible: float, window: float, fetched: float) -> bytes:
    return PAGE.format(eligible=eligible, window=window, fetched=fetched).encode()


def test_values_are_summed_over_labels_and_timestamps_ignored() -> None:
    sample = parse(text(5, 10, 40).decode())
    assert sample is not None
    assert sample.fetched == 42
    assert sample.gauges["crawler_eligible_backlog"] == 5


@pytest.mark.parametrize(
    "other", ["", "python_info 1\n", "crawler_eligible_backlog x\n", "<html></html>"]
)
def test_a_page_of_something_else_is_nothing(other: str) -> None:
    assert parse(other) is None


async def test_fetchers_are_summed() -> None:
    with page([text(5, 10, 40)]) as one, page([text(7, 20, 60)]) as two:
        held = await Workers(lambda: [one, two]).read()
    assert held is not None
    assert held[:3] == (12, 30, 104)
    assert held.ready == 6


async def test_a_restarted_fetcher_does_not_turn_the_total_back() -> None:
    with page([text(0, 1, 98), text(0, 1, 198), text(0, 1, 8)]) as one:
        workers = Workers(lambda: [one])
        totals = [held.fetched for _ in range(3) if (held := await workers.read())]
    assert totals == [100, 200, 210]


async def test_cpu_time_counts_from_the_first_look() -> None:
    pages = [text(0, 1, 0) + b"process_cpu_seconds_total %d\n" % cpu for cpu in (70, 75, 3)]
    with page(list(pages)) as one:
        workers = Workers(lambda: [one])
        found = [(held.cpu_s, held.fetchers) for _ in pages if (held := await workers.read())]
    # The last is a restart: 3 s of a new process.
    assert found == [(0, 1), (5, 1), (8, 1)]


async def test_too_few_answers_are_unknown_and_a_missing_one_is_like_the_others() -> None:
    with ExitStack() as stack:
        good = [stack.enter_context(page([text(10, 20, 0)])) for _ in range(4)]
        broken = stack.enter_context(page([None]))
        assert await Workers(lambda: [good[0], broken]).read() is None
        held = await Workers(lambda: [*good, broken]).read()
    assert held is not None
    assert held.eligible == pytest.approx(50)


async def test_no_fetchers_and_no_name_are_unknown() -> None:
    def fail() -> list[str]:
        raise OSError("no such name")

    assert await Workers(list).read() is None
    assert await Workers(fail).read() is None


async def test_prometheus_is_asked_for_sums() -> None:
    answer = {"status": "success", "data": {"result": [{"value": [1.0, "12.5"]}]}}
    with page([json.dumps(answer).encode()]) as address:
        held = await Prometheus(f"http://{address}").read()
    assert held == (12.5, 12.5, 12.5, 12.5, 0.0, 0)


@pytest.mark.parametrize("answer", [b'{"data": {"result": []}}', b"not json", b"[]", None], ids=str)
async def test_prometheus_without_the_series_is_unknown(answer: bytes | None) -> None:
    with page([answer]) as address:
        assert await Prometheus(f"http://{address}").read() is None


@pytest.mark.parametrize("url", ["fetcher:9100", "dns://fetcher", "dns://a:b", "ftp://x:1", ""])
def test_a_source_must_be_one_of_the_two_kinds(url: str) -> None:
    with pytest.raises(ConfigError, match="dns://name:port"):
        source(url)


def test_sources_by_scheme_and_names_by_address() -> None:
    assert isinstance(source("http://prometheus:9090/"), Prometheus)
    assert isinstance(source("dns://fetcher:9100"), Workers)
    assert "127.0.0.1:9100" in resolve("localhost", 9100)
