"""One exchange over real sockets: headers, codings, sizes, times, addresses. One test a case."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from fetchers.http.addresses import AddressRule
from fetchers.http.answer import Answer, Limits
from fetchers.http.body import BodySink
from fetchers.http.resolver import Resolver
from fetchers.http.transport import Transport
from schemas.reasons import Reason
from tests.cases import case, given
from tests.unit.fetchers.fakes import Request, Web, html, response, settings_for

DATA = Path(__file__).parents[1] / "data"
PLAIN = b"<p>hello</p>"
LIMITS = Limits(
    deadline_s=60.0,
    connect_s=30.0,
    first_byte_s=30.0,
    idle_s=30.0,
    max_header_bytes=64 * 1024,
    max_wire_bytes=16 * 1024 * 1024,
    max_body_bytes=10_000_000,
    max_ratio=500.0,
)


class Got:
    """An answer and its body."""

    def __init__(self, answer: Answer, body: bytes, size: int) -> None:
        self.answer = answer
        self.body = body
        self.size = size
        self.reason = answer.reason


Fetch = Callable[..., Any]


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as server:
        yield server


@pytest.fixture
async def transport(tmp_path: Path) -> AsyncIterator[Transport]:
    made = Transport(settings_for(tmp_path))
    yield made
    await made.close()


async def fetch(transport: Transport, url: str, fields: bytes = b"", **limits: Any) -> Got:
    with BodySink() as sink:
        answer = await transport.fetch(url, fields, sink, limits=LIMITS._replace(**limits))
        return Got(answer, sink.head(10**9), sink.size)


def raw(data: bytes) -> Any:
    """A handler that answers with these bytes and closes."""

    async def handler(
        request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return handler


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


def _zlib(data: bytes, bits: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, bits)
    return packer.compress(data) + packer.flush()


CMP_01: dict[str, bytes] = {
    "zlib-wrapped": _zlib(PLAIN, 15),
    "raw deflate": _zlib(PLAIN, -15),
    "gzip": gzip.compress(PLAIN),
    "gzip twice": gzip.compress(gzip.compress(PLAIN)),
    "brotli(gzip)": brotli.compress(gzip.compress(PLAIN)),
    "plain": PLAIN,
    "gzip + trailing junk": gzip.compress(PLAIN) + b"\0\0junk",
    "two gzip members": gzip.compress(PLAIN[:5]) + gzip.compress(PLAIN[5:]),
}


@pytest.mark.parametrize("pieces", [1, 10_000])
@pytest.mark.parametrize(("coding", "body", "expected"), given("cmp-01"))
async def test_cmp_01(
    transport: Transport, web: Web, coding: str, body: str, expected: str, pieces: int
) -> None:
    if coding == "gzip then br in two header lines":
        lines = ["Content-Encoding: gzip", "Content-Encoding: br"]
    else:
        lines = [f"Content-Encoding: {coding}"]
    data = CMP_01[body]

    async def handler(
        request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        size = max(1, len(data) // pieces)
        writer.write(response(200, data, *lines)[: -len(data)])
        for at in range(0, len(data), size):
            writer.write(data[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)

    web.pages["/"] = handler
    got = await fetch(transport, web.url())
    assert expected.startswith("ok")
    assert got.reason is None
    assert got.body == case("cmp-01")["input"]["plain"].encode()


async def test_zstd(transport: Transport, web: Web) -> None:
    two = zstandard.compress(PLAIN[:4]) + zstandard.compress(PLAIN[4:])
    web.pages["/"] = response(200, two, "Content-Encoding: zstd")
    got = await fetch(transport, web.url())
    assert (got.reason, got.body) == (None, PLAIN)


async def test_three_codings_are_refused(transport: Transport, web: Web) -> None:
    web.pages["/"] = response(200, PLAIN, "Content-Encoding: gzip, br, gzip")
    assert (await fetch(transport, web.url())).reason is Reason.CONTENT_CODING


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate"])
async def test_garbage_is_a_coding_fault(transport: Transport, web: Web, coding: str) -> None:
    web.pages["/"] = response(200, b"\xff\x07garbage" * 9, f"Content-Encoding: {coding}")
    assert (await fetch(transport, web.url())).reason is Reason.CONTENT_CODING


async def test_a_plain_body_labelled_gzip_is_kept(transport: Transport, web: Web) -> None:
    web.pages["/"] = response(200, PLAIN, "Content-Encoding: gzip")
    got = await fetch(transport, web.url())
    assert (got.reason, got.body) == (None, PLAIN)


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate"])
async def test_cmp_03_cut_streams_are_incomplete(
    transport: Transport, web: Web, coding: str
) -> None:
    text = bytes(range(256)) * 40
    coded = {
        "gzip": gzip.compress(text),
        "br": brotli.compress(text),
        "zstd": zstandard.compress(text),
        "deflate": zlib.compress(text),
    }[coding][:-10]
    web.pages["/"] = response(200, coded, f"Content-Encoding: {coding}")
    got = await fetch(transport, web.url())
    assert got.reason is Reason.INCOMPLETE
    assert case("cmp-03")["expected"]["outcome"].startswith("incomplete, retry")


@pytest.mark.parametrize("row", given("cmp-04"))
async def test_cmp_04_empty_bodies(transport: Transport, web: Web, row: list[str]) -> None:
    what, coding, _ = row
    status = int(what.split()[1]) if what.startswith("GET") else 200
    web.pages["/"] = response(
        status, b"", f"Content-Encoding: {coding}", length=status == 200 and what != "HEAD"
    )
    method = "HEAD" if what == "HEAD" else "GET"
    if what == "HEAD":
        web.pages["/"] = response(
            200, b"", "Content-Encoding: br", "Content-Length: 500", length=False
        )
    with BodySink() as sink:
        answer = await transport.fetch(web.url(), b"", sink, limits=LIMITS, method=method)
        assert (answer.reason, sink.size) == (None, 0)


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


async def test_the_request_line_is_the_url_as_it_is(transport: Transport, web: Web) -> None:
    web.default = html(PLAIN)
    path = "/%7Ejoe/a%2Fb/{x}|?q=%C3%A9&&a=b+c?&"
    await fetch(transport, web.url(path))
    assert web.paths() == [path]
    assert web.requests[0].headers["host"] == f"127.0.0.1:{web.port}"


# Addresses.


async def test_private_literals_are_never_connected_to(web: Web, tmp_path: Path) -> None:
    closed = Transport(settings_for(tmp_path, allow_networks=""))
    got = await fetch(closed, web.url())
    await closed.close()
    assert got.reason is Reason.BLOCKED_ADDRESS
    assert web.requests == []


class _Names(Resolver):
    """A resolver whose system look-up the test decides."""

    def __init__(self, rule: AddressRule, answers: list[Any], **times: float) -> None:
        super().__init__(rule, **{"ttl_s": 60.0, "timeout_s": 1.0, **times})
        self.answers = answers
        self.asked: list[str] = []

    def _system(self, host: str) -> list[str]:  # type: ignore[override]
        self.asked.append(host)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            time.sleep(answer)
            return ["127.0.0.1"]
        found: list[str] = answer
        return found


async def test_ssr_04_rebinding_cannot_change_what_was_checked(tmp_path: Path, web: Web) -> None:
    web.default = html(PLAIN)
    rule = AddressRule((*settings_for(tmp_path, allow_networks="127.0.0.0/31").allow_networks,))
    names = _Names(rule, [["127.0.0.1"], ["127.0.0.9"]])
    made = Transport(settings_for(tmp_path, allow_networks="127.0.0.0/31"), resolver=names)
    got = await fetch(made, web.url("/", host="r.example"))
    await made.close()
    assert got.reason is None
    assert got.answer.address == "127.0.0.1"
    assert names.asked == ["r.example"]


async def test_ssr_01_names_of_private_addresses_are_blocked(tmp_path: Path, web: Web) -> None:
    rule = AddressRule()
    names = _Names(rule, [["169.254.169.254", "::1"]])
    made = Transport(settings_for(tmp_path, allow_networks=""), resolver=names)
    got = await fetch(made, web.url("/", host="meta.example"))
    await made.close()
    assert got.reason is Reason.BLOCKED_ADDRESS


@pytest.mark.parametrize("host", ["localhost", "localhost.", "LOCALHOST".lower()])
async def test_ssr_03_localhost_is_blocked(tmp_path: Path, web: Web, host: str) -> None:
    made = Transport(settings_for(tmp_path, allow_networks=""))
    got = await fetch(made, web.url("/", host=host))
    await made.close()
    assert got.reason is Reason.BLOCKED_ADDRESS
    assert web.requests == []


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
