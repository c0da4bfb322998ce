"""Politeness at scale in virtual time: deferrals on a Zipf mix, and a host that is down an hour."""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import pytest

from fetchers.http.answer import Answer, Limits
from fetchers.policy import politeness
from fetchers.policy.window import Host, Window
from schemas.crawl import CrawlSpec
from schemas.reasons import REASONS, Reason
from schemas.topics import RETRY_TIERS_S
from streams.kafka.blobs import BlobStore
from tests.unit.fetchers.fakes import FakeCrawls, FakeRuntime, request_for, settings_for
from tests.unit.fetchers.virtual import Clock, run

if TYPE_CHECKING:
    from pathlib import Path

    from fetchers.http.body import BodySink
    from fetchers.policy.head import Headers

LIMITS = Limits(60, 10, 20, 20, 65_536, 1 << 24, 1 << 24, 500)
WINDOW = 1_000
READ_AHEAD = 250


class Mix:
    """One fetcher's windows fed from partitions in order, tiers and all, on a virtual clock."""

    def __init__(self, urls: list[int], *, partitions: int, delay_s: float, fetch_s: float) -> None:
        self.urls = len(urls)
        self.delay_s = delay_s
        self.fetch_s = fetch_s
        self.now = 0.0
        self.window: Window[int] = Window(tiers_s=RETRY_TIERS_S, per_address=64)
        self.feeds = [deque(u for u in urls if u % partitions == p) for p in range(partitions)]
        self.tiers: dict[tuple[int, int], deque[tuple[float, int]]] = {}
        self.buffers: dict[tuple[int, int], list[tuple[float, int]]] = {}
        self.held = Counter[int]()
        self.running: list[tuple[float, int, Host[int], int]] = []
        self.rewrites = Counter[int]()
        self.done_at: dict[int, float] = {}
        self.done = Counter[int]()
        self.starts: dict[int, float] = {}
        self.early = 0
        self.finished = 0
        self._chance = random.Random(7)

    def partition(self, host: int) -> int:
        return host % len(self.feeds)

    def offer(self, number: int, *, returned: bool) -> None:
        partition = self.partition(number)
        host = self.window.host(str(number), partition)
        host.delay_s = self.delay_s
        fullness = min(1.0, self.held[partition] / WINDOW)
        deferral = self.window.place(host, now=self.now, fullness=fullness, returned=returned)
        if deferral is None:
            self.held[partition] += 1
            self.window.add(host, number, priority=0, now=self.now)
        else:
            self.rewrites[number] += 1
            tier = self.tiers.setdefault((partition, deferral.tier), deque())
            tier.append((self.now + deferral.wait_s, number))

    def admit(self) -> None:
        for partition, feed in enumerate(self.feeds):
            while feed and self.held[partition] < WINDOW:
                self.offer(feed.popleft(), returned=False)
        for key, tier in list(self.tiers.items()):
            buffer = self.buffers.setdefault(key, [])
            while True:
                while tier and len(buffer) < READ_AHEAD:
                    heapq.heappush(buffer, tier.popleft())
                if not buffer or buffer[0][0] > self.now:
                    break
                self.offer(heapq.heappop(buffer)[1], returned=True)

    def begin(self, limit: int) -> None:
        while len(self.running) < limit and (popped := self.window.pop(self.now)):
            host, number, _ = popped
            self.window.begin(host, now=self.now, jitter=self._chance.random())
            last = self.starts.get(number)
            self.early += last is not None and self.now - last < self.delay_s - 1e-9
            self.starts[number] = self.now
            entry = (
                self.now + self.fetch_s,
                len(self.done_at) + self._chance.random(),
                host,
                number,
            )
            heapq.heappush(self.running, entry)  # type: ignore[misc]

    def finish(self) -> None:
        while self.running and self.running[0][0] <= self.now:
            _, _, host, number = heapq.heappop(self.running)
            host.pace = politeness.finished(
                host.pace, sent_at=self.now - self.fetch_s, now=self.now,
                adaptive_factor=1.0, parallel=1, adapt=self.delay_s > 0,
            )  # fmt: skip
            host.took(self.fetch_s)
            self.window.release(host, address_held="", now=self.now)
            self.held[self.partition(number)] -= 1
            self.done[number] += 1
            self.finished += 1
            self.done_at[number] = self.now

    def run(self, limit: int = 64) -> None:
        while self.finished < self.urls:
            self.admit()
            self.begin(limit)
            dues = [buffer[0][0] for buffer in self.buffers.values() if buffer]
            if self.running:
                dues.append(self.running[0][0])
            due = self.window.next_due()
            if due is not None and len(self.running) < limit:
                dues.append(due)
            self.now = max(self.now, min(dues))
            self.finish()


def _zipf(count: int, hosts: int) -> list[int]:
    chance = random.Random(1)
    return chance.choices(range(hosts), [1 / (rank + 1) for rank in range(hosts)], k=count)


