"""Simulates the autoscaler's rule and KEDA's lag rule on the same load.

    python tests/bench/sim_autoscale.py [--scenario NAME] [--seed N]

Prints one line of JSON. Each scenario is run with our rule, with KEDA's Kafka rule at the
threshold that its own arithmetic suggests (rate x drain target x utilisation), and with KEDA's
rule at the threshold found by bisection that spends as many worker-hours as ours. The last is the
fair comparison; KEDA's operator would have to know the load in advance to choose it.

The model: partitions get messages, each worker serves the partitions of its range at one total
rate, a change of size stops the whole group for a rebalance (aiokafka's protocol is eager), and
new workers join some seconds after they are asked for.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from streams.autoscale.model import Reading, Rules, State, Work
from streams.autoscale.policy import decide

INTERVAL_S = 15.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A load and the group that meets it. `load` is messages per second at an instant."""

    name: str
    load: Callable[[float], float]
    duration_s: float
    partitions: int = 96
    max_workers: int = 60
    start_workers: int = 3
    rate: float = 50.0
    hot_share: float = 0.0
    """Share of all messages that land on the first partition."""
    rebalance_s: float = 10.0
    join_s: float = 20.0
    blind: tuple[float, float] = (0.0, 0.0)
    """Interval in which the offsets cannot be read."""
    step_s: float = 5.0
    drain_target_s: float = 300.0


class Outcome(NamedTuple):
    """What a run cost and achieved."""

    drain_s: float
    """Longest time that a backlog of more than 10 s of present arrivals lasted."""
    wait_s: float
    """Mean time that a message waited (Little's law)."""
    worker_hours: float
    spare_share: float
    """Worker-hours beyond those that the messages needed, as a share of the latter."""
    changes: int
    peak_workers: int
    left: int
    """Messages unread at the end."""


class Observation(NamedTuple):
    """What a rule sees: per partition lag, and messages come and served since the last look."""

    at: float
    workers: int
    members: int
    rebalancing: bool
    lag: Sequence[float]
    arrived: Sequence[float]
    served: Sequence[float]
    span_s: float
    visible: bool


class Scaler(Protocol):
    """A rule under test."""

    def size(self, seen: Observation) -> int:
        """Workers wanted from now on."""
        ...


class Ours:
    """The shipped rule, which has to learn the rate."""

    def __init__(self, scenario: Scenario) -> None:
        self._rules = Rules(
            max_workers=scenario.max_workers,
            drain_target_s=scenario.drain_target_s,
            assumed_rate=scenario.rate * 1.5,
            rebalance_s=scenario.rebalance_s,
        )
        self._state = State()

    def size(self, seen: Observation) -> int:
        """See `Scaler.size`."""
        work = tuple(
            Work(lag, arrived / seen.span_s, served / seen.span_s)
            for lag, arrived, served in zip(seen.lag, seen.arrived, seen.served, strict=True)
        )
        reading = Reading(
            at=seen.at,
            read_at=seen.at,
            workers=seen.workers,
            members=seen.members,
            rebalancing=seen.rebalancing,
            lag=round(sum(seen.lag)),
            work=work if seen.visible else (),
            unknown=() if seen.visible else ("the offsets cannot be read",),
        )
        self._state, decision = decide(self._rules, self._state, reading)
        return seen.workers if decision.target is None else decision.target


class Keda:
    """KEDA's Kafka trigger with the HPA's default behaviour.

    ceil(lag / threshold), never more than the partitions; 10 % tolerance; up at once by the
    greater of 100 % and 4 pods per 15 s; down to the greatest size wanted in the last 300 s.
    """

    def __init__(self, scenario: Scenario, threshold: float) -> None:
        self._most = min(scenario.max_workers, scenario.partitions)
        self._threshold = threshold
        self._wanted: deque[tuple[float, int]] = deque()

    def size(self, seen: Observation) -> int:
        """See `Scaler.size`."""
        if not seen.visible:
            return seen.workers
        load = sum(seen.lag) / self._threshold
        near = abs(load / seen.workers - 1) <= 0.1
        wanted = seen.workers if near else max(1, min(self._most, math.ceil(load)))
        self._wanted.append((seen.at, wanted))
        while self._wanted[0][0] < seen.at - 300:
            self._wanted.popleft()
        if wanted > seen.workers:
            return min(wanted, max(seen.workers * 2, seen.workers + 4))
        return min(seen.workers, max(item for _, item in self._wanted))


