"""The breaker: what opens it, for how long, and what closes it."""

from __future__ import annotations

import pytest

from fetchers.policy import breaker
from schemas.reasons import REASONS, Reason

HOSTLY = sorted(breaker.COUNTED)


def _fail(state: breaker.Breaker, now: float, reason: Reason = Reason.CONNECT) -> breaker.Breaker:
    return breaker.failed(state, reason, now=now, jitter=0.0)


def test_breaker_opens_after_failures_in_a_row_only() -> None:
    state = breaker.CLOSED
    for _ in range(4):
        state = _fail(state, 0.0)
    assert breaker.state(state, 0.0) == "closed"
    assert breaker.state(_fail(state, 0.0), 1.0) == "open"
    state = breaker.answered(state)
    assert breaker.state(_fail(state, 0.0), 1.0) == "closed"


def test_breaker_half_opens_and_doubles() -> None:
    state = breaker.CLOSED
    for _ in range(5):
        state = _fail(state, 0.0)
    assert state.until == 60.0
    assert breaker.state(state, 59.9) == "open"
    assert breaker.state(state, 60.0) == "half_open"
    state = _fail(state, 60.0)
    assert state.until == 180.0
    assert breaker.answered(state) == breaker.CLOSED


def test_late_failures_do_not_prolong_an_opening() -> None:
    state = breaker.CLOSED
    for _ in range(9):
        state = _fail(state, 0.0)
    assert (state.until, state.openings) == (60.0, 1)


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in breaker.COUNTED])
def test_other_reasons_do_not_count(reason: Reason) -> None:
    state = breaker.CLOSED
    for _ in range(20):
        state = _fail(state, 0.0, reason)
    assert state == breaker.CLOSED


@pytest.mark.parametrize("reason", HOSTLY)
def test_counted_reasons_are_about_hosts(reason: Reason) -> None:
    assert REASONS[reason].scope == "host"


def test_openings_are_capped() -> None:
    state = breaker.CLOSED
    now = 0.0
    for _ in range(60):
        state = _fail(state, now)
        now = max(now, state.until)
    assert state.until - now <= breaker.MAX_OPEN_S
