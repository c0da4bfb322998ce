"""The fetch stage's pace: pauses that hosts ask for, priority, dead hosts, caps of an address."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from schemas.crawl import CrawlSpec
from tests.integration.fetch_stage.specs import FAST, OPEN
from tests.integration.recorder import Site
from tests.unit.fetchers.fakes import Request, Web, html, request_for, response, running

if TYPE_CHECKING:
    from pathlib import Path


async def test_retry_after_holds_the_whole_host(tmp_path: Path) -> None:
    async def once(request: Request, reader: Any, writer: Any) -> None:
        first = web.paths() == [request.path]
        writer.write(response(429, b"", "Retry-After: 1") if first else html())
        await writer.drain()

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = once
        web.pages["/robots.txt"] = OPEN
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(5)))
        await runtime.until_idle()
    times = [request.at for request in web.requests if request.path != "/robots.txt"]
    assert times[1] - times[0] >= 1.0
    assert runtime.counts["pages"] == 5
    assert runtime.counts["retries"] == 1
    assert runtime.counts["deferrals"] >= 4


async def test_crawl_delay_of_robots_is_obeyed(tmp_path: Path) -> None:
    with Site(robots=response(200, b"User-agent: *\nCrawl-delay: 0.3\n")) as site:
        async with running(tmp_path, FAST) as runtime:
            runtime.seed(*(request_for(site.url(f"/{number}")) for number in range(3)))
            await runtime.until_idle()
        (gap_s,) = site.gaps().values()
    assert gap_s >= 0.299


async def test_priority_within_a_host(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html()
        for number in range(6):
            runtime.seed(request_for(web.url(f"/{number}"), priority=number))
        await runtime.until_idle()
    assert web.paths() == ["/5", "/4", "/3", "/2", "/1", "/0"]


async def test_a_dead_host_is_left_alone(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html(b"x", "Connection: close")
        web.pages["/robots.txt"] = response(404, b"", "Connection: close")
        runtime.seed(request_for(web.url("/first")))
        await runtime.until_idle()
        await web.down()
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(40)))
        await runtime.until(lambda: len(runtime.completed) > 40)
        assert runtime.counts["retries"] <= 8
        assert runtime.counts["deferrals"] >= 32
        await web.up()
        await runtime.until_idle(60)
    assert runtime.counts["pages"] == 41
    assert runtime.letters() == []


async def test_per_address_cap(tmp_path: Path) -> None:
    active = peak = 0

    async def slow(request: Request, reader: Any, writer: Any) -> None:
        nonlocal active, peak
        if request.path == "/robots.txt":
            writer.write(OPEN)
            return
        active += 1
        peak = max(peak, active)
        await asyncio.sleep(0.2)
        active -= 1
        writer.write(html())

    spec = CrawlSpec(crawl="c", delay_s=0, per_host=8)
    async with Web() as web, running(tmp_path, spec, per_address=3) as runtime:
        web.default = slow
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(12)))
        await runtime.until_idle()
    assert runtime.counts["pages"] == 12
    assert peak == 3