class Group:
    """The simulated consumer group."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._random = random.Random(seed)
        count = scenario.partitions
        self.lag = [0.0] * count
        self.workers = self.members = scenario.start_workers
        self.stopped_until = 0.0
        self._joins: list[tuple[float, int]] = []
        rest = (1 - scenario.hot_share) / count
        self._weights = [rest] * count
        self._weights[0] += scenario.hot_share

    def scale(self, now: float, workers: int) -> None:
        """Ask for a size; removed workers leave at once, new ones join later."""
        self.workers = workers
        if workers < self.members:
            self.members = workers
            self.stopped_until = now + self._scenario.rebalance_s
            self._joins = []
        else:
            self._joins.append((now + self._scenario.join_s, workers))

    def advance(self, now: float, arrived: list[float], served: list[float]) -> float:
        """One step; adds to the counts and returns the messages that came."""
        step = self._scenario.step_s
        for due, workers in tuple(self._joins):
            if now >= due:
                self._joins.remove((due, workers))
                if workers > self.members:
                    self.members = workers
                    self.stopped_until = now + self._scenario.rebalance_s
        total = self._scenario.load(now) * step * self._random.uniform(0.8, 1.2)
        lag = self.lag
        for index, weight in enumerate(self._weights):
            come = total * weight
            lag[index] += come
            arrived[index] += come
        if now >= self.stopped_until:
            self._serve(step, served)
        return total

    def _serve(self, step: float, served: list[float]) -> None:
        lag, count = self.lag, len(self.lag)
        capacity = self._scenario.rate * step
        members = min(self.members, count)
        for first, last in pairwise([count * number // members for number in range(members + 1)]):
            work = sum(lag[first:last])
            if work <= 0:
                continue
            part = min(1.0, capacity / work)
            for index in range(first, last):
                done = lag[index] * part
                lag[index] -= done
                served[index] += done


def run(scenario: Scenario, scaler: Scaler, seed: int) -> Outcome:
    """One run of a scenario."""
    group = Group(scenario, seed)
    step, count = scenario.step_s, scenario.partitions
    arrived, served = [0.0] * count, [0.0] * count
    looked = now = came = waited = seconds = 0.0
    changes = peak = 0
    late_since: float | None = None
    drain = 0.0
    while now < scenario.duration_s:
        come = group.advance(now, arrived, served)
        now += step
        came += come
        backlog = sum(group.lag)
        waited += backlog * step
        seconds += group.workers * step
        peak = max(peak, group.workers)
        if backlog <= 10 * come / step:
            late_since = None
        else:
            late_since = now if late_since is None else late_since
            drain = max(drain, now - late_since)
        if now - looked >= INTERVAL_S:
            visible = not scenario.blind[0] <= now < scenario.blind[1]
            stopped = now < group.stopped_until
            size = scaler.size(
                Observation(
                    now,
                    group.workers,
                    group.members,
                    stopped,
                    group.lag,
                    arrived,
                    served,
                    now - looked,
                    visible,
                )
            )
            looked = now
            arrived, served = [0.0] * count, [0.0] * count
            if size != group.workers:
                changes += 1
                group.scale(now, size)
    needed = came / scenario.rate
    return Outcome(
        drain,
        waited / came,
        seconds / 3600,
        seconds / needed - 1,
        changes,
        peak,
        round(sum(group.lag)),
    )


def same_hours(scenario: Scenario, hours: float, seed: int, tries: int) -> tuple[Outcome, float]:
    """KEDA's rule at the threshold whose worker-hours come nearest to `hours`."""
    low, high = math.log(scenario.rate * 0.2), math.log(scenario.rate * 3600)
    best: tuple[Outcome, float] | None = None
    for _ in range(tries):
        threshold = math.exp((low + high) / 2)
        outcome = run(scenario, Keda(scenario, threshold), seed)
        if best is None or abs(outcome.worker_hours - hours) < abs(best[0].worker_hours - hours):
            best = outcome, threshold
        if outcome.worker_hours > hours:
            low = math.log(threshold)
        else:
            high = math.log(threshold)
    assert best is not None
    return best


def _burst(base: float, begin: float, end: float) -> Callable[[float], float]:
    return lambda now: base * 10 if begin <= now < end else base


def _ramp(now: float) -> float:
    return 50 + 1_450 * min(1.0, now / 3600) if now < 5400 else 50.0


def _diurnal(now: float) -> float:
    return 600 - 500 * math.cos(now / 86_400 * 2 * math.pi)


_BURST = Scenario(name="burst x10", load=_burst(100, 1200, 1800), duration_s=5400)

SCENARIOS = (
    _BURST,
    Scenario(name="ramp", load=_ramp, duration_s=7200),
    Scenario(name="diurnal", load=_diurnal, duration_s=86_400, step_s=15.0),
    replace(_BURST, name="skewed", hot_share=0.05),
    replace(_BURST, name="slow rebalances", rebalance_s=60.0),
    replace(_BURST, name="lost metrics", blind=(1300.0, 1900.0)),
    Scenario(
        name="1,000 workers",
        load=_burst(4_000, 600, 1200),
        duration_s=3000,
        partitions=10_000,
        max_workers=1_000,
        start_workers=110,
        step_s=15.0,
    ),
)


def compare(scenario: Scenario, seed: int) -> dict[str, object]:
    """All three rules on one scenario."""
    tries = 4 if scenario.partitions > 1000 else 9
    ours = run(scenario, Ours(scenario), seed)
    suggested = scenario.rate * scenario.drain_target_s * 0.75
    plain = run(scenario, Keda(scenario, suggested), seed)
    fair, threshold = same_hours(scenario, ours.worker_hours, seed, tries)
    return {
        "scenario": scenario.name,
        "ours": _rounded(ours),
        "keda_suggested": _rounded(plain) | {"lag_threshold": round(suggested)},
        "keda_same_hours": _rounded(fair) | {"lag_threshold": round(threshold)},
        "drain_better": ours.drain_s <= fair.drain_s,
        "wait_better": ours.wait_s <= fair.wait_s,
    }


def _rounded(outcome: Outcome) -> dict[str, float]:
    return {name: round(value, 2) for name, value in outcome._asdict().items()}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=[item.name for item in SCENARIOS])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.perf_counter()
    chosen = [item for item in SCENARIOS if options.scenario in (None, item.name)]
    results = [compare(item, options.seed) for item in chosen]
    print(
        json.dumps(
            {
                "bench": "sim_autoscale",
                "seed": options.seed,
                "seconds": round(time.perf_counter() - began, 1),
                "scenarios": results,
            }
        )
    )


if __name__ == "__main__":
    main()
