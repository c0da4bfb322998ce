"""Content codings over real sockets: one, several, wrong, cut, none."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import brotli
import pytest
import zstandard

from fetchers.http.body import BodySink
from fetchers.http.transport import Transport
from schemas.reasons import Reason
from tests.cases import case, given
from tests.integration.fetch_transport.exchange import LIMITS, PLAIN, fetch
from tests.unit.fetchers.fakes import Request, Web, response


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
