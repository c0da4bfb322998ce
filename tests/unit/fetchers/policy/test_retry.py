"""Retries: how many, after how long, by which tier."""

from __future__ import annotations

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from fetchers.policy.retry import after_failure, longest_wait_s, scale_of, tier_for
from schemas.reasons import REASONS, Reason
from schemas.topics import RETRY_TIERS_S


def test_backoff_doubles_into_longer_tiers() -> None:
    waits = [
        after_failure(Reason.CONNECT, attempt, tiers_s=RETRY_TIERS_S, jitter=0.0)
        for attempt in range(1, 6)
    ]
    assert waits == [(0, 30.0), (1, 60.0), (1, 120.0), (2, 240.0), None]


@pytest.mark.parametrize("reason", list(Reason))
def test_the_table_bounds_attempts(reason: Reason) -> None:
    row = REASONS[reason]
    attempt = 1
    while after_failure(reason, attempt, tiers_s=RETRY_TIERS_S, jitter=0.5):
        attempt += 1
    assert attempt == (row.max_attempts if row.retriable else 1)


@forall(
    st.sampled_from([r for r in Reason if REASONS[r].retriable]),
    st.integers(1, 20),
    st.floats(0, 0.999),
    st.floats(0, 100_000),
)
def test_retries_are_never_early(
    reason: Reason, attempt: int, jitter: float, at_least: float
) -> None:
    retry = after_failure(
        reason, attempt, tiers_s=RETRY_TIERS_S, jitter=jitter, at_least_s=at_least
    )
    if retry is not None:
        assert retry.wait_s >= at_least
        assert 0 <= retry.tier < len(RETRY_TIERS_S)
        if retry.tier < len(RETRY_TIERS_S) - 1:
            assert retry.wait_s <= longest_wait_s(retry.tier, RETRY_TIERS_S)
        assert retry.wait_s <= max(at_least, RETRY_TIERS_S[-1]) * 1.2


def test_tiers_scale_all_waits() -> None:
    tiers = (1.0, 2.0, 4.0, 8.0, 16.0)
    assert scale_of(tiers) == 1 / 30
    assert after_failure(Reason.CONNECT, 1, tiers_s=tiers, jitter=0.0) == (0, 1.0)
    assert tier_for(3.0, tiers) == 2
    assert tier_for(99.0, tiers) == 4
