"""The loop around the rule: inputs and back ends that fail, dry runs, the decision log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from schemas.errors import ConfigError, TransientInfraError
from streams.autoscale.backends import Local
from streams.autoscale.loop import Autoscaler
from streams.autoscale.model import Rules
from streams.autoscale.offsets import GroupOffsets
from streams.autoscale.roles import ROLES, Role
from streams.autoscale.run import Options, serve
from streams.autoscale.signals import Held, Snapshot
from streams.autoscale.sizing import Sizing
from streams.settings import load


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class FakeOffsets:
    """A group whose backlog grows by 10,000 a round."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.fail = False
        self.members = 1
        self.closed = False
        self.served = 0

    async def read(self, role: Role) -> Snapshot:
        if self.fail:
            raise TransientInfraError("Kafka is away")
        rounds = int((self.clock.now - 1_000) / 15)
        ends = dict.fromkeys(range(12), 10_000 + rounds * 800)
        return Snapshot(
            at=self.clock.now,
            ends=ends,
            committed=dict.fromkeys(range(12), self.served),
            members=self.members,
            rebalancing=False,
        )

    async def close(self) -> None:
        self.closed = True


class FakeEligible:
    """What the fetchers say; None: nothing."""

    def __init__(self, held: Held | None) -> None:
        self.held = held

    async def read(self) -> Held | None:
        return self.held


class Bench:
    """An autoscaler on fakes, driven round by round."""

    def __init__(
        self, role: str = "parser", *, held: Held | None = None, dry_run: bool = False
    ) -> None:
        self.role = role
        self.clock = Clock()
        self.offsets = FakeOffsets(self.clock)
        self.counts = {role: 1}
        self.broken = False
        self.lines: list[Mapping[str, Any]] = []
        self.eligible = FakeEligible(held)
        self.autoscaler = Autoscaler(
            {role: Rules(assumed_rate=50.0)},
            offsets=cast("GroupOffsets", self.offsets),
            backend=Local(lambda: self.counts, self._scale),
            sink=self.lines.append,
            eligible=self.eligible,
            dry_run=dry_run,
            clock=self.clock,
        )

    def _scale(self, role: str, workers: int) -> None:
        if self.broken:
            raise TransientInfraError("the place is away")
        self.counts[role] = workers

    async def rounds(self, number: int) -> Mapping[str, Any]:
        for _ in range(number):
            await self.autoscaler.step()
            self.clock.now += 15
        return self.lines[-1]


async def test_a_backlog_grows_the_group_and_the_line_says_why() -> None:
    bench = Bench()
    line = await bench.rounds(3)
    assert (line["action"], line["workers"], line["target"]) == ("grow", 1, 12)
    assert bench.counts == {"parser": 12}
    assert line["role"] == "parser"
    assert line["lag"] == 12 * (10_000 + 1_600)
    assert "need at least" in line["reasons"][0]
    assert json.loads(json.dumps(line))["need"] == line["need"]
    assert bench.autoscaler.changes == {"parser": 1}


async def test_the_first_round_knows_no_rates_and_holds() -> None:
    bench = Bench()
    line = await bench.rounds(1)
    assert line["action"] == "hold"
    assert "first reading" in line["reasons"][0]


async def test_kafka_away_holds_and_is_counted_and_the_evidence_begins_anew() -> None:
    bench = Bench()
    await bench.rounds(2)
    bench.offsets.fail = True
    line = await bench.rounds(2)
    assert (line["action"], line["reasons"]) == ("hold", ("Kafka is away",))
    assert bench.autoscaler.faults == {"parser": 2}
    bench.offsets.fail = False
    line = await bench.rounds(1)
    assert "first reading" in line["reasons"][0]
    assert bench.counts == {"parser": 1}


async def test_a_size_that_is_not_accepted_is_asked_for_again() -> None:
    bench = Bench()
    bench.broken = True
    line = await bench.rounds(3)
    assert line["action"] == "grow"
    assert line["error"] == "the place is away"
    assert bench.counts == {"parser": 1}
    bench.broken = False
    line = await bench.rounds(1)
    assert line["action"] == "grow"
    assert bench.counts == {"parser": 12}


async def test_a_dry_run_changes_nothing_and_goes_on_as_if_it_had() -> None:
    bench = Bench(dry_run=True)
    line = await bench.rounds(3)
    assert (line["action"], line["dry_run"]) == ("grow", True)
    line = await bench.rounds(1)
    assert line["workers"] == 12
    assert bench.counts == {"parser": 1}


async def test_fetchers_without_their_own_account_are_held() -> None:
    bench = Bench("fetcher")
    line = await bench.rounds(4)
    assert line["action"] == "hold"
    assert "eligible backlog is not known" in line["reasons"][0]


async def test_fetchers_grow_by_what_politeness_allows() -> None:
    bench = Bench("fetcher", held=Held(eligible=6_000, window=12_000, fetched=0, ready=900))
    line = await bench.rounds(3)
    assert line["action"] == "grow"
    assert line["eligible"] == pytest.approx(line["lag"] / 2)


async def test_fetchers_of_one_slow_host_do_not_grow() -> None:
    bench = Bench("fetcher", held=Held(eligible=30, window=12_000, fetched=0, ready=0))
    line = await bench.rounds(40)
    assert {item["action"] for item in bench.lines} == {"hold"}
    assert "wait for politeness" in " ".join(line["reasons"])


async def test_the_run_ends_when_told_and_closes_its_inputs() -> None:
    bench = Bench()
    stop = asyncio.Event()
    bench.autoscaler.on_decision = lambda _role, _decision: stop.set()
    await asyncio.wait_for(bench.autoscaler.run(stop, 30.0), 5)
    assert len(bench.lines) == 1
    assert bench.offsets.closed


def test_sizes_are_read_and_every_mistake_is_named() -> None:
    rules = Sizing(sizes=("fetcher=2:8",), drain_s=60, down_window_s=120, interval_s=5).rules()
    assert rules["fetcher"].min_workers == 2
    assert rules["fetcher"].max_workers == 8
    assert rules["fetcher"].assumed_rate == ROLES["fetcher"].assumed_rate
    with pytest.raises(ConfigError, match="sizes") as caught:
        Sizing(sizes=("fetcher=x:1", "cook=1:2", "parser=0:1")).rules()
    assert all(text in str(caught.value) for text in ("fetcher=x:1", "cook=1:2", "parser=0:1"))


async def test_scaling_fetchers_needs_their_account() -> None:
    with pytest.raises(ConfigError, match="--eligible"):
        await serve(load({}), Options(backend="none"))
