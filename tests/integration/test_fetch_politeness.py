"""Politeness in real time: 50 hosts on loopback and a server that writes down when it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING, ClassVar, Self, cast

from schemas.crawl import CrawlSpec
from tests.unit.fetchers.fakes import FakeRuntime, html, request_for, response, running

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

DELAY_S = 0.3
TOLERANCE_S = 0.05
HOSTS = 49
URLS = 10
TIERS = "30,120,600,3600,21600"


class _Recorder(asyncio.Protocol):
    """Answers after a while, and notes when each request came."""

    arrivals: ClassVar[list[tuple[float, str, str]]] = []
    answer_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._own = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        path = data.split(b" ", 2)[1].decode()
        self.arrivals.append((time.monotonic(), self._own, path))
        answer = response(404) if path == "/robots.txt" else html()
        asyncio.get_running_loop().call_later(self.answer_s, self._transport.write, answer)


def _serve(pipe: Connection, answer_s: float) -> None:
    """The server's process: its clock is the machine's, its time is not the fetcher's."""

    async def main() -> None:
        with contextlib.suppress(PermissionError):
            os.nice(-10)
        loop = asyncio.get_running_loop()
        _Recorder.answer_s = answer_s
        server = await loop.create_server(_Recorder, "0.0.0.0", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        lag_s = [0.0]
        ticking = asyncio.ensure_future(_tick(lag_s))
        while await loop.run_in_executor(None, pipe.recv):
            pipe.send((list(_Recorder.arrivals), lag_s[0]))
        ticking.cancel()

    asyncio.run(main())


async def _tick(lag_s: list[float]) -> None:
    """Note the longest time that this process was kept from running."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.002)
        lag_s[0] = max(lag_s[0], time.monotonic() - began - 0.002)


class Site:
    """The recording server."""

    def __init__(self, answer_s: float = 0.0) -> None:
        self._answer_s = answer_s
        self.port = 0

    def __enter__(self) -> Self:
        self._pipe, there = multiprocessing.Pipe()
        spawn = multiprocessing.get_context("spawn")
        self._process = spawn.Process(target=_serve, args=(there, self._answer_s))
        self._process.start()
        self.port = self._pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(False)  # noqa: FBT003 - a message
        self._process.join(5)
        self._process.kill()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def gaps(self) -> dict[str, float]:
        """The shortest time between two requests to each host, robots.txt included.

        How long the recorder itself was kept from noting an arrival is added: on a machine that
        has nothing else to do that is nothing.
        """
        self._pipe.send(True)  # noqa: FBT003 - a message
        arrivals, lag_s = self._pipe.recv()
        times: dict[str, list[float]] = defaultdict(list)
        for at, host, _ in arrivals:
            times[host].append(at)
        return {
            host: lag_s + min(after - before for before, after in itertools.pairwise(at))
            for host, at in times.items()
            if len(at) > 1
        }


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
    # Deferring 5,000 requests is work for a moment; in virtual time (test_fetch_simulation) the
    # others are not slowed at all. Without deferral they would wait 750 s.
    assert took[5_000] <= took[0] * 2 + 1


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
