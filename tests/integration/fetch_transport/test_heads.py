"""Heads of requests and answers over real sockets: status lines, headers, lengths."""

from __future__ import annotations

import asyncio

import pytest

from fetchers.http.transport import Transport
from schemas.reasons import Reason
from tests.cases import given
from tests.integration.fetch_transport.exchange import PLAIN, fetch, raw
from tests.unit.fetchers.fakes import Request, Web, html, response

HDR_01 = {
    "Content-Length: 12 twice": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Length: 12\r\n\r\n"
    ),
    "Content-Length: 12, 12": b"HTTP/1.1 200 OK\r\nContent-Length: 12, 12\r\n\r\n",
    "Content-Length: 12 and Content-Length: 5": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Length: 5\r\n\r\n"
    ),
    "Content-Length: -1": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "Transfer-Encoding: chunked with Content-Length: 3": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nc\r\n"
    ),
    "status 600 or 999": b"HTTP/1.1 999 Odd\r\nContent-Length: 12\r\n\r\n",
    '"HTTP/1.1 200" with no reason': b"HTTP/1.1 200\r\nContent-Length: 12\r\n\r\n",
    '"Server:" with no value': b"HTTP/1.1 200 OK\r\nServer:\r\nContent-Length: 12\r\n\r\n",
    "LF-only line ends": b"HTTP/1.1 200 OK\nServer: x\nContent-Length: 12\n\n",
}


@pytest.mark.parametrize(("row", "expected"), given("hdr-01"))
async def test_hdr_01(transport: Transport, web: Web, row: str, expected: str) -> None:
    tail = b"\r\n0\r\n\r\n" if "chunked" in row else b""
    web.pages["/"] = raw(HDR_01[row] + PLAIN + tail)
    got = await fetch(transport, web.url())
    if expected == "permanent protocol error":
        assert got.reason is Reason.PROTOCOL
    else:
        assert got.reason is None
        assert got.body == PLAIN
        assert got.answer.status == (999 if "999" in row else 200)


async def test_hdr_01_length_beside_chunked_ends_the_connection(
    transport: Transport, web: Web
) -> None:
    web.pages["/"] = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
        b"c\r\n" + PLAIN + b"\r\n0\r\n\r\n"
    )
    await fetch(transport, web.url())
    await fetch(transport, web.url())
    assert [request.connection for request in web.requests] == [1, 2]


HDR_04 = {
    "Transfer-Encoding: gzip, chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        Reason.TRANSFER_CODING,
    ),
    "Transfer-Encoding: identity": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n" + PLAIN,
        Reason.TRANSFER_CODING,
    ),
    "bare HTML with no status line (HTTP/0.9)": (b"<html>hi</html>", Reason.NOT_HTTP),
    "stray CRLF before the status line": (b"\r\n" + html(PLAIN), Reason.NOT_HTTP),
    "connection closed with no byte": (b"", Reason.EMPTY_REPLY),
}


@pytest.mark.parametrize("row", given("hdr-04"))
async def test_hdr_04(transport: Transport, web: Web, row: str) -> None:
    data, reason = HDR_04[row]
    web.pages["/"] = raw(data)
    got = await fetch(transport, web.url())
    assert got.reason is reason
    assert len(web.requests) == 1


@pytest.mark.parametrize(
    "line",
    [b"X : a", b"no colon here", b"X(y): a", b"X: a\rb", b"X: a\r\n folded", b": nameless"],
)
async def test_odd_header_lines_spoil_only_themselves(
    transport: Transport, web: Web, line: bytes
) -> None:
    web.pages["/"] = b"HTTP/1.1 200 OK\r\n" + line + b"\r\nContent-Length: 12\r\n\r\n" + PLAIN
    got = await fetch(transport, web.url())
    assert (got.reason, got.body) == (None, PLAIN)


async def test_a_nul_in_the_head_is_refused_as_browsers_do(transport: Transport, web: Web) -> None:
    web.pages["/"] = b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 12\r\n\r\n" + PLAIN
    got = await fetch(transport, web.url())
    assert (got.reason, got.body) == (Reason.PROTOCOL, b"")
    assert "NUL" in got.answer.detail
    assert "\0" not in got.answer.detail


async def test_interim_answers_are_passed_over(transport: Transport, web: Web) -> None:
    web.pages["/"] = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + html(PLAIN)
    )
    got = await fetch(transport, web.url())
    assert (got.answer.status, got.body) == (200, PLAIN)


async def test_headers_beyond_the_cap(transport: Transport, web: Web) -> None:
    lines = [f"X-{number}: {'y' * 1000}" for number in range(70)]
    web.pages["/"] = response(200, PLAIN, *lines)
    got = await fetch(transport, web.url())
    assert got.reason is Reason.HEADERS_TOO_LARGE


async def test_headers_come_byte_by_byte(transport: Transport, web: Web) -> None:
    async def handler(
        request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for byte in html(PLAIN):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    web.pages["/"] = handler
    got = await fetch(transport, web.url())
    assert (got.reason, got.body) == (None, PLAIN)


async def test_the_request_line_is_the_url_as_it_is(transport: Transport, web: Web) -> None:
    web.default = html(PLAIN)
    path = "/%7Ejoe/a%2Fb/{x}|?q=%C3%A9&&a=b+c?&"
    await fetch(transport, web.url(path))
    assert web.paths() == [path]
    assert web.requests[0].headers["host"] == f"127.0.0.1:{web.port}"
