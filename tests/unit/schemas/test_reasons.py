from __future__ import annotations

import re
from itertools import groupby

import pytest

from schemas.reasons import REASONS, Reason, of_status
from schemas.topics import RETRY_TIERS_S


def test_every_reason_has_one_row() -> None:
    assert set(REASONS) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_codes_are_fit_for_wire_metrics_and_commands(reason: Reason) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,31}", reason.value)
    assert reason.name.lower() == reason.value


@pytest.mark.parametrize("reason", Reason)
def test_rows_are_consistent(reason: Reason) -> None:
    row = REASONS[reason]
    assert row.retriable is (row.max_attempts > 1)
    assert 0.0 <= row.base_delay_s <= RETRY_TIERS_S[-1]
    if not row.retriable:
        assert row.base_delay_s == 0.0
        assert row.max_attempts == 1
    if row.kind != "failed":
        assert not row.retriable


def test_kinds_follow_the_sections_of_the_enumeration() -> None:
    kinds = [kind for kind, _ in groupby(REASONS[reason].kind for reason in Reason)]
    assert kinds == ["rejected", "disregarded", "failed"]


@pytest.mark.parametrize("reason", Reason)
def test_a_retry_that_waits_for_a_server_waits_at_least_the_shortest_tier(reason: Reason) -> None:
    row = REASONS[reason]
    ours = {Reason.PARSE_CRASH, Reason.POISON}
    if row.retriable and reason not in ours:
        assert row.base_delay_s >= RETRY_TIERS_S[0]


@pytest.mark.parametrize("status", [200, 201, 204, 206, 226, 299, 300, 301, 304, 308, 399])
def test_results(status: int) -> None:
    assert of_status(status) is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, Reason.HTTP_4XX),
        (401, Reason.HTTP_4XX),
        (404, Reason.HTTP_4XX),
        (408, Reason.HTTP_408),
        (410, Reason.HTTP_4XX),
        (421, Reason.HTTP_421),
        (425, Reason.HTTP_425),
        (429, Reason.HTTP_429),
        (451, Reason.HTTP_4XX),
        (499, Reason.HTTP_4XX),
        (500, Reason.HTTP_500),
        (501, Reason.HTTP_5XX),
        (502, Reason.HTTP_502),
        (503, Reason.HTTP_503),
        (504, Reason.HTTP_504),
        (505, Reason.HTTP_5XX),
        (511, Reason.HTTP_5XX),
        (599, Reason.HTTP_5XX),
        (-1, Reason.HTTP_ODD),
        (0, Reason.HTTP_ODD),
        (100, Reason.HTTP_ODD),
        (199, Reason.HTTP_ODD),
        (600, Reason.HTTP_ODD),
        (999, Reason.HTTP_ODD),
    ],
)
def test_failures(status: int, reason: Reason) -> None:
    assert of_status(status) is reason
    assert REASONS[reason].kind == "failed"


def test_every_status_reason_is_given_by_some_status() -> None:
    given = {of_status(status) for status in range(-1, 1_000)}
    assert given == {None} | {reason for reason in Reason if reason.value.startswith("http_")}


@pytest.mark.parametrize("status", [408, 421, 425, 429, 500, 502, 503, 504])
def test_passing_troubles_of_a_server_are_tried_again(status: int) -> None:
    reason = of_status(status)
    assert reason is not None
    assert REASONS[reason].retriable


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 501, 505, 600])
def test_answers_that_will_not_change_are_not(status: int) -> None:
    reason = of_status(status)
    assert reason is not None
    assert not REASONS[reason].retriable


@pytest.mark.parametrize("reason", [Reason.HTTP_429, Reason.HTTP_503])
def test_overload_is_the_hosts(reason: Reason) -> None:
    assert REASONS[reason].scope == "host"
