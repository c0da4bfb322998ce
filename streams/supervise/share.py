"""How many parse processes each parser gets on a machine that all workers share. Pure."""

from __future__ import annotations

from typing import Final

from streams.process.machine import Machine
from streams.settings import Settings

OTHERS_BYTES: Final = 1 << 30
"""What broker, fetcher, dedup and the parsers' Kafka side take (measured: 0.8 GB)."""
_BASE_BYTES: Final = 96 << 20
"""A parse process at its start, beyond which its limit counts."""
_MOST: Final = 64
_GIB: Final = 1 << 30


def parse_processes(settings: Settings, parsers: int, machine: Machine) -> tuple[Settings, str]:
    """Settings with a number of parse processes, and the line that tells it; empty: nothing to say.

    One process keeps a core busy, so there are as many as cores over all parsers, but no more than
    have room when each takes all that it may. A number that was set stays.

    Args:
        settings: of the workers.
        parsers: parser workers on this machine.
        machine: before any worker runs.
    """
    if settings.parse_processes is not None or not parsers:
        return settings, ""
    wanted = max(1, int(machine.cores) // parsers)
    each_bytes = (settings.parse_memory_mb << 20) + _BASE_BYTES
    why = f"{machine.cores:g} cores"
    if machine.free_bytes is not None:
        room = max(1, (machine.free_bytes - OTHERS_BYTES) // each_bytes // parsers)
        why += (
            f", {machine.free_bytes / _GIB:.1f} GiB free"
            f" and {each_bytes / _GIB:.1f} GiB for each at most"
        )
        wanted = min(wanted, room)
    wanted = min(wanted, _MOST)
    many = "process" if wanted == 1 else "processes"
    per = "" if parsers == 1 else " for each parser"
    told = f"{wanted} parse {many}{per}: {why} (CRAWL_PARSE_PROCESSES sets it)"
    return settings.model_copy(update={"parse_processes": wanted}), told
