"""An event loop on a clock of its own: waiting costs nothing, an hour passes at once."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

WALL_AT = 1_700_000_000.0


class Clock:
    """Monotonic and wall time, moved on by the loop's waiting. `skew_s` steps the wall clock."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.skew_s = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL_AT + self.now + self.skew_s


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("nothing will ever happen")
        if not ready and timeout:
            self._clock.now += timeout
        return ready


def run(main: Coroutine[Any, Any, T], clock: Clock) -> T:
    """Run a coroutine on a loop whose time is the clock's."""
    with (
        mock.patch.object(time, "monotonic", clock.monotonic),
        mock.patch.object(time, "time", clock.wall),
    ):
        loop = asyncio.SelectorEventLoop(_Selector(clock))
        loop.slow_callback_duration = 1e9
        try:
            return loop.run_until_complete(main)
        finally:
            loop.close()
