"""Connections: kept, stale, refused, one of its own after 421; TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from fetchers.http.transport import Transport
from schemas.reasons import Reason
from tests.integration.fetch_transport.exchange import PLAIN, fetch, raw
from tests.unit.fetchers.fakes import Request, Web, html, response, settings_for

DATA = Path(__file__).parents[2] / "data"


async def test_tmo_03_stale_keep_alive_is_sent_again_at_once(
    transport: Transport, web: Web
) -> None:
    served = 0

    async def once(request: Request, reader: Any, writer: Any) -> None:
        nonlocal served
        served += 1
        if served == 2:
            writer.transport.abort()
            return
        writer.write(html(PLAIN))
        await writer.drain()

    web.default = once
    assert (await fetch(transport, web.url("/1"))).reason is None
    got = await fetch(transport, web.url("/2"))
    assert (got.reason, got.body) == (None, PLAIN)
    assert web.paths() == ["/1", "/2", "/2"]


async def test_a_fresh_connection_is_not_sent_again(transport: Transport, web: Web) -> None:
    web.pages["/"] = raw(b"")
    got = await fetch(transport, web.url())
    assert got.reason is Reason.EMPTY_REPLY
    assert len(web.requests) == 1


async def test_ssr_06_421_is_asked_again_on_a_connection_of_its_own(
    transport: Transport, web: Web
) -> None:
    async def picky(request: Request, reader: Any, writer: Any) -> None:
        fresh = sum(r.connection == request.connection for r in web.requests) == 1
        known = len(web.requests) == 1 or not fresh
        writer.write(response(421) if known and len(web.requests) > 1 else html(PLAIN))
        await writer.drain()

    web.default = picky
    await fetch(transport, web.url("/1"))
    got = await fetch(transport, web.url("/2"))
    assert (got.answer.status, got.body) == (200, PLAIN)
    assert len(web.requests) == 3
    web.default = response(421)
    got = await fetch(transport, web.url("/3"))
    assert got.answer.status == 421
    assert len(web.requests) == 5


async def test_keep_alive(transport: Transport, web: Web) -> None:
    web.default = html(PLAIN)
    for number in range(3):
        await fetch(transport, web.url(f"/{number}"))
    assert {request.connection for request in web.requests} == {1}


async def test_what_speaks_no_tls_is_a_tls_fault(transport: Transport) -> None:
    async def blurt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(html(PLAIN))
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(blurt, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        got = await fetch(transport, f"https://127.0.0.1:{port}/")
    assert got.reason is Reason.TLS


@pytest.mark.parametrize("verify", [True, False])
async def test_tls_is_verified_by_default(tmp_path: Path, verify: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "tls/cert.pem", DATA / "tls/key.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(html(PLAIN))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    made = Transport(settings_for(tmp_path, verify_tls=verify))
    async with server:
        port = server.sockets[0].getsockname()[1]
        got = await fetch(made, f"https://127.0.0.1:{port}/")
    await made.close()
    assert got.reason is (Reason.TLS if verify else None)
    assert ("self-signed" in got.answer.detail) is verify


async def test_connect_refused(transport: Transport) -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    got = await fetch(transport, f"http://127.0.0.1:{port}/")
    assert got.reason is Reason.CONNECT
