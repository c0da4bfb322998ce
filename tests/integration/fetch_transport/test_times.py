"""Times over real sockets: the deadline, the first byte, silence."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fetchers.http.transport import Transport
from schemas.reasons import Reason
from tests.cases import case
from tests.integration.fetch_transport.exchange import fetch
from tests.unit.fetchers.fakes import Request, Web


async def _drip(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def test_tmo_01_a_drip_ends_at_the_deadline(transport: Transport, web: Web) -> None:
    web.pages["/"] = _drip
    given_s = case("tmo-01")["input"]
    began = time.monotonic()
    got = await fetch(
        transport, web.url(), deadline_s=given_s["deadline_s"], idle_s=given_s["read_timeout_s"]
    )
    assert given_s["deadline_s"] - 0.01 <= time.monotonic() - began < 20
    assert got.reason is Reason.DEADLINE


async def test_first_byte_limit(transport: Transport, web: Web) -> None:
    async def silent(request: Request, reader: Any, writer: Any) -> None:
        await asyncio.sleep(5)

    web.pages["/"] = silent
    got = await fetch(transport, web.url(), first_byte_s=0.1)
    assert got.reason is Reason.FIRST_BYTE_TIMEOUT


async def test_dripping_headers_do_not_prolong_the_first_byte_limit(
    transport: Transport, web: Web
) -> None:
    async def slow(request: Request, reader: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(100):
            writer.write(b"X-%d: y\r\n" % number)
            await writer.drain()
            await asyncio.sleep(0.02)

    web.pages["/"] = slow
    got = await fetch(transport, web.url(), first_byte_s=0.2)
    assert got.reason is Reason.FIRST_BYTE_TIMEOUT


async def test_idle_limit(transport: Transport, web: Web) -> None:
    async def stalls(request: Request, reader: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nstart")
        await writer.drain()
        await asyncio.sleep(5)

    web.pages["/"] = stalls
    got = await fetch(transport, web.url(), idle_s=0.1)
    assert got.reason is Reason.IDLE_TIMEOUT
