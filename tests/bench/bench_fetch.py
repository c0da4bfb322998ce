"""CPU per page of fetching over loopback: the wire layer, and the whole stage, beside others.

    python tests/bench/bench_fetch.py [--pages 6000] [--hosts 40] [--check]

The server runs in a process of its own, so that only the client's CPU time is counted. All
contenders fetch the same pages of 20 KB with 64 requests in flight. `--check` fails when the wire
layer takes more than 0.35 ms or the stage more than 1.0 ms a page.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import httpx
import uvloop
from yarl import URL

from fetchers.http.body import BodySink
from fetchers.http.transport import Transport
from fetchers.worker.stage import FetchStage
from schemas.admission import Rules, compile_rules
from schemas.codec import encode
from schemas.crawl import CrawlSpec
from schemas.topics import FETCH_REQUESTS
from schemas.url import url_id
from streams.delivery.stage import Context, Delivery
from streams.kafka.messages import Out, Source
from streams.settings import load
from streams.telemetry.metrics import Counts, Metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from multiprocessing.connection import Connection

IN_FLIGHT = 64
WIRE_TARGET_MS = 0.35
STAGE_TARGET_MS = 1.0
FIELDS = (
    b"User-Agent: bench (+https://bench.example)\r\nAccept: */*\r\nAccept-Encoding: gzip, br\r\n"
)
PAGE = b"<!doctype html><title>t</title>" + b"".join(
    b"<p>Paragraph %d of some words that are not all alike <a href=/p/%d>link</a></p>\n"
    % (n, n * 7)
    for n in range(240)
)
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\n"
    b'Content-Type: text/html; charset=utf-8\r\nCache-Control: max-age=0\r\nETag: "abc"\r\n'
    b"Vary: Accept-Encoding\r\nContent-Length: %d\r\n\r\n" % len(PAGE)
) + PAGE
NO_ROBOTS = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class _Page(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\r\n\r\n")):
            robots = data.startswith(b"GET /robots.txt")
            self.transport.write(NO_ROBOTS if robots else ANSWER)


def _serve(ready: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Page, "0.0.0.0", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


async def _drive(urls: Sequence[str], fetch: Callable[[str], Awaitable[None]]) -> None:
    todo = iter(urls)

    async def work() -> None:
        for url in todo:
            await fetch(url)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def raw_aiohttp(urls: Sequence[str]) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def fetch(url: str) -> None:
            async with session.get(URL(url, encoded=True), allow_redirects=False) as response:
                assert len(await response.read()) == len(PAGE)

        await _drive(urls, fetch)


async def shared_httpx(urls: Sequence[str]) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=30, limits=limits) as client:

        async def fetch(url: str) -> None:
            for _ in range(3):  # its pool drops a connection now and then on a busy machine
                with contextlib.suppress(httpx.ReadError):
                    assert len((await client.get(url)).content) == len(PAGE)
                    return
            raise AssertionError(url)

        await _drive(urls, fetch)


async def wire(urls: Sequence[str]) -> None:
    transport = Transport(load({}, allow_networks="127.0.0.0/8"))

    async def fetch(url: str) -> None:
        with BodySink() as sink:
            answer = await transport.fetch(url, FIELDS, sink)
            assert answer.reason is None, answer.detail
            assert sink.size == len(PAGE)

    await _drive(urls, fetch)
    await transport.close()


class _Runtime:
    """The least runtime: feeds the stage as it has room, forgets what it produces."""

    def __init__(self) -> None:
        spec = CrawlSpec(crawl="bench", delay_s=0, per_host=4)
        self._rules = compile_rules(spec)
        self.completed = 0

    def rules(self, _crawl: str) -> Rules:
        return self._rules

    def pages(self, _crawl: str) -> int:
        return 0

    async def deliver(self, messages: Sequence[Out]) -> None:
        assert all(message.topic == "fetch-results" for message in messages)

    async def begin(self, _delivery: Delivery) -> bool:
        return True

    def put_back(self, _delivery: Delivery) -> None: ...

    def complete(self, _delivery: Delivery, _counts: Counts | None) -> bool:
        self.completed += 1
        return True

    def current(self, _delivery: Delivery) -> bool:
        return True


async def stage(urls: Sequence[str]) -> None:
    values = [(_host(url).encode(), _request(url)) for url in urls]
    runtime = _Runtime()
    made = FetchStage()
    source = Source(FETCH_REQUESTS, 0)
    with tempfile.TemporaryDirectory() as folder:
        settings = load(
            {},
            agent="bench",
            contact="https://bench.example",
            allow_networks="127.0.0.0/8",
            data_dir=Path(folder),
            concurrency=IN_FLIGHT,
        )
        await made.start(Context(settings, runtime, runtime, Metrics("fetcher")))
        made.assigned(frozenset({source}))
        at = 0
        while runtime.completed < len(values):
            for _ in range(min(made.room(source), len(values) - at)):
                key, value = values[at]
                made.offer(Delivery(source, at, key, value, 0, 1, runtime))
                at += 1
            await asyncio.sleep(0.01)
        await made.stop()


def _host(url: str) -> str:
    return url.split("/")[2].partition(":")[0]


def _request(url: str) -> bytes:
    host = _host(url)
    record = {
        "crawl": "bench", "url_id": url_id("bench", url), "url": url, "host": host, "depth": 1,
        "scope_host": host, "via": "link", "referrer": url, "redirects": [], "seeded_at": 1,
        "discovered_at": 1, "attempt": 1,
    }  # fmt: skip
    return encode("fetch-request", record)


CONTENDERS = {
    "raw aiohttp": raw_aiohttp,
    "shared httpx client": shared_httpx,
    "fetchers.http.transport": wire,
    "fetch stage": stage,
}


def measure(urls: Sequence[str], contender: Callable[[Sequence[str]], Awaitable[None]]) -> float:
    """CPU milliseconds a page; the first tenth of the pages warms up and is not counted."""

    async def main() -> float:
        await contender(urls[: len(urls) // 10])
        began = time.process_time()
        await contender(urls)
        return (time.process_time() - began) * 1000 / len(urls)

    return uvloop.run(main())


def main() -> int:
    """Print the table; 1 when a target is missed under `--check`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=6_000)
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
    server.start()
    port = here.recv()
    urls = [
        f"http://127.0.0.{1 + number % options.hosts}:{port}/p/{number}"
        for number in range(options.pages)
    ]
    figures = {}
    for name, contender in CONTENDERS.items():
        sample = urls[:1_000] if contender is shared_httpx else urls
        figures[name] = min(measure(sample, contender) for _ in range(2))
        print(f"{name:22} {figures[name]:6.3f} ms CPU a page", flush=True)
    server.terminate()
    server.join()
    missed = (
        figures["fetchers.http.transport"] > WIRE_TARGET_MS
        or figures["fetch stage"] > STAGE_TARGET_MS
    )
    return int(options.check and missed)


if __name__ == "__main__":
    sys.exit(main())