@pytest.mark.timeout(300)
def test_a_zipf_mix_is_rewritten_at_most_twice_a_url() -> None:
    mix = Mix(_zipf(100_000, 2_000), partitions=4, delay_s=1.0, fetch_s=0.2)
    mix.run()
    largest = max(mix.done.values())
    print(
        f"rewrites a URL: {mix.rewrites.total() / mix.urls:.2f}; worst host "
        f"{max(mix.rewrites[n] / mix.done[n] for n in mix.done):.2f}; largest host done at "
        f"{mix.done_at[0]:.0f} s of {largest} s"
    )
    assert mix.done.total() == mix.urls
    assert mix.early == 0
    assert mix.rewrites.total() <= 2 * mix.urls
    assert max(mix.rewrites[n] / mix.done[n] for n in mix.done) <= 2.5
    assert mix.done_at[0] <= 1.06 * largest


def test_a_host_without_delay_is_never_deferred() -> None:
    mix = Mix([0] * 20_000, partitions=1, delay_s=0.0, fetch_s=0.005)
    mix.run()
    assert mix.rewrites.total() == 0
    assert mix.now == pytest.approx(20_000 * 0.005, rel=0.01)


def test_a_huge_host_does_not_slow_its_partition() -> None:
    def slowest(urls: list[int]) -> float:
        random.Random(3).shuffle(urls)
        mix = Mix(urls, partitions=1, delay_s=1.0, fetch_s=0.2)
        mix.run()
        return max(at for host, at in mix.done_at.items() if host != 0)

    others = [host for host in range(1, 50) for _ in range(100)]
    alone = slowest(list(others))
    beside = slowest([*others, *[0] * 5_000])
    print(f"49 hosts of 100 URLs: {alone:.0f} s alone, {beside:.0f} s beside a host of 5,000")
    assert beside <= alone * 1.15


class _DownForAnHour:
    """A transport whose host `down.example` refuses connections for an hour."""

    def __init__(self, clock: Clock, limits: Any) -> None:
        self._clock = clock
        self.limits = limits
        self.until = clock.now + 3_600
        self.tried: Counter[str] = Counter()
        self.done_at: dict[str, float] = {}

    async def fetch(self, href: str, _fields: bytes, sink: BodySink, **_: Any) -> Answer:
        answer = Answer(time.monotonic())
        await asyncio.sleep(0.1)
        self.tried[href] += 1
        headers: Headers = (("content-type", "text/html"),)
        if "//down.example/" in href and self._clock.now < self.until:
            answer.reason = Reason.CONNECT
            answer.detail = "refused"
        elif href.endswith("/robots.txt"):
            answer.status = 404
            answer.reason = None
        else:
            answer.status = 200
            answer.headers = headers
            await sink.write(b"x")
            self.done_at[href] = self._clock.now
        answer.address = ""
        answer.ended_at = time.monotonic()
        return answer

    async def close(self) -> None:
        return


OTHERS = [f"http://h{host}.example/{n}" for host in range(20) for n in range(30)]


def _crawl_through_an_outage(
    folder: Path, monkeypatch: pytest.MonkeyPatch, down: list[str], *, robots_known: bool
) -> tuple[_DownForAnHour, FakeRuntime, float]:
    """Crawl the others beside the URLs of a host that is down; with the time it began."""
    clock = Clock()
    web = _DownForAnHour(clock, LIMITS)
    monkeypatch.setattr("fetchers.worker.stage.Transport", lambda _settings: web)
    monkeypatch.setattr(BlobStore, "open", lambda _settings: None)
    tiers = ",".join(str(tier) for tier in RETRY_TIERS_S)
    settings = settings_for(folder, retry_tiers_s=tiers, log_level="error")
    runtime = FakeRuntime(settings, FakeCrawls(CrawlSpec(crawl="c", delay_s=1.0)), poll_s=0.5)

    async def main() -> float:
        await runtime.start()
        if robots_known:
            web.until = clock.now
            runtime.seed(request_for("http://down.example/first"))
            await asyncio.sleep(10)
            web.tried.clear()
        began = clock.now
        web.until = began + 3_600
        runtime.seed(*(request_for(url) for url in [*down, *OTHERS]))
        await runtime.until_idle(40_000)
        await runtime.stop()
        return began

    return web, runtime, run(main(), clock)


@pytest.mark.parametrize("robots_known", [True, False])
def test_an_hour_of_outage_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, robots_known: bool
) -> None:
    down = [f"http://down.example/{number}" for number in range(200)]
    alone, _, alone_at = _crawl_through_an_outage(
        tmp_path, monkeypatch, [], robots_known=robots_known
    )
    web, runtime, began = _crawl_through_an_outage(
        tmp_path, monkeypatch, down, robots_known=robots_known
    )
    assert runtime.letters() == []
    assert all(web.tried[url] == 1 and url in web.done_at for url in OTHERS)
    assert all(web.done_at[url] >= began + 3_600 for url in down)
    beside_s = max(web.done_at[url] for url in OTHERS) - began
    alone_s = max(alone.done_at[url] for url in OTHERS) - alone_at
    ends_s = max(web.done_at[url] for url in down) - began
    most = max(web.tried[url] for url in down)
    failed = sum(web.tried[url] for url in down) - len(down)
    robots = web.tried["http://down.example/robots.txt"]
    print(
        f"other hosts: {beside_s:.1f} s, alone {alone_s:.1f} s; host that was down:"
        f" last URL after {ends_s / 60:.0f} min, at most {most} tries a URL,"
        f" {failed} in vain of all, {robots} of its robots.txt"
    )
    assert beside_s <= alone_s * 1.05
    assert most <= REASONS[Reason.CONNECT].max_attempts
    assert failed + robots <= 30
    assert ends_s < 3 * 3_600
