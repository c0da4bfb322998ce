"""How many requests one fetcher has in flight: additive increase, multiplicative decrease.

The signs of too much are our own, not a host's: most fetches of a sample time out, the event loop
lags, memory runs short, or the resolver fails for many hosts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DECREASE: Final = 0.7
LEAST: Final = 4
MAX_LAG_S: Final = 0.25
MAX_MEMORY: Final = 0.9
MAX_TIMEOUT_SHARE: Final = 0.5
LEAST_SAMPLE: Final = 20


class Sample(NamedTuple):
    """What was seen since the last sample.

    `finished`: fetches ended. `timeouts`: of them by connect or first-byte time-outs or by
    temporary DNS failures. `lag_s`: longest delay of the event loop. `memory`: share of the
    memory that the process may use, 0 when not known. `busy`: the limit was reached.
    """

    finished: int
    timeouts: int
    lag_s: float
    memory: float
    busy: bool


def adapt(limit: int, sample: Sample, *, ceiling: int) -> int:
    """The next limit of requests in flight.

    It falls by `DECREASE` on any sign of too much and grows by a sixteenth of the ceiling when
    it was the limit that kept requests waiting; else it stays.
    """
    floor = min(LEAST, ceiling)
    crowded = sample.lag_s > MAX_LAG_S or sample.memory > MAX_MEMORY
    failing = (
        sample.finished >= LEAST_SAMPLE and sample.timeouts > sample.finished * MAX_TIMEOUT_SHARE
    )
    if crowded or failing:
        return max(floor, int(limit * DECREASE))
    if sample.busy:
        return min(ceiling, limit + max(1, ceiling // 16))
    return limit
