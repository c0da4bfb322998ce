"""When a run is at rest, what its topics hold then, and whether that proves the guarantee."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aiokafka.errors import KafkaError

from schemas.errors import TransientInfraError
from streams.settings import Settings
from streams.standing.drain import PipelineReader, decide
from tests.chaos.oracle import examine, read_all
from tests.chaos.site import Site
from tests.chaos.watch import Judge, Snapshot

REST_S: Final = 600.0


def say(text: str) -> None:
    """Tell who looks on; the verdict has standard output for itself."""
    sys.stderr.write(text + "\n")


async def rest(settings: Settings) -> bool:
    """Whether the pipeline came to rest in time."""
    deadline = time.monotonic() + REST_S
    quiet = 0
    while time.monotonic() < deadline:
        try:
            async with PipelineReader(settings) as reader:
                while time.monotonic() < deadline:
                    standing = decide(await reader.read(), patience_s=1e6)
                    quiet = quiet + 1 if standing.drained else 0
                    if quiet == 3:
                        return True
                    await asyncio.sleep(0.5)
        except (TransientInfraError, KafkaError):
            await asyncio.sleep(0.5)
    say(f"not at rest: {standing}")
    return False


async def account(
    settings: Settings,
    site: Site,
    spoiled: list[tuple[str, int, int]],
    snapshots: Sequence[Snapshot],
) -> dict[str, Any]:
    """What is lost, double or fetched again, from all that the topics hold."""
    messages = await read_all(settings)
    found = examine(site, messages, spoiled)
    judge = Judge(site, messages)
    in_flight = [judge.in_flight(one) for one in snapshots]
    unexplained = found.refetches - sum(in_flight, Counter())
    for name in ("lost", "unexpected", "duplicate_records", "unburied"):
        for line in getattr(found, name)[:10]:
            say(f"{name}: {line}")
    for url in unexplained:
        say(f"unexplained: {url}: {judge.history(url)}")
    return {
        "urls": len(site.expected()),
        "lost": len(found.lost),
        "unexpected": len(found.unexpected),
        "duplicate_records": len(found.duplicate_records),
        "unburied": len(found.unburied),
        "refetches": found.refetches.total(),
        "in_flight_bound": sum(one.total() for one in in_flight),
        "unexplained_refetches": unexplained.total(),
        "repeated_records": found.repeated_records,
    }


def rebalances(folder: Path) -> int:
    """How often workers were assigned partitions, from their logs."""
    total = 0
    for path in folder.glob("*.log"):
        text = path.read_text("utf-8", "replace")
        total += text.count('"event": "assigned"') + text.count('"event": "ready"')
    return total


def sound(verdict: dict[str, Any]) -> bool:
    """Whether a run proves the guarantee."""
    return bool(
        verdict["at_rest"]
        and not verdict["harness_failures"]
        and not any(
            verdict[name] for name in ("lost", "unexpected", "duplicate_records", "unburied")
        )
        and not verdict["unexplained_refetches"]
        and verdict["refetches"] <= verdict["in_flight_bound"]
    )
