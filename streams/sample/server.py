"""A small HTTP/1.1 server for the sample site, on loopback, with a log of every request."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import time
import zlib
from collections import Counter, defaultdict
from email.utils import formatdate
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

import brotli
import zstandard

from streams.sample.model import Page, Response
from streams.sample.site import Site

_IDLE_S: Final = 75.0
_MAX_HEAD_BYTES: Final = 64 * 1024


class Hit(NamedTuple):
    """One request. `at` is the time of its arrival, seconds since the epoch."""

    at: float
    method: str
    target: str
    status: int


class _Request(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    keep: bool


class SampleServer:
    """Serves a `Site` on a loopback address; use as an async context manager.

    Args:
        host: an address of 127.0.0.0/8.
        port: to listen on; 0: any free one.
        access_log: file that gets one JSON object a request; None: none.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, access_log: Path | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._access_log = access_log
        self._log: IO[str] | None = None
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._served: Counter[str] = Counter()
        self._coded: dict[tuple[int, str], bytes] = {}
        self.hits: dict[str, list[Hit]] = defaultdict(list)
        """Requests by request target, in order of arrival."""
        self.site: Site

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._connection, self._host, self._port, limit=_MAX_HEAD_BYTES
        )
        port = self._server.sockets[0].getsockname()[1]
        self.site = Site(f"http://{self._host}:{port}")
        if self._access_log:
            self._log = self._access_log.open("a", encoding="utf-8")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
            for writer in tuple(self._writers):
                writer.close()
            await self._server.wait_closed()
        if self._log:
            self._log.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while request := await _read(reader):
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            pass
        except asyncio.LimitOverrunError:
            writer.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\n\r\n")
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter) -> bool:
        """Send one response. False: the connection ends with it."""
        arrived = time.time()
        page = self.site.page(request.target)
        response = self._choose(request, page)
        if response.wait_s:
            await asyncio.sleep(response.wait_s)
        head, body = self._render(request, response)
        self._count(Hit(arrived, request.method, request.target, _status_in(head)))
        if response.cut:
            writer.write(head + body[: len(body) // 2])
            await writer.drain()
            return False
        writer.write(head if request.method == "HEAD" else head + body)
        await writer.drain()
        return request.keep

    def _choose(self, request: _Request, page: Page | None) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, (("Allow", "GET, HEAD"),))
        if page is None:
            return Response(404, (("Content-Type", "text/plain"),), b"No such page.\n")
        if page.redirects_to_target and request.target != page.target:
            return Response(301, (("Location", page.target),))
        if page.cookie and page.cookie not in request.headers.get("cookie", ""):
            cookie = ("Set-Cookie", f"{page.cookie}; Path=/")
            return Response(302, (("Location", page.target), cookie))
        nth = min(self._served[page.target], len(page.responses) - 1)
        if request.method == "GET":
            self._served[page.target] += 1
        return page.responses[nth]

    def _render(self, request: _Request, response: Response) -> tuple[bytes, bytes]:
        lines = [f"Date: {formatdate(usegmt=True)}", "Server: harrow"]
        lines += [f"{name}: {value}" for name, value in response.headers]
        body, status = response.body, response.status
        if status == 200:
            tag = f'"{blake2b(body, digest_size=8).hexdigest()}"'
            lines.append(f"ETag: {tag}")
            if request.headers.get("if-none-match") == tag:
                body, status = b"", 304
        accepted = request.headers.get("accept-encoding", "")
        if body and response.coding:
            lines.append("Vary: Accept-Encoding")
            if response.coding in accepted.replace(" ", "").split(","):
                lines.append(f"Content-Encoding: {response.coding}")
                body = self._encode(response)
        if status != 304:
            lines.append(f"Content-Length: {len(body)}")
        lines.append("Connection: keep-alive" if request.keep else "Connection: close")
        first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
        return "\r\n".join([first, *lines, "", ""]).encode("latin-1"), body

    def _encode(self, response: Response) -> bytes:
        key = (id(response), response.coding)
        if key not in self._coded:
            self._coded[key] = encode(response.body, response.coding)
        return self._coded[key]

    def _count(self, hit: Hit) -> None:
        self.hits[hit.target].append(hit)
        if self._log:
            self._log.write(json.dumps(hit._asdict()) + "\n")
            self._log.flush()


def encode(body: bytes, coding: str) -> bytes:
    """A body under a content coding: gzip, deflate (zlib), br or zstd."""
    if coding == "gzip":
        return gzip.compress(body, 6, mtime=0)
    if coding == "deflate":
        return zlib.compress(body)
    if coding == "br":
        return bytes(brotli.compress(body, quality=5))
    return zstandard.ZstdCompressor().compress(body)


def _status_in(head: bytes) -> int:
    return int(head[9:12])


async def _read(reader: asyncio.StreamReader) -> _Request | None:
    """The next request of a connection, or None at its end or when it is no HTTP."""
    async with asyncio.timeout(_IDLE_S):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        return None
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length", "0")
    if length.isdigit() and 0 < int(length) <= _MAX_HEAD_BYTES:
        await reader.readexactly(int(length))
    connection = headers.get("connection", "").lower()
    keep = connection != "close" and (parts[2] != "HTTP/1.0" or connection == "keep-alive")
    return _Request(parts[0], parts[1], headers, keep)
