"""How many fetches at once: what raises the limit, and what lowers it."""

from __future__ import annotations

import pytest

from fetchers.policy.concurrency import LEAST, Sample, adapt

CALM = Sample(finished=100, timeouts=0, lag_s=0.0, memory=0.0, busy=True)


@pytest.mark.parametrize(
    ("sample", "limit"),
    [
        (CALM, 72),
        (CALM._replace(busy=False), 64),
        (CALM._replace(timeouts=60), 44),
        (CALM._replace(finished=10, timeouts=10, busy=False), 64),
        (CALM._replace(lag_s=0.5), 44),
        (CALM._replace(memory=0.95), 44),
    ],
)
def test_concurrency(sample: Sample, limit: int) -> None:
    assert adapt(64, sample, ceiling=128) == limit


def test_concurrency_stays_between_its_bounds() -> None:
    low = high = 64
    for _ in range(50):
        low = adapt(low, CALM._replace(lag_s=1.0), ceiling=64)
        high = adapt(high, CALM, ceiling=64)
    assert (low, high) == (LEAST, 64)
    assert adapt(2, CALM._replace(lag_s=1.0), ceiling=2) == 2
