"""A short storm: at least twelve kills over all roles. `make chaos KILLS=200` is the long one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.chaos.schedule import ROLES, Kind, make

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_800)]

KILLS = 12
SEED = 1


def test_nothing_is_lost_in_a_short_storm() -> None:
    run = subprocess.run(
        [sys.executable, "tests/chaos/run.py", "--kills", str(KILLS), "--seed", str(SEED)],
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    verdict = json.loads(run.stdout.splitlines()[-1])
    assert run.returncode == 0, verdict
    assert sum(verdict["kills"].values()) >= KILLS
    assert set(verdict["kills"]) == {*ROLES, "parse process", "broker"}
    assert (verdict["lost"], verdict["duplicate_records"]) == (0, 0)
    assert verdict["refetches"] <= verdict["in_flight_bound"]
    assert verdict["urls"] > 100


def test_a_schedule_is_data_that_its_seed_decides() -> None:
    assert make(40, 5) == make(40, 5) != make(40, 6)
    assert {fault.kind for fault in make(50, 5, full_disk=True)} == set(get_args(Kind))
    assert sum(fault.kind.startswith("kill") for fault in make(40, 5)) == 40
