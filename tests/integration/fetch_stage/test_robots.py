"""robots.txt in the fetch stage: asked for first, kept to, and what its absence means."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from schemas.crawl import CrawlSpec
from tests.cases import case
from tests.integration.fetch_stage.specs import FAST, OPEN
from tests.unit.fetchers.fakes import Web, html, request_for, response, running

if TYPE_CHECKING:
    from pathlib import Path


async def test_disallowed_is_disregarded(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/robots.txt"] = response(200, b"User-agent: acmebot\nDisallow: /p\n")
        web.pages["/q"] = html()
        runtime.seed(request_for(web.url("/p")), request_for(web.url("/q")))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert (letter["reason"], letter["kind"], letter["attempts"]) == (
        "robots_denied",
        "disregarded",
        0,
    )
    assert web.paths() == ["/q"]
    assert runtime.counts["disregarded.robots_denied"] == 1


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_unreachable_robots_holds_the_host_and_is_asked_again(
    tmp_path: Path, status: int
) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/robots.txt"] = response(
            status, b"User-agent: *\nAllow: /\n", "Retry-After: 1", "Content-Type: text/plain"
        )
        web.pages["/a"] = html()
        runtime.seed(request_for(web.url("/a")))
        await asyncio.sleep(0.5)
        assert web.paths() == []
        web.pages["/robots.txt"] = OPEN
        await runtime.until_idle()
    assert runtime.counts["pages"] == 1
    assert {later["last_reason"] for _, later in runtime.retries()} <= {"robots_unreachable", ""}
    assert web.requests[1].at - web.requests[0].at >= 0.95


async def test_rob_18_robots_is_per_scheme_host_and_port(tmp_path: Path) -> None:
    async with Web() as one, Web() as two, running(tmp_path, FAST) as runtime:
        one.default = two.default = html()
        two.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /\n")
        one.pages["/robots.txt"] = OPEN
        runtime.seed(request_for(one.url("/x?add=1")), request_for(two.url("/x")))
        await runtime.until_idle()
    assert one.paths(robots=True) == ["/robots.txt", "/x?add=1"]
    assert two.paths(robots=True) == ["/robots.txt"]


async def test_rob_19_a_redirect_loop_of_robots_is_one_decision(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = response(302, b"", "Location: /r2")
        web.pages["/r2"] = response(302, b"", "Location: /robots.txt")
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(5)))
        await runtime.until_idle()
    asked = [path for path in web.paths(robots=True) if path in ("/robots.txt", "/r2")]
    assert len(asked) == case("rob-19")["expected"]["requests_max"]
    assert runtime.counts["pages"] == 5


async def test_robots_of_another_host_by_redirect_counts_for_the_first(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = response(301, b"", f"Location: {web.url('/r', '127.0.0.2')}")
        web.pages["/r"] = response(200, b"User-agent: *\nDisallow: /p\n")
        runtime.seed(request_for(web.url("/p")), request_for(web.url("/q")))
        await runtime.until_idle()
    assert web.paths() == ["/r", "/q"]


async def test_sitemaps_go_with_the_first_result(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, sitemaps="robots")
    async with Web() as web, running(tmp_path, spec) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = response(200, b"Sitemap: /s.xml\nSitemap: http://o.example/t\n")
        runtime.seed(request_for(web.url("/1")), request_for(web.url("/2")))
        await runtime.until_idle()
        first, second = runtime.results()
    assert first["sitemaps"] == [web.url("/s.xml"), "http://o.example/t"]
    assert second["sitemaps"] == []


async def test_robots_that_cannot_be_dialled_gives_the_address_as_reason(tmp_path: Path) -> None:
    async with running(tmp_path, FAST, allow_networks="") as runtime:
        runtime.seed(request_for("http://127.0.0.1:9/x"), request_for("http://[::ffff:7f00:1]/y"))
        await runtime.until_idle()
        letters = runtime.letters()
    assert {letter["reason"] for letter in letters} == {"blocked_address"}
    assert len(letters) == 2
