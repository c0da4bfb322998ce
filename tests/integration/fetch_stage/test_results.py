"""Results of the fetch stage, on a fake runtime and real sockets; each message has one outcome."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import TYPE_CHECKING, Any

import zstandard

from fetchers.worker.messages import fetch_id
from schemas.topics import FETCH_REQUESTS
from streams.kafka.blobs import BlobStore
from streams.kafka.messages import Source
from tests.integration.fetch_stage.specs import ANY, FAST, OPEN
from tests.unit.fetchers.fakes import Web, html, request_for, response, running

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_page_becomes_a_result(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = html(b"<p>hello</p>" * 50, 'ETag: "x"')
        request = request_for(web.url("/a"))
        runtime.seed(request)
        await runtime.until_idle()
        (result,) = runtime.results()
    assert result["status"] == 200
    assert zstandard.decompress(result["body"]) == b"<p>hello</p>" * 50
    assert (result["body_bytes"], result["wire_bytes"]) == (600, 600)
    assert result["content_type"] == "text/html"
    assert result["address"] == "127.0.0.1"
    assert result["attempt"] == 1
    assert result["fetch_id"] == fetch_id(request["url_id"], Source(FETCH_REQUESTS, 0), 0, 1)
    assert web.paths(robots=True) == ["/robots.txt", "/a"]
    assert runtime.counts == {"fetched": 1, "pages": 1, "bytes": 600}
    agent = web.requests[1].headers["user-agent"]
    assert agent == "acmebot (+https://acme.example/bot)"


async def test_hdr_03_the_body_is_decoded_and_its_headers_renamed(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        coded = gzip.compress(b"<p>hello</p>" * 50)
        web.pages["/a"] = html(coded, "Content-Encoding: gzip")
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        (result,) = runtime.results()
    names = [header["name"] for header in result["headers"]]
    assert names == ["content-type", "x-original-content-encoding", "x-original-content-length"]
    assert zstandard.decompress(result["body"]) == b"<p>hello</p>" * 50
    assert result["wire_bytes"] == len(coded)


async def test_many_pages_of_one_fast_host_are_not_deferred(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST, window=100) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = OPEN
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(500)))
        await runtime.until_idle(30)
    assert runtime.counts["fetched"] == 500
    assert runtime.counts["deferrals"] == 0
    assert web.paths(robots=True).count("/robots.txt") == 1


async def test_conditional_requests(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(304, b"", 'ETag: "v2"', length=False)
        runtime.seed(
            request_for(web.url("/a"), etag='"v1"', last_modified="Mon, 01 Jan 2024 00:00:00 GMT")
        )
        await runtime.until_idle()
        (result,) = runtime.results()
    sent = web.requests[-1].headers
    assert sent["if-none-match"] == '"v1"'
    assert sent["if-modified-since"] == "Mon, 01 Jan 2024 00:00:00 GMT"
    assert (result["status"], result["not_modified"], result["body"]) == (304, True, b"")
    assert runtime.counts["not_modified"] == 1


async def test_unsafe_validators_are_left_out(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = html()
        runtime.seed(request_for(web.url("/a"), etag='"x"\r\nEvil: 1', last_modified="\u20ac"))
        await runtime.until_idle()
    assert "evil" not in web.requests[-1].headers
    assert "if-none-match" not in web.requests[-1].headers


async def test_big_01_large_bodies_go_to_the_blob_store(tmp_path: Path) -> None:
    body = b"".join(b"%d " % (number * 7919) for number in range(100_000))
    async with Web() as web, running(tmp_path, FAST, inline_body_bytes=1_000) as runtime:
        web.pages["/big"] = html(body)
        web.pages["/small"] = html(b"small")
        runtime.seed(request_for(web.url("/big")), request_for(web.url("/small")))
        await runtime.until_idle()
        big, small = runtime.results()
        blobs = BlobStore.open(runtime.settings)
        assert (big["body"], big["body_bytes"]) == (b"", len(body))
        pieces = blobs.stream_body(big["body_ref"], big["body_coding"])
        assert b"".join([piece async for piece in pieces]) == body
    assert small["body"] == b"small"
    assert big["body_sha256"].hex() in big["body_ref"]


async def test_every_message_has_exactly_one_outcome(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, ANY) as runtime:
        web.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /denied\n")
        kinds: dict[str, Any] = {
            "ok": html(),
            "moved": response(302, b"", "Location: /elsewhere"),
            "out": response(302, b"", "Location: ftp://x.example/"),
            "gone": response(404),
            "busy": response(503, b"", "Retry-After: 0"),
            "video": response(200, b"x", "Content-Type: video/mp4"),
            "denied": html(),
        }
        for kind, answer in kinds.items():
            for number in range(5):
                web.pages[f"/{kind}{number}"] = answer
                runtime.seed(request_for(web.url(f"/{kind}{number}")))
        runtime.append(FETCH_REQUESTS, b"k", b"junk")
        await runtime.until(lambda: runtime.counts["retries"] > 0)
        for number in range(5):
            web.pages[f"/busy{number}"] = html()
        await runtime.until_idle(20)
    outcomes = Counter(
        {
            name: number
            for name, number in runtime.counts.items()
            if name in ("fetched", "retries", "deferrals")
            or name.partition(".")[0] in ("failed", "disregarded", "rejected")
        }
    )
    assert sum(outcomes.values()) == runtime.offered == len(runtime.completed)
    assert outcomes["fetched"] == len(runtime.results())
    letters = sum(number for name, number in outcomes.items() if "." in name)
    assert letters == len(runtime.letters()) == 5 + 5 + 5 + 1
    assert len(runtime.urls()) == 5
