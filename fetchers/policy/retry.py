"""Whether a failed attempt is followed by another, when, and in which retry tier it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from schemas.reasons import REASONS, Reason
from schemas.topics import RETRY_TIERS_S

if TYPE_CHECKING:
    from collections.abc import Sequence

JITTER: Final = 0.2
"""Share of a back-off that jitter may add: times round up, never down."""
_MAX_DOUBLINGS = 16
_DAY_S = 86_400.0


class Retry(NamedTuple):
    """Another attempt: index of the tier that holds it, and the wait from now in seconds."""

    tier: int
    wait_s: float


def scale_of(tiers_s: Sequence[float]) -> float:
    """How much shorter than usual the tiers are: all waits of the reason table shrink alike."""
    return tiers_s[0] / RETRY_TIERS_S[0]


def tier_for(wait_s: float, tiers_s: Sequence[float]) -> int:
    """The first tier that is at least as long as a wait, or the last one."""
    for index, tier_s in enumerate(tiers_s):
        if wait_s <= tier_s:
            return index
    return len(tiers_s) - 1


def longest_wait_s(tier: int, tiers_s: Sequence[float]) -> float:
    """The most that a request read from a tier can still have to wait.

    When its due time says more, the clock of its writer or of its reader is wrong.
    """
    return _DAY_S if tier == len(tiers_s) - 1 else tiers_s[tier] * (1.0 + JITTER)


def after_failure(
    reason: Reason,
    attempt: int,
    *,
    tiers_s: Sequence[float],
    jitter: float,
    at_least_s: float = 0.0,
) -> Retry | None:
    """The next attempt after one that failed, or None to give up.

    The wait doubles from the reason's base delay with each attempt; a wait that the host asked
    for, or the rest of its breaker's opening, is kept when it is longer.

    Args:
        reason: why the attempt failed.
        attempt: its number; the first is 1.
        tiers_s: delays of the retry tiers, shortest first.
        jitter: random number in [0, 1).
        at_least_s: lower bound of the wait.
    """
    row = REASONS[reason]
    if not row.retriable or attempt >= row.max_attempts:
        return None
    doubled = row.base_delay_s * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS) * scale_of(tiers_s)
    wait_s = min(doubled, tiers_s[-1])
    spread = 1.0 + JITTER * jitter
    if at_least_s > wait_s:
        return Retry(tier_for(at_least_s, tiers_s), at_least_s * spread)
    return Retry(tier_for(wait_s, tiers_s), wait_s * spread)
