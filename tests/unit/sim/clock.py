"""Virtual time: events in order, owned by processes that may be dead or stopped."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Any

Event = tuple[float, int, "Process | None", Callable[..., None], tuple[Any, ...]]


class Process:
    """What a kill or a stop acts on."""

    def __init__(self, world: World, tag: str) -> None:
        self.world = world
        self.tag = tag
        self.alive = True
        self.stopped = False
        self.clock_s = 0.0
        """How far its wall clock is ahead."""
        self.missed: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def after(self, delay: float, act: Callable[..., None], *args: Any) -> None:
        """Do something later, if this process still runs by then."""
        self.world.after(delay, act, *args, owner=self)

    def kill(self) -> None:
        self.alive = False

    def stop(self) -> None:
        self.stopped = True

    def go_on(self) -> None:
        """What was due while the process was stopped is done now, in order."""
        self.stopped = False
        missed, self.missed = self.missed, []
        for act, args in missed:
            self.after(0.0, act, *args)


class World:
    """The clock, and delays chosen from a list, over and over.

    Args:
        delays: numbers in [0, 1): whoever chooses them chooses the interleaving.
    """

    def __init__(self, delays: Sequence[float]) -> None:
        self.now = 0.0
        self._delays = itertools.cycle(delays)
        self._events: list[Event] = []
        self._numbers = itertools.count()

    def chance(self) -> float:
        """The next chosen number in [0, 1)."""
        return next(self._delays)

    def after(
        self, delay: float, act: Callable[..., None], *args: Any, owner: Process | None = None
    ) -> None:
        event = (self.now + delay, next(self._numbers), owner, act, args)
        heapq.heappush(self._events, event)

    def run_until(self, at: float) -> None:
        events = self._events
        while events and events[0][0] <= at:
            self.now, _, owner, act, args = heapq.heappop(events)
            if owner is None or (owner.alive and not owner.stopped):
                act(*args)
            elif owner.alive:
                owner.missed.append((act, args))
        self.now = at
