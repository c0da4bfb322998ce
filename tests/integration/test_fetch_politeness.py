"""Politeness in real time: 50 hosts on loopback and a server that writes down when it is asked."""

from __future__ import annotations

import asyncio
import time
from asyncio import selector_events
from typing import TYPE_CHECKING, Any

from fetchers.http.body import BodySink
from fetchers.http.transport import Transport
from schemas.crawl import CrawlSpec
from tests.integration.recorder import Site
from tests.unit.fetchers.fakes import FakeRuntime, request_for, running, settings_for

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DELAY_S = 0.3
TOLERANCE_S = 0.05
HOSTS = 49
URLS = 10
TIERS = "30,120,600,3600,21600"


def _host(number: int) -> str:
    return f"127.0.0.{number + 2}"


async def _crawl_others(site: Site, runtime: FakeRuntime, *, huge: int) -> float:
    """Time until 49 hosts are done, beside one of `huge` URLs."""
    runtime.seed(*(request_for(site.url(f"/{n}", _host(HOSTS))) for n in range(huge // 2)))
    for number in range(URLS):
        runtime.seed(*(request_for(site.url(f"/{number}", _host(host))) for host in range(HOSTS)))
    runtime.seed(*(request_for(site.url(f"/b{n}", _host(HOSTS))) for n in range(huge // 2)))
    began = time.monotonic()
    big = _host(HOSTS).encode()
    await runtime.until(
        lambda: sum(delivery.key != big for delivery in runtime.completed) >= HOSTS * URLS
    )
    return time.monotonic() - began


async def test_a_huge_host_does_not_slow_49_others(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=DELAY_S)
    took = {}
    for huge in (0, 5_000):
        with Site() as site:
            async with running(
                tmp_path, spec, partitions=4, retry_tiers_s=TIERS, window=400
            ) as runtime:
                took[huge] = await _crawl_others(site, runtime, huge=huge)
            gaps = site.gaps()
            assert len(gaps) == HOSTS + (huge > 0)
            assert min(gaps.values()) >= DELAY_S - TOLERANCE_S, min(gaps, key=gaps.__getitem__)
            if huge:
                assert runtime.counts["deferrals"] > 4_000
    print(f"49 hosts of {URLS} URLs: {took[0]:.2f} s alone, {took[5_000]:.2f} s beside 5,000")
    # Deferring 5,000 requests is work, on a busy machine for seconds; in virtual time
    # (test_fetch_simulation) the others are not slowed at all. Without deferral they would wait
    # 750 s.
    assert took[5_000] <= took[0] * 2 + 10


async def test_the_delay_holds_across_a_rebalance(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=DELAY_S)
    with Site() as site:
        async with running(tmp_path, spec, retry_tiers_s=TIERS) as runtime:
            for number in range(6):
                runtime.seed(*(request_for(site.url(f"/{number}", _host(h))) for h in range(10)))
            await asyncio.sleep(1.0)
            await runtime.rebalance()
            await runtime.until_idle(20)
        gaps = site.gaps()
    assert min(gaps.values()) >= DELAY_S - TOLERANCE_S
    assert runtime.counts["pages"] == 60


async def test_parallel_requests_keep_the_delay_between_their_starts(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0.2, per_host=4, adaptive_factor=0)
    with Site(answer_s=0.5) as site:
        async with running(tmp_path, spec, retry_tiers_s=TIERS) as runtime:
            runtime.seed(*(request_for(site.url(f"/{number}")) for number in range(12)))
            began = time.monotonic()
            await runtime.until_idle(20)
            took = time.monotonic() - began
        gaps = site.gaps()
    assert min(gaps.values()) >= 0.2 - TOLERANCE_S
    assert took < 12 * 0.5


async def test_what_is_taken_from_the_window_before_another_went_out_goes_back(
    tmp_path: Path,
) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0.3, per_host=4, adaptive_factor=0)
    with Site() as site:
        async with running(tmp_path, spec, retry_tiers_s=TIERS) as runtime:
            runtime.begin_s = 0.1
            for number in range(8):
                runtime.seed(request_for(site.url(f"/{number}")))
                await asyncio.sleep(0.05)
            await runtime.until_idle(60)
        (gap_s,) = site.gaps().values()
        paths = [arrival.path for arrival in site.arrivals()]
    assert sorted(paths) == [*(f"/{number}" for number in range(8)), "/robots.txt"]
    assert gap_s >= 0.3 - TOLERANCE_S


async def test_the_delay_counts_from_when_the_request_was_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is kept from running right before it sends does not send the next early."""
    socket_transport: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    write = socket_transport.write

    def held_up(self: Any, data: bytes) -> None:
        time.sleep(0.2)
        write(self, data)

    monkeypatch.setattr(socket_transport, "write", held_up)
    with Site() as site:
        transport = Transport(settings_for(tmp_path))
        with BodySink() as sink:
            answer = await transport.fetch(site.url("/a"), b"User-Agent: a\r\n", sink)
        await transport.close()
        (arrival,) = site.arrivals()
    assert answer.sent_at >= arrival.at - 0.001
