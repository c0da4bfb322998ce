"""Partitions that come and go: a rebalance, a drain, tiers that wait."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from schemas.crawl import CrawlSpec
from schemas.topics import RETRY_TIERS
from streams.kafka.messages import Source
from tests.integration.fetch_stage.specs import FAST, OPEN
from tests.integration.recorder import Site
from tests.unit.fetchers.fakes import Request, Web, html, request_for, running

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_rebalance_loses_nothing(tmp_path: Path) -> None:
    async def slow(request: Request, reader: Any, writer: Any) -> None:
        await asyncio.sleep(0.01)
        writer.write(html())

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = slow
        web.pages["/robots.txt"] = OPEN
        requests = [request_for(web.url(f"/{number}")) for number in range(60)]
        runtime.seed(*requests)
        await runtime.until(lambda: len(runtime.completed) >= 5)
        assert len(runtime.completed) < 60
        await runtime.rebalance()
        await runtime.until_idle()
    assert Counter(web.paths()) == Counter({f"/{number}": 1 for number in range(60)})
    assert runtime.counts["pages"] == 60


async def test_a_drain_that_is_cut_short_gives_up_what_is_under_way(tmp_path: Path) -> None:
    async def hang(request: Request, reader: Any, writer: Any) -> None:
        await asyncio.sleep(5)

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = hang
        web.pages["/robots.txt"] = OPEN
        runtime.seed(request_for(web.url("/a")))
        await web.asked("/a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runtime.stage.revoke(runtime.sources()), 0.1)
        async with asyncio.timeout(5):
            while runtime.stage.in_flight:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        runtime.epoch += 1
    assert runtime.completed == []


async def test_hosts_wait_one_delay_after_an_assignment(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0.3)
    with Site() as site:
        async with running(tmp_path, spec) as runtime:
            assigned_at = runtime.stage.intake.assigned_at[0]
            runtime.seed(request_for(site.url("/a")))
            await runtime.until_idle()
        robots, page = site.arrivals()
    assert robots.at - assigned_at >= 0.299
    assert page.at - robots.at >= 0.299


async def test_a_tier_is_read_ahead_a_little_and_then_held(tmp_path: Path) -> None:
    async with running(tmp_path, FAST, window=40) as runtime:
        later = int(time.time() * 1000) + 60_000
        runtime.seed(
            *(
                request_for(f"http://127.0.0.1:9/{number}", attempt=2, not_before=later)
                for number in range(50)
            ),
            topic=RETRY_TIERS[2],
        )
        await runtime.until(lambda: runtime.offered >= 10)
        await asyncio.sleep(0.1)
        assert runtime.offered == 10
        assert runtime.stage.room(Source(RETRY_TIERS[2], 0)) == 0


async def test_a_clock_that_was_wrong_delays_a_retry_by_its_tier_at_most(tmp_path: Path) -> None:
    """The fetcher that wrote it was an hour ahead, or this one is an hour behind."""
    async with Web() as web, running(tmp_path, FAST, retry_tiers_s="0.1,1,2,3,4") as runtime:
        web.default = html()
        hour = int(time.time() * 1000) + 3_600_000
        url = web.url("/a")
        runtime.seed(request_for(url, attempt=2, not_before=hour), topic=RETRY_TIERS[0])
        await runtime.until(lambda: "/a" in web.paths())
        await runtime.until_idle()
