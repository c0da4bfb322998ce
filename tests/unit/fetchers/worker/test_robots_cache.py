"""robots.txt as it is fetched: long, cut, broken off, redirected; and how many are remembered."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fetchers.http.transport import Transport
from fetchers.policy.robots import is_allowed
from fetchers.policy.robots_file import MAX_BYTES, MIN_BYTES
from fetchers.worker import robots_cache
from fetchers.worker.robots_cache import ENTRY_WEIGHT, RobotsCache
from schemas.reasons import Reason
from tests.unit.fetchers.fakes import Web, response, settings_for

if TYPE_CHECKING:
    from fetchers.worker.robots_cache import Entry, RobotsFetch

ALL = b"User-agent: *\n"


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as web:
        yield web


async def fetch(
    web: Web, folder: Path, origin: str = "", **settings: Any
) -> tuple[Entry, RobotsFetch]:
    transport = Transport(settings_for(folder, **settings))
    try:
        return await ask(RobotsCache(transport, ttl_s=600.0), origin or web.url(""))
    finally:
        await transport.close()


async def ask(cache: RobotsCache, origin: str) -> tuple[Entry, RobotsFetch]:
    async def no_wait(_host: str) -> None:
        return

    return await cache.fetch(origin, "acmebot", b"", no_wait)


def allowed(entry: Entry, path: str) -> bool:
    assert not entry.denied
    assert entry.robots is not None
    return is_allowed(entry.robots, path)


def long_file(size: int, last: bytes = b"Disallow: /late\n") -> bytes:
    comment = b"# " + b"x" * 97 + b"\n"
    return ALL + comment * ((size - len(ALL) - len(last)) // len(comment)) + last


async def test_a_long_file_is_obeyed_to_its_end(web: Web, tmp_path: Path) -> None:
    web.pages["/robots.txt"] = response(200, long_file(900_000))
    entry, fetched = await fetch(web, tmp_path, max_wire_bytes=1_000, max_body_bytes=1_000)
    assert not allowed(entry, "/late")
    assert allowed(entry, "/x")
    assert fetched.exceeded == frozenset()


@pytest.mark.parametrize("coded", [False, True])
async def test_a_longer_one_is_cut_and_said_to_be(web: Web, tmp_path: Path, coded: bool) -> None:
    body = ALL + b"Disallow: /p\n" + long_file(MAX_BYTES + 1_000)
    lines = ("Content-Encoding: gzip",) if coded else ()
    body = gzip.compress(body) if coded else body
    web.pages["/robots.txt"] = response(200, body, *lines)
    entry, fetched = await fetch(web, tmp_path)
    assert not allowed(entry, "/p")
    assert allowed(entry, "/late")
    assert fetched.exceeded == {"file"}
    assert fetched.answer.wire_bytes < MAX_BYTES + 300_000


async def test_memory_is_that_of_the_rules_for_us(web: Web, tmp_path: Path) -> None:
    body = b"User-agent: acmebot\nDisallow: /p\nUser-agent: x\n"
    body += b"Disallow: /a/rule/for/somebody/else\n" * ((MAX_BYTES - 100) // 36)
    packed = zlib.compress(body)
    web.pages["/robots.txt"] = response(200, packed, "Content-Encoding: deflate")
    del body
    tracemalloc.start()
    try:
        entry, fetched = await fetch(web, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not allowed(entry, "/p")
    assert fetched.exceeded == frozenset()
    assert peak < MAX_BYTES // 2


async def test_others_have_a_turn_while_a_small_body_decodes_to_a_long_file(
    web: Web, tmp_path: Path
) -> None:
    packed = gzip.compress(long_file(MAX_BYTES))
    web.pages["/robots.txt"] = response(200, packed, "Content-Encoding: gzip")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await fetch(web, tmp_path)
    counting.cancel()
    assert turns > MAX_BYTES // (64 * 1024)


async def test_a_bomb_is_no_file(web: Web, tmp_path: Path) -> None:
    bomb = gzip.compress(b"\n" * MAX_BYTES)
    web.pages["/robots.txt"] = response(200, bomb, "Content-Encoding: gzip")
    entry, fetched = await fetch(web, tmp_path)
    assert entry.denied
    assert entry.reason is Reason.BOMB
    assert fetched.exceeded == frozenset()


@pytest.mark.parametrize("size", [100, MIN_BYTES + 100_000])
async def test_a_file_that_breaks_off_is_unreachable_however_much_came(
    web: Web, tmp_path: Path, size: int
) -> None:
    async def cut(_request: object, _reader: object, writer: asyncio.StreamWriter) -> None:
        body = long_file(size)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) + 1) + body)
        await writer.drain()
        writer.close()

    web.pages["/robots.txt"] = cut
    entry, fetched = await fetch(web, tmp_path)
    assert entry.denied
    assert fetched.answer.reason is Reason.INCOMPLETE
    assert fetched.exceeded == frozenset()


@pytest.mark.parametrize(("size", "enough"), [(100_000, False), (MIN_BYTES + 100_000, True)])
async def test_an_endless_file_is_obeyed_if_enough_came_before_the_deadline(
    web: Web, tmp_path: Path, size: int, enough: bool
) -> None:
    async def endless(_request: object, _reader: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + long_file(size) + b"Disallow: /")
        await writer.drain()
        await asyncio.sleep(30)

    web.pages["/robots.txt"] = endless
    entry, fetched = await fetch(web, tmp_path, fetch_deadline_s=1.0)
    assert entry.denied is not enough
    if enough:
        assert not allowed(entry, "/late")
        assert allowed(entry, "/x")
        assert fetched.exceeded == {"file"}


async def test_the_rules_are_for_the_origin_that_was_asked(web: Web, tmp_path: Path) -> None:
    asked, other = web.url("", "127.0.0.1"), web.url("", "127.0.0.2")
    rules = f"Disallow: {asked}/asked\nDisallow: {other}/other\nSitemap: /s.xml\n".encode()
    web.pages["/robots.txt"] = response(302, b"", f"Location: {other}/elsewhere")
    web.pages["/elsewhere"] = response(200, ALL + rules)
    entry, fetched = await fetch(web, tmp_path, asked)
    assert fetched.url == f"{other}/elsewhere"
    assert not allowed(entry, "/asked")
    assert allowed(entry, "/other")
    assert entry.sitemaps == (f"{other}/s.xml",)


class Files:
    """A transport whose every host has a robots.txt of its own."""

    def __init__(self, folder: Path, body: bytes) -> None:
        self.limits = Transport(settings_for(folder)).limits
        self.body = body

    async def fetch(self, href: str, _fields: bytes, sink: Any, **_: Any) -> Any:
        await sink.write(self.body)
        return Answered()


class Answered:
    status = 200
    headers = ()
    reason = None
    detail = ""
    truncated = False


def cache_of(folder: Path, body: bytes) -> RobotsCache:
    return RobotsCache(Files(folder, body), ttl_s=600.0)  # type: ignore[arg-type]


def known(cache: RobotsCache) -> list[str]:
    return [origin.removeprefix("http://") for origin, _ in cache._entries]


async def test_as_many_files_are_remembered_as_their_weight_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = b"".join(b"Disallow: /%d\n" % number for number in range(100))
    cache = cache_of(tmp_path, ALL + rules)
    entry, _ = await ask(cache, "http://a")
    assert entry.weight > ENTRY_WEIGHT + 100 * 100
    monkeypatch.setattr(robots_cache, "MAX_WEIGHT", 3 * entry.weight)
    for host in "bcd":
        await ask(cache, f"http://{host}")
    assert known(cache) == ["b", "c", "d"]
    assert cache._weight == 3 * entry.weight


async def test_sitemaps_weigh_as_well(tmp_path: Path) -> None:
    names = b"".join(b"Sitemap: /%d/%s\n" % (number, b"x" * 1_000) for number in range(100))
    entry, _ = await ask(cache_of(tmp_path, names), "http://a")
    assert len(entry.sitemaps) == 100
    assert entry.weight > 100_000


async def test_what_was_used_longest_ago_is_forgotten_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots_cache, "MAX_ENTRIES", 3)
    cache = cache_of(tmp_path, ALL)
    for host in "abc":
        await ask(cache, f"http://{host}")
    entry = cache._entries["http://a", "acmebot"]
    assert cache.fresh("http://a", "acmebot", 0.0) is entry
    await ask(cache, "http://d")
    assert known(cache) == ["c", "a", "d"]
    await ask(cache, "http://c")
    assert known(cache) == ["a", "d", "c"]
    assert cache._weight == 3 * ENTRY_WEIGHT


async def test_one_that_is_too_heavy_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots_cache, "MAX_WEIGHT", 1)
    cache = cache_of(tmp_path, ALL + b"Disallow: /p\n")
    await ask(cache, "http://a")
    entry, _ = await ask(cache, "http://b")
    assert not allowed(entry, "/p")
    assert known(cache) == ["b"]
