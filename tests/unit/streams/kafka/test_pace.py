"""The pause between requests: short when idle, doubling to its longest under load."""

from __future__ import annotations

import pytest

from streams.kafka.pace import LONGEST_S, SHORTEST_S, Pace


def test_the_first_request_never_waits() -> None:
    assert Pace().wait_s(0.0) <= 0


def test_requests_that_follow_each_other_grow_apart_and_a_gap_ends_that() -> None:
    pace = Pace()
    now, pauses = 0.0, []
    for _ in range(5):
        pace.asked(now)
        pauses.append(pace.wait_s(now))
        now += pauses[-1] + 0.04
    assert pauses == pytest.approx(
        [SHORTEST_S, 2 * SHORTEST_S, 4 * SHORTEST_S, LONGEST_S, LONGEST_S]
    )
    now += 2 * LONGEST_S
    pace.asked(now)
    assert pace.wait_s(now) == pytest.approx(SHORTEST_S)
    assert pace.wait_s(now + SHORTEST_S) <= 1e-9


def test_single_requests_with_pauses_between_stay_quick() -> None:
    pace = Pace()
    for number in range(20):
        pace.asked(number * 0.11)
        assert pace.wait_s(number * 0.11) == pytest.approx(SHORTEST_S)
