"""From offsets and the fetchers' gauges to the work of each partition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.autoscale.signals import Held, Snapshot, of_fetchers, of_lag

BEFORE = Snapshot(
    at=100.0,
    ends={0: 1_000, 1: 500},
    committed={0: 900, 1: 500},
    members=1,
    rebalancing=False,
)
NOW = Snapshot(
    at=110.0,
    ends={0: 1_200, 1: 500},
    committed={0: 1_000, 1: 500},
    members=1,
    rebalancing=False,
)


def test_rates_come_from_two_snapshots_and_lag_from_the_later() -> None:
    found = of_lag(BEFORE, NOW)
    assert found.lag == 200
    assert found.work[0] == (200.0, 20.0, 10.0)
    assert found.work[1] == (0.0, 0.0, 0.0)
    assert found.saturated is None
    assert not found.unknown


def test_what_is_completed_beyond_the_commit_is_served_and_no_lag() -> None:
    """One slow message at the head holds the commit back, and not the work behind it."""
    before = replace(BEFORE, completed_ahead={0: 10})
    now = replace(NOW, committed=BEFORE.committed, completed_ahead={0: 150})
    found = of_lag(before, now)
    assert found.lag == 1_200 - 900 - 150
    assert found.work[0] == (150.0, 20.0, 14.0)


def test_a_commit_beyond_the_end_that_was_read_is_no_negative_lag() -> None:
    now = replace(NOW, committed={0: 1_300, 1: 500})
    assert of_lag(BEFORE, now).lag == 0


def test_an_offset_moved_back_by_an_operator_is_not_negative_service() -> None:
    now = replace(NOW, committed={0: 100, 1: 500})
    assert of_lag(BEFORE, now).work[0].served_per_s == 0


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (replace(NOW, at=100.0), "no time"),
        (replace(NOW, ends={0: 1_200, 1: 500, 2: 0}), "partitions have changed"),
        (replace(NOW, ends={0: 3, 1: 0}), "made anew"),
    ],
    ids=["same instant", "more partitions", "new topic"],
)
def test_snapshots_that_cannot_be_compared_say_nothing(now: Snapshot, reason: str) -> None:
    for found in (of_lag(BEFORE, now), of_fetchers(BEFORE, now, Held(0, 0, 0), Held(0, 0, 0))):
        assert reason in found.unknown[0]
        assert not found.work


def test_unread_requests_count_in_the_proportion_of_those_held() -> None:
    # 200 behind, 100 of them held, of which politeness allows 25.
    found = of_fetchers(BEFORE, NOW, Held(0, 0, 40), Held(25, 100, 90))
    assert sum(item.eligible for item in found.work) == pytest.approx(25 + 100 * 0.25)
    assert sum(item.arrival_per_s for item in found.work) == pytest.approx(20 * 0.25)
    assert sum(item.served_per_s for item in found.work) == pytest.approx(5.0)
    assert found.lag == 200


def test_one_slow_host_is_a_small_eligible_backlog() -> None:
    # 1,000 URLs of one host with 1 s delay: 300 can be fetched in 300 s.
    ends = {0: 1_000, 1: 0}
    before = replace(BEFORE, ends=ends, committed={0: 0, 1: 0})
    now = replace(NOW, ends=ends, committed={0: 10, 1: 0})
    found = of_fetchers(before, now, Held(300, 1_000, 0), Held(300, 990, 10, ready=0))
    assert sum(item.eligible for item in found.work) == pytest.approx(300)
    assert found.work[1].eligible == 0


def test_nothing_held_while_much_is_unread_is_unknown() -> None:
    found = of_fetchers(BEFORE, NOW, Held(0, 0, 0), Held(0, 0, 0))
    assert "hold none yet" in found.unknown[0]


def test_nothing_held_and_nothing_unread_is_no_work_and_arrivals_count() -> None:
    now = replace(NOW, committed=dict(NOW.ends))
    found = of_fetchers(BEFORE, now, Held(0, 0, 0), Held(0, 0, 200))
    assert not found.unknown
    assert sum(item.eligible for item in found.work) == 0
    assert sum(item.arrival_per_s for item in found.work) == pytest.approx(20)


@pytest.mark.parametrize(
    ("was", "ready", "expected"),
    [(50.0, 50.0, True), (50.0, 0.0, False), (0.0, 50.0, False), (None, 50.0, None)],
)
def test_saturated_is_due_requests_waiting_at_both_ends(
    was: float | None, ready: float, expected: bool | None
) -> None:
    found = of_fetchers(BEFORE, NOW, Held(90, 100, 0, was), Held(90, 100, 200, ready))
    assert found.saturated is expected


@pytest.mark.parametrize(
    ("cores", "fetchers", "expected"),
    [(0.9, 1, True), (1.8, 2, True), (0.9, 2, False), (0.9, 0, False)],
)
def test_fetchers_that_compute_all_the_time_are_saturated_though_nothing_is_due(
    cores: float, fetchers: int, expected: bool
) -> None:
    was = Held(90, 100, 0, 0.0, 5.0, fetchers)
    held = Held(90, 100, 200, 0.0, 5.0 + 10 * cores, fetchers)
    assert of_fetchers(BEFORE, NOW, was, held).saturated is expected
