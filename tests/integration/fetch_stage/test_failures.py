"""Failures in the fetch stage: retries, dead letters, and which of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from schemas.reasons import REASONS, Reason
from schemas.topics import FETCH_REQUESTS, RETRY_TIERS
from tests.integration.fetch_stage.specs import FAST, OPEN
from tests.unit.fetchers.fakes import Request, Web, html, request_for, response, running

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "http_4xx"), (410, "http_4xx"), (501, "http_5xx"), (999, "http_odd")],
)
async def test_permanent_statuses(tmp_path: Path, status: int, reason: str) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(status, b"no")
        web.pages["/robots.txt"] = OPEN
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert (letter["reason"], letter["status"], letter["attempts"]) == (reason, status, 1)
    assert letter["first_attempt_at"] > 0
    assert runtime.retries() == []


async def test_attempts_are_bounded_and_their_history_is_kept(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(502)
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle(20)
        (letter,) = runtime.letters()
        retries = runtime.retries()
    attempts = REASONS[Reason.HTTP_502].max_attempts
    assert web.paths() == ["/a"] * attempts
    assert letter["attempts"] == attempts
    assert letter["first_reason"] == "http_502"
    assert sorted(request["attempt"] for _, request in retries) == list(range(2, attempts + 1))
    assert len({request["first_attempt_at"] for _, request in retries}) == 1
    assert [topic for topic, _ in sorted(retries, key=lambda pair: pair[1]["attempt"])] == list(
        RETRY_TIERS[: attempts - 1]
    )
    assert runtime.counts["retries"] == attempts - 1
    assert runtime.counts["failed.http_502"] == 1


async def test_a_retry_waits_for_its_time(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(500)
        runtime.seed(request_for(web.url("/a")))
        await web.asked("/a")
        web.pages["/a"] = html()
        await runtime.until_idle()
        ((topic, retry),) = runtime.retries()
    assert topic == "retry-10m" if REASONS[Reason.HTTP_500].base_delay_s > 120 else "retry-2m"
    first, second = (request.at for request in web.requests if request.path == "/a")
    assert second - first >= 0.4
    assert retry["not_before"] > 0
    assert runtime.results()[0]["attempt"] == 2


async def test_incomplete_bodies_are_kept_when_attempts_are_spent(tmp_path: Path) -> None:
    async def short(request: Request, reader: Any, writer: Any) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 500\r\n\r\n<p>x"
        )
        await writer.drain()
        writer.close()

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = short
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle(20)
        (result,) = runtime.results()
    assert (result["truncated"], result["body"]) == (True, b"<p>x")
    assert result["attempt"] == REASONS[Reason.INCOMPLETE].max_attempts
    assert runtime.letters() == []


async def test_content_types_that_are_not_wanted_are_disregarded(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/v"] = response(200, b"x" * 200_000, "Content-Type: video/mp4")
        web.pages["/u"] = response(200, b"plain", "Content-Type: ")
        runtime.seed(request_for(web.url("/v")), request_for(web.url("/u")))
        await runtime.until_idle()
        (letter,) = runtime.letters()
        (result,) = runtime.results()
    assert (letter["reason"], letter["kind"]) == ("content_type", "disregarded")
    assert result["url"] == web.url("/u")


@pytest.mark.parametrize("value", [b"", b"junk", b"\xc3\x01" + b"\0" * 20, None])
async def test_unreadable_messages_are_dead_letters(tmp_path: Path, value: bytes | None) -> None:
    async with running(tmp_path, FAST) as runtime:
        runtime.append(FETCH_REQUESTS, b"k", value)
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] in ("undecodable", "unknown_schema")
    assert letter["payload"] == (value or b"")
    assert letter["origin_topic"] == FETCH_REQUESTS


@pytest.mark.parametrize("url", ["ftp://a.example/", "http://a b/", "http://a.example/\r\nX: y"])
async def test_urls_of_foreign_producers_are_parsed_again(tmp_path: Path, url: str) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        request = request_for("http://a.example/")
        request["url"] = url.replace("a.example", f"127.0.0.1:{web.port}")
        runtime.seed(request)
        await runtime.until_idle()
    assert all("\r" not in path and " " not in path for path in web.paths(robots=True))
    assert len(runtime.letters()) == 1
