"""How late the event loop runs its timers: lag for metrics, stuck or not for health."""

from __future__ import annotations

import asyncio
import time
from typing import Final

STUCK_S: Final = 30.0
"""An event loop that ran no timer for so long is reported as stuck."""


class Pulse:
    """Beats on the event loop; readable from another thread."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._lag_s = 0.0
        self._standstill_s = 0.0

    async def beat(self, interval_s: float = 0.5) -> None:
        """Run for ever."""
        while True:
            due = time.monotonic() + interval_s
            await asyncio.sleep(interval_s)
            self._last = time.monotonic()
            self._lag_s = max(self._lag_s, self._last - due)
            self._standstill_s = max(self._standstill_s, self._last - due)

    def take_lag(self) -> float:
        """Longest lag since the last call, seconds."""
        lag, self._lag_s = self._lag_s, 0.0
        return lag

    def stood_still(self, limit_s: float) -> bool:
        """Whether the event loop stood still for so long, just now or since the last True."""
        present_s = time.monotonic() - self._last
        if max(self._standstill_s, present_s) < limit_s:
            return False
        self._standstill_s = 0.0
        return True

    def problems(self) -> list[str]:
        """What a health check says."""
        silent = time.monotonic() - self._last
        return [f"the event loop is stuck for {silent:.0f} s"] if silent > STUCK_S else []
