"""Parse processes on a machine that all workers share: cores, memory, what was set."""

from __future__ import annotations

import pytest

from streams.process.machine import Machine
from streams.settings import load
from streams.supervise.children import environment
from streams.supervise.share import OTHERS_BYTES, parse_processes

_GIB = 1 << 30
_EACH = (1024 + 96) << 20


@pytest.mark.parametrize(
    ("cores", "free", "parsers", "wanted"),
    [
        (8.0, 64 * _GIB, 1, 8),
        (2.0, 24 * _GIB, 1, 2),
        (2.9, 24 * _GIB, 1, 2),
        (0.5, 24 * _GIB, 1, 1),
        (8.0, 64 * _GIB, 2, 4),
        (8.0, 64 * _GIB, 3, 2),
        (2.0, 64 * _GIB, 4, 1),
        (8.0, OTHERS_BYTES + 3 * _EACH, 1, 3),
        (8.0, OTHERS_BYTES + 3 * _EACH - 1, 1, 2),
        (8.0, OTHERS_BYTES + 5 * _EACH, 2, 2),
        (8.0, 100, 1, 1),
        (8.0, 0, 3, 1),
        (8.0, None, 1, 8),
        (200.0, None, 1, 64),
    ],
)
def test_as_many_as_there_are_cores_and_memory_for(
    cores: float, free: int | None, parsers: int, wanted: int
) -> None:
    settings, told = parse_processes(load({}), parsers, Machine(cores, free))
    assert settings.parse_processes == wanted
    assert told.startswith(f"{wanted} parse process")
    assert environment(settings, "b:1", {})["CRAWL_PARSE_PROCESSES"] == str(wanted)


def test_a_number_that_was_set_stays_and_is_not_told() -> None:
    given = load({"CRAWL_PARSE_PROCESSES": "1"})
    assert parse_processes(given, 1, Machine(8.0, None)) == (given, "")


def test_without_parsers_there_is_nothing_to_share() -> None:
    given = load({})
    assert parse_processes(given, 0, Machine(8.0, None)) == (given, "")


def test_a_larger_limit_leaves_room_for_fewer() -> None:
    settings = load({"CRAWL_PARSE_MEMORY_MB": "4096"})
    free = OTHERS_BYTES + 10 * _EACH
    settings, told = parse_processes(settings, 2, Machine(8.0, free))
    assert settings.parse_processes == 1
    assert told == (
        "1 parse process for each parser: 8 cores, 11.9 GiB free and 4.1 GiB for each at most"
        " (CRAWL_PARSE_PROCESSES sets it)"
    )
