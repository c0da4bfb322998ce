"""The sample server on a real socket, spoken to in raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import brotli
import pytest
import zstandard

from streams.sample.oddities import SLOW_S
from streams.sample.server import SampleServer, encode


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SampleServer]:
    async with SampleServer(access_log=tmp_path / "access.jsonl") as running:
        yield running


async def _ask(server: SampleServer, target: str, *headers: str, method: str = "GET") -> Reply:
    host, _, port = server.site.base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    raw = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    found = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rest)}
    length = int(found.get("content-length", "0"))
    return Reply(int(first.split(" ")[1]), found, body, method == "HEAD" or len(body) == length)


async def test_serves_a_page_and_logs_the_hit(server: SampleServer, tmp_path: Path) -> None:
    reply = await _ask(server, "/")
    assert (reply.status, reply.complete) == (200, True)
    assert b"<title>Harrow Point Field Station</title>" in reply.body
    (hit,) = server.hits["/"]
    assert (hit.method, hit.status) == ("GET", 200)
    row = json.loads((tmp_path / "access.jsonl").read_text())
    assert (row["target"], row["status"]) == ("/", 200)


@pytest.mark.parametrize(
    ("coding", "decode"),
    [
        ("gzip", gzip.decompress),
        ("deflate", zlib.decompress),
        ("br", brotli.decompress),
        ("zstd", lambda body: zstandard.ZstdDecompressor().decompress(body)),
    ],
)
async def test_every_coding_is_used_by_some_page_and_only_if_accepted(
    server: SampleServer, coding: str, decode: object
) -> None:
    assert callable(decode)
    plain = b"tide " * 1_000
    assert decode(encode(plain, coding)) == plain
    targets = [
        url.removeprefix(server.site.base)
        for url, what in server.site.expected().items()
        if what.kind == "html"
    ]
    target = next(
        target
        for target in targets
        if (page := server.site.page(target)) and page.responses[0].coding == coding
    )
    coded = await _ask(server, target, "Accept-Encoding: gzip, deflate, br, zstd")
    bare = await _ask(server, target)
    assert coded.headers["content-encoding"] == coding
    assert "content-encoding" not in bare.headers
    assert decode(coded.body) == bare.body


async def test_errors_that_pass(server: SampleServer) -> None:
    assert [(await _ask(server, "/reports/tides.html")).status for _ in range(3)] == [500, 200, 200]
    first = await _ask(server, "/reports/weather.html")
    assert (first.status, first.headers["retry-after"]) == (503, "1")
    assert (await _ask(server, "/reports/weather.html")).status == 200
    assert [(await _ask(server, "/reports/rainfall.html")).complete for _ in range(2)] == [
        False,
        True,
    ]


async def test_a_body_that_is_always_cut(server: SampleServer) -> None:
    for _ in range(3):
        reply = await _ask(server, "/reports/cut.html")
        assert (reply.status, reply.complete) == (200, False)
        assert 0 < len(reply.body) < int(reply.headers["content-length"])


async def test_redirect_to_another_spelling_and_by_cookie(server: SampleServer) -> None:
    reply = await _ask(server, "/maps/guide/%7Eshort")
    assert (reply.status, reply.headers["location"]) == (301, "/maps/guide/~short")
    assert (await _ask(server, "/maps/guide/~short")).status == 200
    reply = await _ask(server, "/visit/tickets.html")
    assert (reply.status, reply.headers["location"]) == (302, "/visit/tickets.html")
    cookie = reply.headers["set-cookie"].split(";")[0]
    assert (await _ask(server, "/visit/tickets.html", f"Cookie: {cookie}")).status == 200


async def test_conditional_requests(server: SampleServer) -> None:
    first = await _ask(server, "/about/history.html")
    again = await _ask(server, "/about/history.html", f"If-None-Match: {first.headers['etag']}")
    assert (again.status, again.body) == (304, b"")


async def test_unknown_targets_and_methods(server: SampleServer) -> None:
    assert (await _ask(server, "/nowhere")).status == 404
    assert (await _ask(server, "/", method="POST")).status == 405
    head = await _ask(server, "/", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) > 500


async def test_slow_page_waits(server: SampleServer) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert (await _ask(server, "/reports/slow.html")).status == 200
    assert loop.time() - before >= SLOW_S


async def test_keeps_a_connection_and_ends_it_at_the_close(server: SampleServer) -> None:
    host, _, port = server.site.base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for _ in range(2):
        writer.write(b"GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        assert b"Crawl-delay" in await reader.readexactly(length)
    await server.__aexit__()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_nonsense_ends_the_connection(server: SampleServer) -> None:
    host, _, port = server.site.base.removeprefix("http://").partition(":")
    for raw in (b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(raw)
        try:
            answer = await reader.read()
        except ConnectionResetError:
            answer = b""
        assert answer in {b"", b"HTTP/1.1 431 Request Header Fields Too Large\r\n\r\n"}
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert not server.hits
