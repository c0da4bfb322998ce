"""Sizes over real sockets: bombs, lengths that are wrong, streams without end."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
import zlib

import brotli
import pytest
import zstandard

from fetchers.http.transport import Transport
from schemas.reasons import Reason
from tests.cases import given
from tests.integration.fetch_transport.exchange import LIMITS, PLAIN, fetch, raw
from tests.unit.fetchers.fakes import Request, Web, html, response

_ZEROS = bytes(30_000_000)
BOMBS = {
    "br": brotli.compress(_ZEROS, quality=4),
    "gzip": gzip.compress(_ZEROS, 1),
    "zstd": zstandard.compress(_ZEROS, 1),
    "deflate": zlib.compress(_ZEROS, 1),
}


@pytest.mark.parametrize("coding", ["br", "gzip", "zstd", "deflate"])
async def test_siz_01_bombs(transport: Transport, web: Web, coding: str) -> None:
    bomb = BOMBS[coding]
    web.pages["/"] = response(200, bomb, f"Content-Encoding: {coding}")
    tracemalloc.start()
    got = await fetch(transport, web.url())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if coding in ("br", "zstd"):
        assert got.reason is Reason.BOMB
        assert peak < 6_000_000
    else:  # at most 1,032 to 1, so that the cap comes first
        assert (got.reason, got.answer.truncated, got.size) == (None, True, 10_000_000)
        assert peak < LIMITS.max_body_bytes + 6_000_000


async def test_siz_01_the_cap_holds_where_no_ratio_does(transport: Transport, web: Web) -> None:
    packer = brotli.Compressor(quality=4)
    bomb = b"".join(packer.process(bytes(1_000_000)) for _ in range(300)) + packer.finish()
    web.pages["/"] = response(200, bomb, "Content-Encoding: br")
    tracemalloc.start()
    got = await fetch(transport, web.url(), max_ratio=1e9)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got.answer.truncated
    assert got.reason is None
    assert peak < LIMITS.max_body_bytes + 16_000_000


SIZ_03 = {
    "Content-Length 500, 12 bytes then close": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + PLAIN
    ),
    "chunked, closed before the last chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n" + PLAIN + b"\r\n"
    ),
    "no length, HTTP/1.1, closed": b"HTTP/1.1 200 OK\r\n\r\n" + PLAIN,
    "Content-Length 5, 12 bytes sent": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + PLAIN,
}


@pytest.mark.parametrize(("row", "expected"), given("siz-03"))
async def test_siz_03(transport: Transport, web: Web, row: str, expected: str) -> None:
    web.pages["/"] = raw(SIZ_03[row])
    got = await fetch(transport, web.url())
    if expected == "incomplete":
        assert got.reason is Reason.INCOMPLETE
        assert got.answer.partial
        assert got.body == PLAIN
    elif expected.startswith("complete"):
        assert (got.reason, got.body) == (None, PLAIN)
    else:
        assert (got.reason, got.body) == (None, PLAIN[:5])
        web.pages["/"] = SIZ_03[row]
        await fetch(transport, web.url())
        await fetch(transport, web.url())
        assert len({request.connection for request in web.requests}) == 3


async def _endless(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n")
    while True:
        writer.write(b"\0" * 16_384)
        await writer.drain()
        await asyncio.sleep(0.01)


async def test_siz_04_endless_stream_stops_at_the_cap(transport: Transport, web: Web) -> None:
    web.pages["/"] = _endless
    got = await fetch(transport, web.url(), max_wire_bytes=1_000_000)
    assert (got.reason, got.answer.truncated, len(got.body)) == (None, True, 1_000_000)
    web.pages["/"] = html(PLAIN)
    await fetch(transport, web.url())
    assert len({request.connection for request in web.requests}) == 2


async def test_siz_04_endless_stream_stops_at_the_deadline(transport: Transport, web: Web) -> None:
    web.pages["/"] = _endless
    began = time.monotonic()
    got = await fetch(transport, web.url(), deadline_s=1.0)
    assert 0.99 <= time.monotonic() - began < 20
    assert (got.reason, got.answer.truncated) == (None, True)
    assert got.size >= 64 * 1024
