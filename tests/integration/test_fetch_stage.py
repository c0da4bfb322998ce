"""The stage on a fake runtime and real sockets: each message gets one outcome, and which."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from fetchers.worker.messages import fetch_id
from schemas.crawl import CrawlSpec
from schemas.reasons import REASONS, Reason
from schemas.topics import FETCH_REQUESTS, RETRY_TIERS
from streams.kafka.blobs import BlobStore
from streams.kafka.messages import Source
from tests.cases import case, given
from tests.integration.recorder import Site
from tests.unit.fetchers.fakes import (
    Handler,
    Request,
    Web,
    html,
    request_for,
    response,
    running,
)

if TYPE_CHECKING:
    from pathlib import Path

FAST = CrawlSpec(crawl="c", delay_s=0)
ANY = CrawlSpec(crawl="c", delay_s=0, scope="any")
OPEN = response(404)


async def test_a_page_becomes_a_result(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = html(b"<p>hello</p>" * 50, 'ETag: "x"')
        request = request_for(web.url("/a"))
        runtime.seed(request)
        await runtime.until_idle()
        (result,) = runtime.results()
    assert result["status"] == 200
    assert zstandard.decompress(result["body"]) == b"<p>hello</p>" * 50
    assert (result["body_bytes"], result["wire_bytes"]) == (600, 600)
    assert result["content_type"] == "text/html"
    assert result["address"] == "127.0.0.1"
    assert result["attempt"] == 1
    assert result["fetch_id"] == fetch_id(request["url_id"], Source(FETCH_REQUESTS, 0), 0, 1)
    assert web.paths(robots=True) == ["/robots.txt", "/a"]
    assert runtime.counts == {"fetched": 1, "pages": 1, "bytes": 600}
    agent = web.requests[1].headers["user-agent"]
    assert agent == "acmebot (+https://acme.example/bot)"


async def test_hdr_03_the_body_is_decoded_and_its_headers_renamed(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        coded = gzip.compress(b"<p>hello</p>" * 50)
        web.pages["/a"] = html(coded, "Content-Encoding: gzip")
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        (result,) = runtime.results()
    names = [header["name"] for header in result["headers"]]
    assert names == ["content-type", "x-original-content-encoding", "x-original-content-length"]
    assert zstandard.decompress(result["body"]) == b"<p>hello</p>" * 50
    assert result["wire_bytes"] == len(coded)


async def test_many_pages_of_one_fast_host_are_not_deferred(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST, window=100) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = OPEN
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(500)))
        await runtime.until_idle(30)
    assert runtime.counts["fetched"] == 500
    assert runtime.counts["deferrals"] == 0
    assert web.paths(robots=True).count("/robots.txt") == 1


# Robots.


async def test_disallowed_is_disregarded(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/robots.txt"] = response(200, b"User-agent: acmebot\nDisallow: /p\n")
        web.pages["/q"] = html()
        runtime.seed(request_for(web.url("/p")), request_for(web.url("/q")))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert (letter["reason"], letter["kind"], letter["attempts"]) == (
        "robots_denied",
        "disregarded",
        0,
    )
    assert web.paths() == ["/q"]
    assert runtime.counts["disregarded.robots_denied"] == 1


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_unreachable_robots_holds_the_host_and_is_asked_again(
    tmp_path: Path, status: int
) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/robots.txt"] = response(
            status, b"User-agent: *\nAllow: /\n", "Retry-After: 1", "Content-Type: text/plain"
        )
        web.pages["/a"] = html()
        runtime.seed(request_for(web.url("/a")))
        await asyncio.sleep(0.5)
        assert web.paths() == []
        web.pages["/robots.txt"] = OPEN
        await runtime.until_idle()
    assert runtime.counts["pages"] == 1
    assert {later["last_reason"] for _, later in runtime.retries()} <= {"robots_unreachable", ""}
    assert web.requests[1].at - web.requests[0].at >= 0.95


async def test_rob_18_robots_is_per_scheme_host_and_port(tmp_path: Path) -> None:
    async with Web() as one, Web() as two, running(tmp_path, FAST) as runtime:
        one.default = two.default = html()
        two.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /\n")
        one.pages["/robots.txt"] = OPEN
        runtime.seed(request_for(one.url("/x?add=1")), request_for(two.url("/x")))
        await runtime.until_idle()
    assert one.paths(robots=True) == ["/robots.txt", "/x?add=1"]
    assert two.paths(robots=True) == ["/robots.txt"]


async def test_rob_19_a_redirect_loop_of_robots_is_one_decision(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = response(302, b"", "Location: /r2")
        web.pages["/r2"] = response(302, b"", "Location: /robots.txt")
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(5)))
        await runtime.until_idle()
    asked = [path for path in web.paths(robots=True) if path in ("/robots.txt", "/r2")]
    assert len(asked) == case("rob-19")["expected"]["requests_max"]
    assert runtime.counts["pages"] == 5


async def test_robots_of_another_host_by_redirect_counts_for_the_first(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = response(301, b"", f"Location: {web.url('/r', '127.0.0.2')}")
        web.pages["/r"] = response(200, b"User-agent: *\nDisallow: /p\n")
        runtime.seed(request_for(web.url("/p")), request_for(web.url("/q")))
        await runtime.until_idle()
    assert web.paths() == ["/r", "/q"]


async def test_sitemaps_go_with_the_first_result(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, sitemaps="robots")
    async with Web() as web, running(tmp_path, spec) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = response(200, b"Sitemap: /s.xml\nSitemap: http://o.example/t\n")
        runtime.seed(request_for(web.url("/1")), request_for(web.url("/2")))
        await runtime.until_idle()
        first, second = runtime.results()
    assert first["sitemaps"] == [web.url("/s.xml"), "http://o.example/t"]
    assert second["sitemaps"] == []


async def test_robots_that_cannot_be_dialled_gives_the_address_as_reason(tmp_path: Path) -> None:
    async with running(tmp_path, FAST, allow_networks="") as runtime:
        runtime.seed(request_for("http://127.0.0.1:9/x"), request_for("http://[::ffff:7f00:1]/y"))
        await runtime.until_idle()
        letters = runtime.letters()
    assert {letter["reason"] for letter in letters} == {"blocked_address"}
    assert len(letters) == 2


# Redirects.


async def test_a_redirect_is_a_result_and_a_new_url(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(301, b"<p>moved</p>", "Location: /b?x", "Content-Encoding: gzip")
        runtime.seed(request_for(web.url("/a"), depth=3, redirects=["http://h.example/0"]))
        await runtime.until_idle()
        (result,), (batch,) = runtime.results(), runtime.urls()
    assert (result["status"], result["location"]) == (301, web.url("/b?x"))
    assert result["redirect_followed"]
    assert result["body_bytes"] == 0
    assert batch["via"] == "redirect"
    assert batch["depth"] == 3
    assert batch["redirects"] == ["http://h.example/0", web.url("/a")]
    assert batch["links"][0]["url"] == web.url("/b?x")
    assert runtime.counts["redirects"] == 1


def _sends(text: str) -> Handler:
    """A handler that answers with the raw bytes of a case and closes."""

    async def handler(request: Request, reader: Any, writer: Any) -> None:
        writer.write(text.encode("latin-1"))
        await writer.drain()
        writer.close()

    return handler


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        *given("red-01"),
        (case("red-06")["input"]["raw_response_latin1"], "/a1"),
        (
            case("red-09")["input"]["raw_response_latin1"],
            case("red-09")["expected"]["next_request"],
        ),
    ],
)
async def test_red_01_red_06_red_09_next_hop_of_raw_answers(
    tmp_path: Path, raw: str, path: str
) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/s"] = _sends(raw)
        web.pages["/robots.txt"] = OPEN
        runtime.seed(request_for(web.url("/s")))
        await runtime.until_idle()
        (batch,) = runtime.urls()
        runtime.seed(request_for(batch["links"][0]["url"]))
        await runtime.until_idle()
    assert web.paths() == ["/s", path]


async def test_red_10_out_of_scope_is_recorded_and_not_followed(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/out"] = response(302, b"", "Location: https://b.example/z")
        runtime.seed(request_for(web.url("/out")))
        await runtime.until_idle()
        (result,) = runtime.results()
    assert result["location"] == "https://b.example/z"
    assert not result["redirect_followed"]
    assert runtime.urls() == []
    assert runtime.counts["redirects_refused"] == 1


@pytest.mark.parametrize(
    "location",
    [
        "data:text/html,hi",
        *(row.partition(": ")[2] for row in case("red-04")["input"]["rows"] if ": " in row),
        "http://[::1",
        "http://256.256.256.256/",
    ],
)
async def test_red_03_red_04_other_schemes_are_terminal(tmp_path: Path, location: str) -> None:
    async with Web() as web, running(tmp_path, ANY) as runtime:
        web.pages["/a"] = response(302, b"", f"Location: {location}")
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        (result,) = runtime.results()
    assert result["status"] == 302
    assert {"name": "location", "value": location} in result["headers"]
    assert (result["location"], result["redirect_followed"]) == ("", False)
    assert runtime.urls() == []


async def test_red_07_a_hop_to_the_same_url_is_followed_with_its_cookie(tmp_path: Path) -> None:
    async def gate(request: Request, reader: Any, writer: Any) -> None:
        known = request.headers.get("cookie") == "s=1"
        writer.write(html() if known else response(302, b"", "Location: /p", "Set-Cookie: s=1"))
        await writer.drain()

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/p"] = gate
        runtime.seed(request_for(web.url("/p")))
        await runtime.until_idle()
        (result,) = runtime.results()
    assert result["status"] == case("red-07")["expected"]["final_status"]
    assert web.paths() == ["/p"] * case("red-07")["expected"]["requests"]
    assert runtime.urls() == []


async def test_a_self_redirect_without_end_is_given_up(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/p"] = response(302, b"", "Location: /p")
        runtime.seed(request_for(web.url("/p")))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"
    assert len(web.paths()) == 6


async def test_a_chain_that_is_too_long_is_given_up(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/p"] = response(302, b"", "Location: /q")
        chain = [f"http://h.example/{number}" for number in range(10)]
        runtime.seed(request_for(web.url("/p"), redirects=chain))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"
    assert runtime.urls() == []


async def test_ssr_01_the_hop_to_a_private_address_is_blocked_when_it_comes_up(
    tmp_path: Path,
) -> None:
    async with Web() as web, running(tmp_path, ANY) as runtime:
        web.pages["/a"] = response(302, b"", "Location: http://169.254.169.254/latest/meta-data/")
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        (batch,) = runtime.urls()
        runtime.seed(request_for(batch["links"][0]["url"], redirects=batch["redirects"]))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "blocked_address"
    assert web.paths() == ["/a"]


# Failures, retries, dead letters.


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "http_4xx"), (410, "http_4xx"), (501, "http_5xx"), (999, "http_odd")],
)
async def test_permanent_statuses(tmp_path: Path, status: int, reason: str) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(status, b"no")
        web.pages["/robots.txt"] = OPEN
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert (letter["reason"], letter["status"], letter["attempts"]) == (reason, status, 1)
    assert letter["first_attempt_at"] > 0
    assert runtime.retries() == []


async def test_attempts_are_bounded_and_their_history_is_kept(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(502)
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle(20)
        (letter,) = runtime.letters()
        retries = runtime.retries()
    attempts = REASONS[Reason.HTTP_502].max_attempts
    assert web.paths() == ["/a"] * attempts
    assert letter["attempts"] == attempts
    assert letter["first_reason"] == "http_502"
    assert sorted(request["attempt"] for _, request in retries) == list(range(2, attempts + 1))
    assert len({request["first_attempt_at"] for _, request in retries}) == 1
    assert [topic for topic, _ in sorted(retries, key=lambda pair: pair[1]["attempt"])] == list(
        RETRY_TIERS[: attempts - 1]
    )
    assert runtime.counts["retries"] == attempts - 1
    assert runtime.counts["failed.http_502"] == 1


async def test_a_retry_waits_for_its_time(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(500)
        runtime.seed(request_for(web.url("/a")))
        await web.asked("/a")
        web.pages["/a"] = html()
        await runtime.until_idle()
        ((topic, retry),) = runtime.retries()
    assert topic == "retry-10m" if REASONS[Reason.HTTP_500].base_delay_s > 120 else "retry-2m"
    first, second = (request.at for request in web.requests if request.path == "/a")
    assert second - first >= 0.4
    assert retry["not_before"] > 0
    assert runtime.results()[0]["attempt"] == 2


async def test_incomplete_bodies_are_kept_when_attempts_are_spent(tmp_path: Path) -> None:
    async def short(request: Request, reader: Any, writer: Any) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 500\r\n\r\n<p>x"
        )
        await writer.drain()
        writer.close()

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = short
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle(20)
        (result,) = runtime.results()
    assert (result["truncated"], result["body"]) == (True, b"<p>x")
    assert result["attempt"] == REASONS[Reason.INCOMPLETE].max_attempts
    assert runtime.letters() == []


async def test_content_types_that_are_not_wanted_are_disregarded(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/v"] = response(200, b"x" * 200_000, "Content-Type: video/mp4")
        web.pages["/u"] = response(200, b"plain", "Content-Type: ")
        runtime.seed(request_for(web.url("/v")), request_for(web.url("/u")))
        await runtime.until_idle()
        (letter,) = runtime.letters()
        (result,) = runtime.results()
    assert (letter["reason"], letter["kind"]) == ("content_type", "disregarded")
    assert result["url"] == web.url("/u")


@pytest.mark.parametrize("value", [b"", b"junk", b"\xc3\x01" + b"\0" * 20, None])
async def test_unreadable_messages_are_dead_letters(tmp_path: Path, value: bytes | None) -> None:
    async with running(tmp_path, FAST) as runtime:
        runtime.append(FETCH_REQUESTS, b"k", value)
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] in ("undecodable", "unknown_schema")
    assert letter["payload"] == (value or b"")
    assert letter["origin_topic"] == FETCH_REQUESTS


@pytest.mark.parametrize("url", ["ftp://a.example/", "http://a b/", "http://a.example/\r\nX: y"])
async def test_urls_of_foreign_producers_are_parsed_again(tmp_path: Path, url: str) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        request = request_for("http://a.example/")
        request["url"] = url.replace("a.example", f"127.0.0.1:{web.port}")
        runtime.seed(request)
        await runtime.until_idle()
    assert all("\r" not in path and " " not in path for path in web.paths(robots=True))
    assert len(runtime.letters()) == 1


# Crawls.


async def test_budget_and_state_are_looked_at_before_each_fetch(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, max_pages=3)
    async with Web() as web, running(tmp_path, spec) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = OPEN
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(10)))
        await runtime.until_idle()
    assert runtime.counts["pages"] == 3
    assert runtime.counts["rejected.budget_spent"] == 7
    assert len(web.paths()) == 3


async def test_a_stopped_crawl_fetches_nothing(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, state="stopped")
    async with running(tmp_path, spec) as runtime:
        runtime.seed(request_for("http://127.0.0.1:9/x"))
        await runtime.until_idle()
    assert runtime.counts == {"rejected.crawl_stopped": 1}


async def test_an_unknown_crawl_gets_a_while_to_become_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchers.worker.intake.UNKNOWN_CRAWL_S", 3.0)
    monkeypatch.setattr("fetchers.worker.stage.HOUSEKEEPING_S", 0.05)
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html()
        late = runtime.crawls.known.pop("c")
        runtime.seed(request_for(web.url("/a")), request_for(web.url("/b"), crawl="never"))
        await asyncio.sleep(0.1)
        runtime.crawls.known["c"] = late
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "unknown_crawl"
    assert runtime.counts["pages"] == 1


async def test_conditional_requests(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(304, b"", 'ETag: "v2"', length=False)
        runtime.seed(
            request_for(web.url("/a"), etag='"v1"', last_modified="Mon, 01 Jan 2024 00:00:00 GMT")
        )
        await runtime.until_idle()
        (result,) = runtime.results()
    sent = web.requests[-1].headers
    assert sent["if-none-match"] == '"v1"'
    assert sent["if-modified-since"] == "Mon, 01 Jan 2024 00:00:00 GMT"
    assert (result["status"], result["not_modified"], result["body"]) == (304, True, b"")
    assert runtime.counts["not_modified"] == 1


async def test_unsafe_validators_are_left_out(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = html()
        runtime.seed(request_for(web.url("/a"), etag='"x"\r\nEvil: 1', last_modified="\u20ac"))
        await runtime.until_idle()
    assert "evil" not in web.requests[-1].headers
    assert "if-none-match" not in web.requests[-1].headers


async def test_cok_04_cookies_of_a_crawl_that_wants_them(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, scope="any", cookies=True)
    async with Web() as web, running(tmp_path, spec) as runtime:
        web.pages["/1"] = response(302, b"", "Location: /2", "Set-Cookie: s=1", "Set-Cookie: s=2")
        web.pages["/2"] = html()
        runtime.seed(request_for(web.url("/1")), request_for(web.url("/2")))
        await runtime.until_idle()
        runtime.seed(request_for(web.url("/2", host="127.0.0.2")))
        await runtime.until_idle()
    sent = [request.headers.get("cookie") for request in web.requests if request.path == "/2"]
    assert sent == [case("cok-04")["expected"]["hop2_cookie"], None]


async def test_no_cookies_by_default(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html(b"x", "Set-Cookie: s=1")
        runtime.seed(request_for(web.url("/1")), request_for(web.url("/2")))
        await runtime.until_idle()
    assert all("cookie" not in request.headers for request in web.requests)


async def test_big_01_large_bodies_go_to_the_blob_store(tmp_path: Path) -> None:
    body = b"".join(b"%d " % (number * 7919) for number in range(100_000))
    async with Web() as web, running(tmp_path, FAST, inline_body_bytes=1_000) as runtime:
        web.pages["/big"] = html(body)
        web.pages["/small"] = html(b"small")
        runtime.seed(request_for(web.url("/big")), request_for(web.url("/small")))
        await runtime.until_idle()
        big, small = runtime.results()
        blobs = BlobStore.open(runtime.settings)
        assert (big["body"], big["body_bytes"]) == (b"", len(body))
        pieces = blobs.stream_body(big["body_ref"], big["body_coding"])
        assert b"".join([piece async for piece in pieces]) == body
    assert small["body"] == b"small"
    assert big["body_sha256"].hex() in big["body_ref"]


# Pace.


async def test_retry_after_holds_the_whole_host(tmp_path: Path) -> None:
    async def once(request: Request, reader: Any, writer: Any) -> None:
        first = web.paths() == [request.path]
        writer.write(response(429, b"", "Retry-After: 1") if first else html())
        await writer.drain()

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = once
        web.pages["/robots.txt"] = OPEN
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(5)))
        await runtime.until_idle()
    times = [request.at for request in web.requests if request.path != "/robots.txt"]
    assert times[1] - times[0] >= 1.0
    assert runtime.counts["pages"] == 5
    assert runtime.counts["retries"] == 1
    assert runtime.counts["deferrals"] >= 4


async def test_crawl_delay_of_robots_is_obeyed(tmp_path: Path) -> None:
    with Site(robots=response(200, b"User-agent: *\nCrawl-delay: 0.3\n")) as site:
        async with running(tmp_path, FAST) as runtime:
            runtime.seed(*(request_for(site.url(f"/{number}")) for number in range(3)))
            await runtime.until_idle()
        (gap_s,) = site.gaps().values()
    assert gap_s >= 0.299


async def test_priority_within_a_host(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html()
        for number in range(6):
            runtime.seed(request_for(web.url(f"/{number}"), priority=number))
        await runtime.until_idle()
    assert web.paths() == ["/5", "/4", "/3", "/2", "/1", "/0"]


async def test_a_dead_host_is_left_alone(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html(b"x", "Connection: close")
        web.pages["/robots.txt"] = response(404, b"", "Connection: close")
        runtime.seed(request_for(web.url("/first")))
        await runtime.until_idle()
        await web.down()
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(40)))
        await runtime.until(lambda: len(runtime.completed) > 40)
        assert runtime.counts["retries"] <= 8
        assert runtime.counts["deferrals"] >= 32
        await web.up()
        await runtime.until_idle(60)
    assert runtime.counts["pages"] == 41
    assert runtime.letters() == []


async def test_per_address_cap(tmp_path: Path) -> None:
    active = peak = 0

    async def slow(request: Request, reader: Any, writer: Any) -> None:
        nonlocal active, peak
        if request.path == "/robots.txt":
            writer.write(OPEN)
            return
        active += 1
        peak = max(peak, active)
        await asyncio.sleep(0.2)
        active -= 1
        writer.write(html())

    spec = CrawlSpec(crawl="c", delay_s=0, per_host=8)
    async with Web() as web, running(tmp_path, spec, per_address=3) as runtime:
        web.default = slow
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(12)))
        await runtime.until_idle()
    assert runtime.counts["pages"] == 12
    assert peak == 3


# Assignment.


async def test_a_rebalance_loses_nothing(tmp_path: Path) -> None:
    async def slow(request: Request, reader: Any, writer: Any) -> None:
        await asyncio.sleep(0.01)
        writer.write(html())

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = slow
        web.pages["/robots.txt"] = OPEN
        requests = [request_for(web.url(f"/{number}")) for number in range(60)]
        runtime.seed(*requests)
        await runtime.until(lambda: len(runtime.completed) >= 5)
        assert len(runtime.completed) < 60
        await runtime.rebalance()
        await runtime.until_idle()
    assert Counter(web.paths()) == Counter({f"/{number}": 1 for number in range(60)})
    assert runtime.counts["pages"] == 60


async def test_a_drain_that_is_cut_short_gives_up_what_is_under_way(tmp_path: Path) -> None:
    async def hang(request: Request, reader: Any, writer: Any) -> None:
        await asyncio.sleep(5)

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = hang
        web.pages["/robots.txt"] = OPEN
        runtime.seed(request_for(web.url("/a")))
        await web.asked("/a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runtime.stage.revoke(runtime.sources()), 0.1)
        async with asyncio.timeout(5):
            while runtime.stage.in_flight:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        runtime.epoch += 1
    assert runtime.completed == []


async def test_hosts_wait_one_delay_after_an_assignment(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0.3)
    with Site() as site:
        async with running(tmp_path, spec) as runtime:
            assigned_at = runtime.stage.intake.assigned_at[0]
            runtime.seed(request_for(site.url("/a")))
            await runtime.until_idle()
        robots, page = site.arrivals()
    assert robots.at - assigned_at >= 0.299
    assert page.at - robots.at >= 0.299


async def test_a_tier_is_read_ahead_a_little_and_then_held(tmp_path: Path) -> None:
    async with running(tmp_path, FAST, window=40) as runtime:
        later = int(time.time() * 1000) + 60_000
        runtime.seed(
            *(
                request_for(f"http://127.0.0.1:9/{number}", attempt=2, not_before=later)
                for number in range(50)
            ),
            topic=RETRY_TIERS[2],
        )
        await runtime.until(lambda: runtime.offered >= 10)
        await asyncio.sleep(0.1)
        assert runtime.offered == 10
        assert runtime.stage.room(Source(RETRY_TIERS[2], 0)) == 0


async def test_a_clock_that_was_wrong_delays_a_retry_by_its_tier_at_most(tmp_path: Path) -> None:
    """The fetcher that wrote it was an hour ahead, or this one is an hour behind."""
    async with Web() as web, running(tmp_path, FAST, retry_tiers_s="0.1,1,2,3,4") as runtime:
        web.default = html()
        hour = int(time.time() * 1000) + 3_600_000
        url = web.url("/a")
        runtime.seed(request_for(url, attempt=2, not_before=hour), topic=RETRY_TIERS[0])
        await runtime.until(lambda: "/a" in web.paths())
        await runtime.until_idle()


# The invariant.


async def test_every_message_has_exactly_one_outcome(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, ANY) as runtime:
        web.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /denied\n")
        kinds: dict[str, Any] = {
            "ok": html(),
            "moved": response(302, b"", "Location: /elsewhere"),
            "out": response(302, b"", "Location: ftp://x.example/"),
            "gone": response(404),
            "busy": response(503, b"", "Retry-After: 0"),
            "video": response(200, b"x", "Content-Type: video/mp4"),
            "denied": html(),
        }
        for kind, answer in kinds.items():
            for number in range(5):
                web.pages[f"/{kind}{number}"] = answer
                runtime.seed(request_for(web.url(f"/{kind}{number}")))
        runtime.append(FETCH_REQUESTS, b"k", b"junk")
        await runtime.until(lambda: runtime.counts["retries"] > 0)
        for number in range(5):
            web.pages[f"/busy{number}"] = html()
        await runtime.until_idle(20)
    outcomes = Counter(
        {
            name: number
            for name, number in runtime.counts.items()
            if name in ("fetched", "retries", "deferrals")
            or name.partition(".")[0] in ("failed", "disregarded", "rejected")
        }
    )
    assert sum(outcomes.values()) == runtime.offered == len(runtime.completed)
    assert outcomes["fetched"] == len(runtime.results())
    letters = sum(number for name, number in outcomes.items() if "." in name)
    assert letters == len(runtime.letters()) == 5 + 5 + 5 + 1
    assert len(runtime.urls()) == 5
