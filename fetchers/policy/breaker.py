"""The circuit breaker of one host: stop trying a host that does not answer.

Closed, it counts failures in a row; at `THRESHOLD` it opens. Open, nothing is tried until
`until`, and the host's URLs wait in a retry tier. Then it is half open: one request at a time is
let through, and its outcome closes the breaker or opens it for twice as long.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from schemas.reasons import Reason

THRESHOLD: Final = 5
OPEN_S: Final = 60.0
"""Length of the first opening; doubles with each one that follows."""
MAX_OPEN_S: Final = 3_600.0
JITTER: Final = 0.1
COUNTED: Final = frozenset({Reason.CONNECT, Reason.CONNECT_TIMEOUT, Reason.FIRST_BYTE_TIMEOUT})
"""Reasons that speak of the host and of no one else. DNS failures are not among them: they may be
our resolver's, and its cache answers the next ones. 429 and 503 are the politeness back-off's."""

State = Literal["closed", "open", "half_open"]


class Breaker(NamedTuple):
    """State of one host's breaker.

    `failures`: counted failures in a row. `openings`: openings in a row without a success.
    `until`: end of the latest opening. `reason`: of the failure that opened it.
    """

    failures: int = 0
    openings: int = 0
    until: float = 0.0
    reason: Reason | None = None


CLOSED: Final = Breaker()


def state(breaker: Breaker, now: float) -> State:
    """The breaker's state at an instant."""
    if not breaker.openings:
        return "closed"
    return "open" if now < breaker.until else "half_open"


def failed(
    breaker: Breaker, reason: Reason, *, now: float, jitter: float, scale: float = 1.0
) -> Breaker:
    """The breaker after a failure; reasons that are not counted change nothing.

    A failure of a request that was begun before the breaker opened does not prolong it.

    Args:
        breaker: before.
        reason: of the failure.
        now: monotonic seconds.
        jitter: in [0, 1).
        scale: of all times, as the retry tiers are scaled.
    """
    if reason not in COUNTED:
        return breaker
    current = state(breaker, now)
    if current == "open":
        return breaker
    failures = breaker.failures + 1
    if current == "closed" and failures < THRESHOLD:
        return breaker._replace(failures=failures)
    open_s = min(OPEN_S * 2.0 ** min(breaker.openings, 12), MAX_OPEN_S) * scale
    until = now + open_s * (1.0 + JITTER * jitter)
    return Breaker(failures, breaker.openings + 1, until, reason)


def answered(breaker: Breaker) -> Breaker:
    """The breaker after any HTTP answer: closed."""
    return CLOSED if breaker is not CLOSED else breaker
