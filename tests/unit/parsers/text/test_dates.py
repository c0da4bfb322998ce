"""Dates as pages write them."""

from __future__ import annotations

import pytest

from parsers.text.dates import iso, parse_ms, past_ms


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2020-02-03", "2020-02-03T00:00:00Z"),
        ("2020-02-03T04:05:06Z", "2020-02-03T04:05:06Z"),
        ("2020-02-03 04:05", "2020-02-03T04:05:00Z"),
        ("2020-02-03T04:05:06.789+02:00", "2020-02-03T02:05:06Z"),
        ("20200203T040506-0130", "2020-02-03T05:35:06Z"),
        ("2020-02", "2020-02-01T00:00:00Z"),
        ("2020", "2020-01-01T00:00:00Z"),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "2015-10-21T07:28:00Z"),
        ("21 Oct 2015 07:28 +0200", "2015-10-21T05:28:00Z"),
        ("3 March 2021", "2021-03-03T00:00:00Z"),
        ("Published on March 3rd, 2021 by me", "2021-03-03T00:00:00Z"),
        ("3. Dec. 2021", "2021-12-03T00:00:00Z"),
        ("03.12.2021", "2021-12-03T00:00:00Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("0000-00-00", None),
        ("2020-13-01", None),
        ("2016-03-01T01:02:03Z 2015-01-01", None),
        ("soon", None),
        ("", None),
        ("3 Foo 2021", None),
        ("99999999999999999999", None),
        ("12:99 x", None),
    ],
)
def test_dates(text: str, wanted: str | None) -> None:
    found = parse_ms(text)
    assert (None if found is None else iso(found)) == wanted


def test_dates_before_the_web_or_in_the_future_are_unknown() -> None:
    assert past_ms("1970-01-01", 1_700_000_000_000) is None
    assert past_ms("2030-01-01", 1_700_000_000_000) is None
    assert past_ms("2023-11-14T22:13:21Z", 1_700_000_000_000) == 1_700_000_001_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("March 5, 2021 9:04:23 PM", "2021-03-05T21:04:23Z"),
        ("5 March 2021, 12:00 a.m.", "2021-03-05T00:00:00Z"),
        ("5 March 2021, 12:30 pm EST", "2021-03-05T17:30:00Z"),
        ("March 5, 2021 at 9:04 AM +0100", "2021-03-05T08:04:00Z"),
        ("Fri Mar 05 2021 09:04:23 GMT+0100 (CET)", "2021-03-05T08:04:23Z"),
        ("09:04, 5 March 2021", "2021-03-05T09:04:00Z"),
        ("2021/03/05 09:04", "2021-03-05T09:04:00Z"),
        ("2021-3-5", "2021-03-05T00:00:00Z"),
        ("2021.3.5", "2021-03-05T00:00:00Z"),
        ("5-Mar-2021", "2021-03-05T00:00:00Z"),
        ("5th of March 2021", "2021-03-05T00:00:00Z"),
        ("5. 3. 2021", "2021-03-05T00:00:00Z"),
    ],
)
def test_dates_as_people_and_programs_write_them(text: str, moment: str) -> None:
    found = parse_ms(text)
    assert found is not None
    assert iso(found) == moment


@pytest.mark.parametrize(
    "text", ["2021-3/5", "2021-13-5", "32 March 2021", "March 2021 9:04 PM", "9:04 PM", "x", ""]
)
def test_what_is_no_date_is_none(text: str) -> None:
    assert parse_ms(text) is None
