"""A crawl while workers come and go in order: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos.schedule import ROLES, graceful
from tests.chaos.storm import Storm
from tests.chaos.verdict import sound

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_800)]


async def test_scaling_and_sigterm_cost_no_fetch_and_no_record(tmp_path: Path) -> None:
    """Long time-outs: on a busy machine a slow worker must not be taken for a dead one."""
    storm = Storm(
        tmp_path, 3, graceful(), session_timeout_s=60.0, drain_timeout_s=60.0,
        delivery_timeout_s=120.0,
    )  # fmt: skip
    verdict = await storm.run()
    assert sound(verdict), verdict
    assert verdict["faults"] == {"scale": 3 * len(ROLES), "term": len(ROLES)}
    assert (verdict["refetches"], verdict["repeated_records"]) == (0, 0)
    codes = {int(row.partition(":")[2]) for row in verdict["exits"]}
    assert codes <= {0, -signal.SIGTERM}, "by the signal: told to leave before it had begun"
    assert verdict["urls"] > 100
