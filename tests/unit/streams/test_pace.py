"""The pause between requests: short when idle, doubling to its longest under load."""

from __future__ import annotations

import pytest

from streams.pace import LONGEST_S, SHORTEST_S, Pace


def test_the_first_request_never_waits() -> None:
    assert Pace().wait_s(0.0) <= 0


def test_busy_requests_grow_apart_and_an_idle_one_ends_that() -> None:
    pace = Pace()
    pauses = []
    for at in range(5):
        pace.asked(float(at), busy=True)
        pauses.append(pace.wait_s(float(at)))
    assert pauses == pytest.approx(
        [2 * SHORTEST_S, 4 * SHORTEST_S, LONGEST_S, LONGEST_S, LONGEST_S]
    )
    pace.asked(9.0, busy=False)
    assert pace.wait_s(9.0) == pytest.approx(SHORTEST_S)
    assert pace.wait_s(9.0 + SHORTEST_S) <= 1e-9
