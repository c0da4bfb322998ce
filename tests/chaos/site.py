"""The web that is crawled: hosts on loopback addresses, a known link graph, hits counted.

Islands of pages, each reachable from its seed. Some URLs redirect, some fail for good, some fail
at first, some are forbidden by robots.txt; links point back, around, to other islands, and spell
the same URL in several ways.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from schemas.reasons import REASONS, Reason

Outcome = str
"""`record`, or the reason of a dead letter."""
HOSTS: Final = 8
_IDLE_S: Final = 60.0


class Page(NamedTuple):
    """One URL. `fails`: how many requests it answers with 500 first; 99: all."""

    url: str
    status: int
    links: tuple[str, ...] = ()
    location: str = ""
    fails: int = 0
    forbidden: bool = False
    wait_s: float = 0.0


class Site:
    """Serves pages and counts hits; an async context manager.

    Args:
        seed: of the link graph.
        size: pages of an island.
    """

    def __init__(self, seed: int, size: int = 60) -> None:
        self._rng = random.Random(seed)
        self._size = size
        self._server: asyncio.Server | None = None
        self._port = 0
        self.pages: dict[str, Page] = {}
        self.seeds: list[str] = []
        self.hits: defaultdict[str, list[float]] = defaultdict(list)
        """Times of the requests of each URL, seconds since the epoch."""
        self.in_flight = 0

    async def __aenter__(self) -> Self:
        hosts = [f"127.0.9.{number + 1}" for number in range(HOSTS)]
        self._server = await asyncio.start_server(self._serve, hosts[0], 0)
        self._port = self._server.sockets[0].getsockname()[1]
        self._others = [
            await asyncio.start_server(self._serve, host, self._port) for host in hosts[1:]
        ]
        self._bases = [f"http://{host}:{self._port}" for host in hosts]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        for server in (self._server, *self._others):
            server.close()

    def grow(self) -> str:
        """Add an island; its seed."""
        rng, number = self._rng, len(self.seeds)
        urls = [
            f"{rng.choice(self._bases)}/{'private/' * (n > 0 and rng.random() < 0.03)}i{number}/{n}"
            for n in range(self._size)
        ]
        links: dict[str, list[str]] = {url: [] for url in urls}
        old = list(self.pages)
        good = [urls[0]]
        made: dict[str, Page] = {}
        for at, url in enumerate(urls):
            kind = rng.random() if at else 1.0
            page = Page(url, 200, wait_s=rng.choice((0.0, 0.05, 0.1, 0.3, 0.8)))
            if at:
                links[rng.choice(good)].append(url)
            if "/private/" in url:
                page = page._replace(forbidden=True)
            elif kind < 0.06:
                page = page._replace(status=rng.choice((301, 302, 307, 308)))
                page = page._replace(location=rng.choice([one for one in urls if one != url]))
            elif kind < 0.10:
                page = page._replace(status=rng.choice((404, 410, 403)))
            elif kind < 0.12:
                page = page._replace(fails=99)
            elif kind < 0.17:
                page = page._replace(fails=rng.choice((1, 2)))
            else:
                good = [*good[-12:], url]
            made[url] = page
        for url, page in made.items():
            if page.status == 200 and not page.forbidden:
                more = [rng.choice(urls) for _ in range(4)]
                more += [rng.choice(old)] if old else []
                made[url] = page._replace(links=tuple(links[url] + more))
        self.pages.update(made)
        self.seeds.append(urls[0])
        return urls[0]

    def expected(self) -> dict[str, Outcome]:
        """The outcome of each URL that is reachable from the seeds."""
        found: dict[str, Outcome] = {}
        waiting = deque(self.seeds)
        while waiting:
            page = self.pages[waiting.popleft()]
            if page.url in found:
                continue
            found[page.url] = outcome(page)
            if found[page.url] == "record":
                waiting.extend(page.links)
                if page.location:
                    waiting.append(page.location)
        return found

    def planned(self, url: str) -> int:
        """Requests of a crawl without faults."""
        page = self.pages[url]
        if page.forbidden:
            return 0
        return min(page.fails + 1, REASONS[Reason.HTTP_500].max_attempts)

    # HTTP.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        base = "http://{}:{}".format(*writer.get_extra_info("sockname")[:2])
        try:
            while head := await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _IDLE_S):
                target = head.split(b" ", 2)[1].decode()
                writer.write(await self._answer(base, target))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the run is over, or the client has left
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, base: str, target: str) -> bytes:
        if target == "/robots.txt":
            return _response(200, b"User-agent: *\nDisallow: /private/\n", kind="text/plain")
        page = self.pages.get(base + target)
        if page is None:
            return _response(404, b"not here")
        hits = self.hits[page.url]
        hits.append(time.time())
        count = len(hits)
        self.in_flight += 1
        try:
            await asyncio.sleep(page.wait_s)
        finally:
            self.in_flight -= 1
        if count <= page.fails:
            return _response(500, b"later")
        if page.location:
            return _response(page.status, b"", f"Location: {page.location}\r\n")
        if page.status != 200:
            return _response(page.status, b"gone")
        return _response(200, html(page, self.pages))


def outcome(page: Page) -> Outcome:
    """What becomes of a URL."""
    if page.forbidden:
        return Reason.ROBOTS_DENIED.value
    if page.fails >= 99:
        return Reason.HTTP_500.value
    if page.status >= 400:
        return Reason.HTTP_4XX.value
    return "record"


def html(page: Page, pages: Iterable[str]) -> bytes:
    """The page. Each link is spelled in one of several ways that mean the same URL."""
    spelled = []
    for number, link in enumerate(page.links):
        way = (len(page.url) + number) % 4
        if way == 1:
            link += "#part"  # noqa: PLW2901 - the same URL
        elif way == 2:
            link = link.replace("http://", "HTTP://")  # noqa: PLW2901 - the same URL
        elif way == 3:
            link = link.replace("/i", "/x/../i", 1)  # noqa: PLW2901 - the same URL
        spelled.append(f'<a href="{link}">link {number}</a>')
    body = f"<html><head><title>{page.url}</title></head><body>{' '.join(spelled)}</body></html>"
    return body.encode()


def _response(status: int, body: bytes, extra: str = "", kind: str = "text/html") -> bytes:
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    )
    return head.encode() + body
