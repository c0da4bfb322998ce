"""Retry-After: seconds, dates, and dates that cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from fetchers.policy.retry_after import http_date, wait_s
from tests.cases import case, given


@pytest.mark.parametrize(("value", "expected"), given("rty-01"))
def test_rty_01(value: str, expected: float) -> None:
    bounds = case("rty-01")["input"]
    now = http_date(bounds["now"])
    assert now is not None
    wait = wait_s(value, date=None, now=now, cap_s=bounds["cap_s"])
    assert (bounds["default_s"] if wait is None else wait) == expected


def test_clk_03_a_date_is_measured_against_the_server_s_own() -> None:
    given_ = case("clk-03")["input"]
    headers = given_["response_headers"]
    now = http_date(given_["our_clock"])
    assert now is not None
    wait = wait_s(headers["Retry-After"], date=headers["Date"], now=now)
    assert wait == case("clk-03")["expected"]["wait_s"]


@pytest.mark.parametrize("date", ["Thu, 01 Jan 1970 00:00:00 GMT", "junk", "", None])
def test_a_date_that_cannot_be_is_not_used(date: str | None) -> None:
    now = http_date("Wed, 21 Oct 2015 07:28:00 GMT")
    assert now is not None
    assert wait_s("Wed, 21 Oct 2015 07:29:00 GMT", date=date, now=now) == 60


@forall(st.text(max_size=40))
def test_no_value_raises(value: str) -> None:
    wait = wait_s(value, date=value, now=1.0)
    assert wait is None or 0 <= wait <= 3600
