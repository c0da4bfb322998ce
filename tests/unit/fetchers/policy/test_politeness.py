"""A host's pace: delay, rest, push-back, a change of owner."""

from __future__ import annotations

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from fetchers.policy import politeness
from tests.cases import case, given
from tests.unit.fetchers.robots_files import parse


@pytest.mark.parametrize(("line", "expected"), given("rob-22"))
def test_rob_22_crawl_delay(line: str, expected: float) -> None:
    bounds = case("rob-22")["input"]
    said = parse(f"User-agent: *\n{line}\n".encode(), "acmebot").crawl_delay_s
    assert politeness.base_delay(bounds["floor_s"], said, bounds["cap_s"]) == expected


def test_a_setting_above_the_cap_stays() -> None:
    assert politeness.base_delay(90.0, 10.0, 60.0) == 90.0
    assert politeness.base_delay(90.0, 1000.0, 60.0) == 90.0


@forall(st.floats(0, 100), st.floats(0, 0.999), st.floats(0, 1000))
def test_jitter_never_shortens_the_delay(delay_s: float, jitter: float, now: float) -> None:
    pace = politeness.started(politeness.FRESH, delay_s, now, jitter)
    assert now + delay_s <= pace.next_at <= now + delay_s * 1.05 + 1e-6


def test_the_delay_counts_from_when_the_request_went_out() -> None:
    pace = politeness.started(politeness.FRESH, 1.0, 100.0, 0.0)
    pace = politeness.finished(
        pace, sent_at=100.4, now=100.5, adaptive_factor=1, parallel=1, adapt=True
    )
    assert pace.next_at == 101.4


@pytest.mark.parametrize(
    ("took_s", "factor", "parallel", "rest_s"),
    [
        (5.0, 1.0, 1, 5.0),
        (5.0, 2.0, 1, 10.0),
        (5.0, 1.0, 5, 1.0),
        (500.0, 1.0, 1, 30.0),
        (5, 0, 1, 0),
    ],
)
def test_a_slow_host_gets_rest(took_s: float, factor: float, parallel: int, rest_s: float) -> None:
    pace = politeness.finished(
        politeness.started(politeness.FRESH, 1.0, 0.0, 0.0),
        sent_at=0.0, now=took_s, adaptive_factor=factor, parallel=parallel, adapt=True,
    )  # fmt: skip
    assert pace.next_at == max(1.0, took_s + rest_s)


def test_no_delay_means_no_rest() -> None:
    pace = politeness.finished(
        politeness.FRESH, sent_at=0.0, now=9.0, adaptive_factor=1, parallel=1, adapt=False
    )
    assert pace.next_at == 9.0


def test_push_back_doubles_and_success_recovers() -> None:
    pace = politeness.FRESH
    pauses, penalties = [], []
    for _ in range(4):
        pace = politeness.pushed_back(pace, delay_s=1.0, retry_after_s=None, now=0.0, jitter=0.0)
        pauses.append(pace.blocked_until)
        penalties.append(pace.penalty_s)
    assert pauses == [30.0, 60.0, 120.0, 240.0]
    assert penalties == [1.0, 2.0, 4.0, 8.0]
    for _ in range(10):
        pace = politeness.welcomed(pace)
    assert (pace.penalty_s, pace.strikes) == (0.0, 0)


def test_retry_after_is_kept_but_never_below_the_delay() -> None:
    pace = politeness.pushed_back(
        politeness.FRESH, delay_s=2.0, retry_after_s=0.0, now=10.0, jitter=0.0
    )
    assert pace.next_at == 12.0
    pace = politeness.pushed_back(
        politeness.FRESH, delay_s=2.0, retry_after_s=120.0, now=10.0, jitter=0.0
    )
    assert pace.next_at == 130.0


def test_an_earlier_pause_is_not_shortened() -> None:
    long = politeness.FRESH._replace(next_at=1000.0)
    assert politeness.pushed_back(
        long, delay_s=1.0, retry_after_s=1.0, now=0.0, jitter=0.0
    ).next_at == 1000.0  # fmt: skip


def test_ownership_change() -> None:
    assert politeness.first_seen(50.0, 2.0).next_at == 52.0
    busy = politeness.FRESH._replace(next_at=60.0)
    assert politeness.reassigned(busy, 50.0, 2.0).next_at == 60.0
    assert politeness.reassigned(politeness.FRESH, 50.0, 2.0).next_at == 52.0
