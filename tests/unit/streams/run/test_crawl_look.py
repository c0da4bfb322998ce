"""How often a run looks whether it is over: seldom while much is left."""

from __future__ import annotations

import pytest

from streams.run.crawl import look_after_s
from streams.standing.drain import Standing


@pytest.mark.parametrize(
    ("backlog", "budgeted", "wait_s"),
    [
        ({}, False, 0.5),
        ({"urls": 1_000}, False, 0.5),
        ({"urls": 1_000, "fetch-requests": 1}, False, 2.0),
        ({"urls": 100_000}, True, 0.5),
    ],
)
def test_looks(backlog: dict[str, int], budgeted: bool, wait_s: float) -> None:
    standing = Standing(drained=False, backlog=backlog, later=0, next_due_at=None)
    assert look_after_s(standing, budgeted=budgeted) == wait_s
