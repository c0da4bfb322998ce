"""The shell of politeness: whoever waits for a host goes out a delay after whoever went before."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from fetchers.policy.window import Window
from fetchers.worker.pacing import Pacing
from schemas.topics import RETRY_TIERS_S
from tests.unit.fetchers.fakes import settings_for
from tests.unit.fetchers.virtual import Clock, run

if TYPE_CHECKING:
    from pathlib import Path

    from fetchers.worker.work import Work


def test_all_who_wait_for_a_host_take_turns(tmp_path: Path) -> None:
    """Hops to the same URL, and a robots.txt that another host's redirects to."""
    clock = Clock()
    window: Window[Work] = Window(tiers_s=RETRY_TIERS_S, per_address=64)
    pacing = Pacing(settings_for(tmp_path), window, lambda: None)
    host = window.host("a.example", 0)
    host.delay_s = 1.0

    async def turn() -> float:
        await pacing.wait_for_turn(host)
        return clock.now

    async def main() -> list[float]:
        return sorted(await asyncio.gather(*(turn() for _ in range(5))))

    begun = run(main(), clock)
    assert min(after - before for before, after in itertools.pairwise(begun)) >= 1.0
