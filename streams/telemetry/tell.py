"""The line that each worker logs now and then: what it did, how fast, and what it has in hand."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

TELL_EVERY_S: Final = 30.0


def line(
    totals: Mapping[str, int], before: Mapping[str, int], span_s: float, main: str
) -> dict[str, Any]:
    """The fields that follow from counters alone.

    Args:
        totals: completion counters since the start, by name.
        before: the same, `span_s` ago.
        span_s: seconds between both.
        main: the counter that says how much was done.
    """
    grown = Counter(totals)
    grown.subtract(before)
    return {
        main: totals.get(main, 0),
        "per_s": round(grown[main] / span_s, 1),
        "errors": sum(by for name, by in grown.items() if name.startswith("failed.")),
        "retries": grown["retries"],
    }


async def tell(
    totals: Mapping[str, int],
    main: str,
    present: Callable[[], Mapping[str, int]],
    every_s: float = TELL_EVERY_S,
) -> None:
    """Log a line every `every_s`, for ever; nothing while nothing was done and nothing is held.

    Args:
        totals: completion counters, which grow meanwhile.
        main: see `line`.
        present: what is in hand now, by name.
        every_s: seconds.
    """
    before: Mapping[str, int] = dict(totals)
    began_at = time.monotonic()
    while True:
        await asyncio.sleep(every_s)
        now = time.monotonic()
        held = present()
        if before != totals or any(held.values()):
            log.info("progress", **line(totals, before, now - began_at, main), **held)
        before, began_at = dict(totals), now
