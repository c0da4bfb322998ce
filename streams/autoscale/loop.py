"""The loop: read, decide, scale, log; every fault holds the size and is logged."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from schemas.errors import TransientInfraError
from streams.autoscale import signals
from streams.autoscale.backends import Backend
from streams.autoscale.eligible import Eligible
from streams.autoscale.model import Decision, Reading, Rules, State
from streams.autoscale.offsets import GroupOffsets
from streams.autoscale.policy import decide
from streams.autoscale.roles import FETCHER, ROLES
from streams.autoscale.signals import Held, Signals, Snapshot

Sink = Callable[[Mapping[str, Any]], None]
"""Takes each decision as a flat mapping that JSON can express."""


class Autoscaler:
    """Keeps the roles of `rules` at the size that their work needs.

    `decisions`, `changes`, `faults` and `stepped_at` are for metrics and health: the last decision
    of each role, how often a size was changed and an input or back end failed since the start,
    and the clock's time of the last round.
    """

    def __init__(
        self,
        rules: Mapping[str, Rules],
        *,
        offsets: GroupOffsets,
        backend: Backend,
        sink: Sink,
        eligible: Eligible | None = None,
        dry_run: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.decisions: dict[str, Decision] = {}
        self.changes = dict.fromkeys(rules, 0)
        self.faults = dict.fromkeys(rules, 0)
        self.stepped_at = clock()
        self.on_decision: Callable[[str, Decision], None] = lambda _role, _decision: None
        self._rules = rules
        self._offsets = offsets
        self._backend = backend
        self._sink = sink
        self._eligible = eligible
        self._dry_run = dry_run
        self._clock = clock
        self._states = {role: State() for role in rules}
        self._snapshots: dict[str, Snapshot] = {}
        self._held: Held | None = None
        self._pretended: dict[str, int] = {}

    def members(self, role: str) -> int | None:
        """Members of a role's group when it was last looked at."""
        snapshot = self._snapshots.get(role)
        return None if snapshot is None else snapshot.members

    async def run(self, stop: asyncio.Event, interval_s: float) -> None:
        """Decide every `interval_s` seconds until `stop` is set, then close the inputs."""
        try:
            while not stop.is_set():
                began = self._clock()
                await self.step()
                rest = max(0.0, interval_s - (self._clock() - began))
                try:
                    await asyncio.wait_for(stop.wait(), rest)
                except TimeoutError:
                    continue
        finally:
            await self._offsets.close()
            await self._backend.close()

    async def step(self) -> None:
        """One decision for each role."""
        for role, rules in self._rules.items():
            reading = await self._read(role)
            before = self._states[role]
            state, decision = decide(rules, before, reading)
            error = ""
            if decision.action != "hold" and decision.target is not None:
                error = await self._scale(role, decision.target)
            # A size that was not accepted is no change: the evidence stands for the next try.
            self._states[role] = before if error else state
            self.decisions[role] = decision
            self.on_decision(role, decision)
            self._sink(self._line(role, reading, decision, error))
        self.stepped_at = self._clock()

    async def _scale(self, role: str, target: int) -> str:
        if self._dry_run:
            self._pretended[role] = target
            return ""
        try:
            await self._backend.scale(role, target)
        except TransientInfraError as fault:
            self.faults[role] += 1
            return str(fault)
        self.changes[role] += 1
        return ""

    async def _read(self, role: str) -> Reading:
        try:
            now, read = await self._signals(role)
            workers = await self._backend.workers(role)
        except TransientInfraError as fault:
            self.faults[role] += 1
            self._snapshots.pop(role, None)
            at = self._clock()
            return Reading(at=at, read_at=at, workers=None, unknown=(str(fault),))
        if self._dry_run and workers is not None:
            workers = self._pretended.get(role, workers)
        return Reading(
            at=self._clock(),
            read_at=now.at,
            workers=workers,
            # A size that is only pretended has no members of its own.
            members=None if role in self._pretended else now.members,
            rebalancing=now.rebalancing,
            lag=read.lag,
            work=read.work,
            saturated=read.saturated,
            unknown=read.unknown,
        )

    async def _signals(self, role: str) -> tuple[Snapshot, Signals]:
        now = await self._offsets.read(ROLES[role])
        before = self._snapshots.get(role)
        self._snapshots[role] = now
        was = self._held
        if role == FETCHER:
            self._held = None if self._eligible is None else await self._eligible.read()
        if before is None:
            return now, signals.unknown("the first reading: rates are not known yet")
        if role != FETCHER:
            return now, signals.of_lag(before, now)
        if self._held is None or was is None:
            return now, signals.unknown("the fetchers' eligible backlog is not known")
        return now, signals.of_fetchers(before, now, was, self._held)

    def _line(self, role: str, reading: Reading, decision: Decision, error: str) -> dict[str, Any]:
        line: dict[str, Any] = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": "autoscale",
            "role": role,
        }
        for name, value in dataclasses.asdict(decision).items():
            line[name] = round(value, 3) if isinstance(value, float) else value
        line["members"] = reading.members
        if self._dry_run:
            line["dry_run"] = True
        if error:
            line["error"] = error
        return line
