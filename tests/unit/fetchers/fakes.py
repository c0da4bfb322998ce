"""A runtime without Kafka, and a web server whose every byte the test decides."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import structlog

from fetchers.worker.stage import FetchStage
from schemas.admission import Rules, compile_rules
from schemas.codec import decode, encode
from schemas.topics import (
    DEAD_LETTERS,
    FETCH_REQUESTS,
    FETCH_RESULTS,
    RETRY_TIERS,
    URLS,
    partition_of,
)
from schemas.url import CrawlUrl, parse, url_id
from streams.delivery.stage import Context, Delivery
from streams.kafka.messages import Out, Source
from streams.settings import Settings, load
from streams.telemetry.metrics import Counts, Metrics

if TYPE_CHECKING:
    from pathlib import Path

    from schemas.crawl import CrawlSpec
    from schemas.records import DeadLetter, FetchRequest, FetchResult

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def settings_for(folder: Path, **overrides: Any) -> Settings:
    """Settings for loopback servers, with quick tiers."""
    values: dict[str, Any] = {
        "agent": "acmebot",
        "contact": "https://acme.example/bot",
        "allow_networks": "127.0.0.0/8",
        "data_dir": folder,
        "retry_tiers_s": "0.1,0.2,0.4,0.8,1.6",
    }
    return load({}, **{**values, **overrides})


def request_for(url: str, **changes: Any) -> FetchRequest:
    """A first fetch request for a URL of crawl `c`."""
    parsed = parse(url)
    assert isinstance(parsed, CrawlUrl)
    request: dict[str, Any] = {
        "crawl": "c",
        "url": parsed.href,
        "host": parsed.host,
        "depth": 1,
        "scope_host": parsed.host,
        "via": "link",
        "referrer": "",
        "redirects": [],
        "seeded_at": 1,
        "discovered_at": 2,
        "priority": 0,
        "attempt": 1,
        "first_attempt_at": 0,
        "not_before": 0,
        "deferrals": 0,
        "unavailable": 0,
        "first_reason": "",
        "last_reason": "",
        "last_detail": "",
        "etag": "",
        "last_modified": "",
        "replays": 0,
        "lastmod_at": None,
        **changes,
    }
    request.setdefault("url_id", url_id(request["crawl"], parsed.href))
    result: FetchRequest = request  # type: ignore[assignment]
    return result


class FakeCrawls:
    """Specs by id, and pages as completed."""

    def __init__(self, *specs: CrawlSpec) -> None:
        self.known = {spec.crawl: compile_rules(spec) for spec in specs}
        self.fetched: Counter[str] = Counter()

    def rules(self, crawl: str) -> Rules | None:
        return self.known.get(crawl)

    def pages(self, crawl: str) -> int:
        return self.fetched[crawl]


@dataclass
class FakeRuntime:
    """Owns the partitions of one fake broker; loops what goes to the tiers back in."""

    settings: Settings
    crawls: FakeCrawls
    partitions: int = 1
    stage: FetchStage = field(default_factory=FetchStage)
    produced: dict[str, list[Out]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    completed: list[Delivery] = field(default_factory=list)
    epoch: int = 1
    offered: int = 0
    deliver_s: float = 0.0
    begin_s: float = 0.0
    poll_s: float = 0.005

    def __post_init__(self) -> None:
        self._logs: dict[Source, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
        self._positions: Counter[Source] = Counter()
        self._open: set[tuple[Source, int]] = set()
        self._done: set[tuple[Source, int]] = set()
        self._begun: set[Delivery] = set()
        self._poller: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    # LedgerDoor

    async def begin(self, delivery: Delivery) -> bool:
        assert delivery not in self._begun, "begun twice and never put back"
        self._begun.add(delivery)
        if self.begin_s:
            await asyncio.sleep(self.begin_s)
        return delivery.epoch == self.epoch

    def put_back(self, delivery: Delivery) -> None:
        self._begun.remove(delivery)

    def complete(self, delivery: Delivery, counts: Counts | None) -> bool:
        if delivery.epoch != self.epoch:
            return False
        self._open.remove((delivery.source, delivery.offset))
        self._done.add((delivery.source, delivery.offset))
        self.completed.append(delivery)
        for crawl, named in (counts or {}).items():
            self.counts.update(named)
            self.crawls.fetched[crawl] += named.get("pages", 0)
        self._changed.set()
        return True

    def current(self, delivery: Delivery) -> bool:
        return delivery.epoch == self.epoch

    # Outputs

    async def deliver(self, messages: Sequence[Out]) -> None:
        await asyncio.sleep(self.deliver_s)
        for message in messages:
            self.produced[message.topic].append(message)
            if message.topic in RETRY_TIERS:
                self.append(message.topic, message.key, message.value)

    # The test's side.

    def append(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        partition = partition_of(key or b"", self.partitions)
        self._logs[Source(topic, partition)].append((key, value))

    def seed(self, *requests: FetchRequest, topic: str = FETCH_REQUESTS) -> None:
        for request in requests:
            self.append(topic, request["host"].encode(), encode("fetch-request", request))

    def sources(self) -> frozenset[Source]:
        return frozenset(
            Source(topic, partition)
            for topic in self.stage.topics
            for partition in range(self.partitions)
        )

    async def start(self) -> None:
        await self.stage.start(Context(self.settings, self, self.crawls, Metrics("fetcher")))
        self.stage.assigned(self.sources())
        self._poller = asyncio.ensure_future(self._poll())

    async def _poll(self) -> None:
        while True:
            for source in self.sources():
                log = self._logs[source]
                room = min(self.stage.room(source), 500, len(log) - self._positions[source])
                for _ in range(max(room, 0)):
                    offset = self._positions[source]
                    key, value = log[offset]
                    self._positions[source] += 1
                    if (source, offset) in self._done:
                        continue
                    self._open.add((source, offset))
                    self.offered += 1
                    self.stage.offer(Delivery(source, offset, key, value, 0, self.epoch, self))
            await asyncio.sleep(self.poll_s)

    async def rebalance(self) -> None:
        """Take all partitions away, in order, and give them back under a new epoch.

        What was completed beyond the prefix is not delivered again, as with the real runtime.
        """
        assert self._poller is not None
        self._poller.cancel()
        await self.stage.revoke(self.sources())
        self.epoch += 1
        for source in self.sources():
            first = min((at for src, at in self._open if src == source), default=None)
            if first is not None:
                self._positions[source] = first
        self._open.clear()
        self.stage.assigned(self.sources())
        self._poller = asyncio.ensure_future(self._poll())

    def idle(self) -> bool:
        return not self._open and all(
            self._positions[source] == len(log) for source, log in self._logs.items()
        )

    async def until_idle(self, limit_s: float = 20.0) -> None:
        """Return when every message, those in the tiers included, is completed."""
        await self.until(self.idle, limit_s)

    async def until(self, condition: Callable[[], bool], limit_s: float = 30.0) -> None:
        """Return when a condition holds that completions bring about."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"too late: {sorted(self._open)[:5]}, {self.counts}")
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(0.05, self.poll_s))

    async def stop(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
        await self.stage.revoke(self.sources())
        await self.stage.stop()

    # What came out.

    def results(self) -> list[FetchResult]:
        return [decode("fetch-result", out.value or b"") for out in self.produced[FETCH_RESULTS]]

    def letters(self) -> list[DeadLetter]:
        return [decode("dead-letter", out.value or b"") for out in self.produced[DEAD_LETTERS]]

    def urls(self) -> list[Any]:
        return [decode("url-batch", out.value or b"") for out in self.produced[URLS]]

    def retries(self) -> list[tuple[str, FetchRequest]]:
        return [
            (topic, decode("fetch-request", out.value or b""))
            for topic in RETRY_TIERS
            for out in self.produced[topic]
        ]


@contextlib.asynccontextmanager
async def running(
    folder: Path, spec: CrawlSpec, *, partitions: int = 1, **overrides: Any
) -> AsyncIterator[FakeRuntime]:
    """A started stage with one crawl; stopped at the end."""
    runtime = FakeRuntime(settings_for(folder, **overrides), FakeCrawls(spec), partitions)
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop()


Handler = Callable[["Request", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    """One request as it arrived."""

    at: float
    method: str
    path: str
    headers: dict[str, str]
    connection: int
    peer: str


class Web:
    """A raw HTTP server on loopback: what it answers to a path is bytes, or a handler."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Handler] = {}
        self.default: bytes | Handler = response(404, b"none")
        self.requests: list[Request] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Event()
        self._connections = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def asked(self, path: str, limit_s: float = 5.0) -> None:
        """Return once a path was requested."""
        async with asyncio.timeout(limit_s):
            while path not in self.paths():
                self._arrived.clear()
                await self._arrived.wait()

    def paths(self, *, robots: bool = False) -> list[str]:
        return [
            request.path for request in self.requests if robots or request.path != "/robots.txt"
        ]

    async def up(self) -> None:
        """Listen; again on the same port after `down`."""
        self._server = await asyncio.start_server(self._serve, "0.0.0.0", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse new connections."""
        assert self._server is not None
        self._server.close()
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        try:
            while True:
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.IncompleteReadError:
                    return
                first, *lines = head.decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines if line)
                }
                own = writer.get_extra_info("sockname")[0]
                request = Request(time.monotonic(), method, path, headers, number, own)
                self.requests.append(request)
                self._arrived.set()
                answer = self.pages.get(path, self.default)
                if callable(answer):
                    await answer(request, reader, writer)
                    if writer.is_closing():
                        return
                else:
                    writer.write(answer)
                    await writer.drain()
                    if b"\r\nConnection: close" in answer:
                        return
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            with contextlib.suppress(Exception):
                writer.close()


def response(status: int, body: bytes = b"", *lines: str, length: bool = True) -> bytes:
    """The bytes of a response."""
    head = [f"HTTP/1.1 {status} X", *lines]
    if length:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def html(body: bytes = b"<p>hello</p>", *lines: str) -> bytes:
    """A plain page."""
    return response(200, body, "Content-Type: text/html", *lines)
