"""What happens when, as data: the same seed gives the same schedule."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Role = Literal["dedup", "fetcher", "parser"]
Kind = Literal[
    "kill",
    "kill-child",
    "kill-recovering",
    "kill-rebalancing",
    "kill-broker",
    "clock",
    "broker-away",
    "stop",
    "term",
    "scale",
    "wipe",
    "garbage",
    "forget-offsets",
    "full-disk",
]
ROLES: Final[tuple[Role, ...]] = ("dedup", "fetcher", "parser")
STOP_S: Final = 11.0
"""How long a process is stopped: beyond the session time-out, 8 s."""
CLOCK_S: Final = 20.0
"""How far a clock steps."""


class Fault(NamedTuple):
    """One thing that happens.

    `role` and `pick` choose a process (`pick` modulo the number that run); `seconds`: how long a
    process is stopped or the broker away, or how far a clock steps; `number`: workers after a
    scale step.
    """

    at: float
    kind: Kind
    role: Role = "dedup"
    pick: int = 0
    seconds: float = 0.0
    number: int = 0


_KILLS: Final[dict[int, tuple[Kind, Role | None]]] = {
    4: ("kill-child", "parser"),
    6: ("kill-recovering", "dedup"),
    8: ("kill-rebalancing", None),
    10: ("kill-broker", None),
    15: ("kill-rebalancing", "dedup"),
    18: ("kill-child", "parser"),
    22: ("kill-rebalancing", "fetcher"),
}
"""Kills of a kind of their own, by their number in each 25."""


def make(
    kills: int,
    seed: int,
    *,
    pace_s: float = 2.5,
    away_s: Sequence[float] = (4.0, 12.0),
    full_disk: bool = False,
) -> list[Fault]:
    """A schedule with this many kills (those of the broker included), in order of time.

    Kills come in bursts as often as alone. Of each 25 one hits the broker, two a parse process,
    one a dedup worker that restores its table, three a group in a rebalance. All other faults are
    spread among them; a scale step 1 -> 4 -> 2 comes once in 25 kills.
    """
    rng = random.Random(seed)
    faults: list[Fault] = []
    at = 3.0
    for number in range(kills):
        kind, role = _KILLS.get(number % 25, ("kill", None))
        role = role or (ROLES[number % 3] if number < 9 else rng.choice(ROLES))
        faults.append(Fault(at, kind, role, rng.randrange(8)))
        at += rng.uniform(0.3, 1.0) if rng.random() < 0.4 else rng.expovariate(1 / (1.5 * pace_s))
        if kind != "kill":
            at += 8.0 if kind == "kill-broker" else 2.0
    span = at
    rounds = max(1, round(kills / 25))
    for turn in range(rounds):
        begin, length = span * turn / rounds, span / rounds

        def moment(begin: float = begin, length: float = length) -> float:
            return 2.0 + begin + rng.random() * length

        for role in ROLES:
            faults.append(Fault(moment(), "stop", role, rng.randrange(8), STOP_S))
            faults.append(Fault(moment(), "term", role, rng.randrange(8)))
            step_s = CLOCK_S * rng.choice((-1, 1))
            faults.append(Fault(moment(), "clock", role, rng.randrange(8), step_s))
        role = ROLES[(turn + seed) % 3]
        first = moment()
        for step, workers in enumerate((1, 4, 2)):
            faults.append(Fault(first + 5.0 * step, "scale", role, number=workers))
        faults.append(Fault(moment(), "wipe", "dedup", rng.randrange(8)))
        faults.append(Fault(moment(), "garbage"))
        faults.append(Fault(moment(), "broker-away", seconds=away_s[turn % len(away_s)]))
        if turn % 4 == 0:
            faults.append(Fault(moment(), "forget-offsets", ("parser", "dedup")[turn // 4 % 2]))
        if full_disk and turn % 4 == 1 % rounds:
            faults.append(Fault(moment(), "full-disk", seconds=4.0))
    return sorted(faults)


def graceful(pace_s: float = 2.0) -> list[Fault]:
    """Steps that must not cost a single fetch: each role from 1 to 4 to 2 workers, then SIGTERM."""
    steps: list[tuple[Kind, int]] = [("scale", 1), ("scale", 4), ("scale", 2), ("term", 0)]
    return [
        Fault(4.0 + pace_s * number, kind, role, number=workers)
        for number, ((kind, workers), role) in enumerate(itertools.product(steps, ROLES))
    ]
