"""Dates against what they were written from, and against readers of the standard library."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from http.cookiejar import http2time
from random import Random
from typing import TYPE_CHECKING, Final

from fetchers.policy.retry_after import CAP_S, http_date, wait_s
from parsers.text.dates import iso, parse_ms
from tests.corpus.differences import Difference, comparing

if TYPE_CHECKING:
    from collections.abc import Callable

_ZONES: Final = (0, 60, 120, 330, 345, -300, -480, 765, -210)


def _moment(random: Random) -> datetime:
    zone = timezone(timedelta(minutes=random.choice(_ZONES)))
    moment = datetime.fromtimestamp(random.randrange(631_152_000, 2_800_000_000), zone)
    return moment.replace(microsecond=random.choice((0, 0, 123_000, 120_000, 999_000)))


def _named(moment: datetime, name: str, hours: int) -> datetime:
    return moment.astimezone(timezone(timedelta(hours=hours), name))


_EXACT: Final[tuple[Callable[[datetime], str], ...]] = (
    datetime.isoformat,
    lambda it: it.isoformat(" "),
    lambda it: it.isoformat().replace("T", "t"),
    lambda it: it.strftime("%Y%m%dT%H%M%S%z"),
    lambda it: it.strftime("%Y-%m-%dT%H:%M:%S.%f%z"),
    lambda it: it.strftime("%Y-%m-%dT%H:%M:%S,%f%z"),
    lambda it: it.strftime("%Y/%m/%d %H:%M:%S %z"),
    lambda it: it.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    lambda it: it.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    lambda it: (
        f"{it.astimezone(UTC):%Y}-{it.astimezone(UTC).month}-{it.astimezone(UTC).day}"
        f" {it.astimezone(UTC):%H:%M:%S}"
    ),
    format_datetime,
    lambda it: it.strftime("%d %b %Y %H:%M:%S %z"),
    lambda it: it.strftime("%a, %d %b %y %H:%M:%S %z"),
    lambda it: it.strftime("%A, %d-%b-%y %H:%M:%S %z"),
    lambda it: it.strftime("%A, %d %B %Y %H:%M:%S %z"),
    lambda it: it.strftime("%a,%d %b %Y %H:%M:%S %z"),
    lambda it: it.astimezone(UTC).strftime("%a %b %d %H:%M:%S %Y"),
    lambda it: it.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
    lambda it: it.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S Z"),
    lambda it: _named(it, "EST", -5).strftime("%a, %d %b %Y %H:%M:%S %Z"),
    lambda it: _named(it, "PDT", -7).strftime("%a, %d %b %Y %H:%M:%S %Z"),
    lambda it: it.strftime("  %a, %d %b %Y %H:%M:%S %z \n"),
    lambda it: it.strftime("%B %d, %Y %H:%M:%S %z"),
    lambda it: it.strftime("%b %d, %Y, %H:%M:%S %z"),
    lambda it: it.strftime("%d %B %Y, %I:%M:%S %p %z"),
    lambda it: it.strftime("%a %b %d %Y %H:%M:%S GMT%z (somewhere)"),
    lambda it: it.strftime("%B %d, %Y at %I:%M:%S %p %z"),
)
_DAYS: Final[tuple[Callable[[datetime], str], ...]] = (
    lambda it: it.strftime("%Y-%m-%d"),
    lambda it: it.strftime("%Y/%m/%d"),
    lambda it: it.strftime("%Y.%m.%d"),
    lambda it: it.strftime("%Y%m%d"),
    lambda it: f"{it.year}-{it.month}-{it.day}",
    lambda it: f"{it.day}.{it.month}.{it.year}",
    lambda it: it.strftime("%d %B %Y"),
    lambda it: it.strftime("%d %b %Y"),
    lambda it: it.strftime("%d-%b-%Y"),
    lambda it: it.strftime("%B %d, %Y"),
    lambda it: it.strftime("%b. %d, %Y"),
    lambda it: it.strftime("%A, %B %d, %Y"),
    lambda it: it.strftime("%A, %d %B %Y"),
    lambda it: f"{it.day}th of {it:%B} {it.year}",
    lambda it: it.strftime("%a %b %d %Y"),
)


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def test_an_instant_is_read_in_every_form_it_is_written_in() -> None:
    random = Random(1)
    with comparing(at_least=5_000) as compare:
        for _ in range(5_000):
            moment, write = _moment(random), random.choice(_EXACT)
            text = write(moment)
            if not re.search(r":\d\d[.,]\d", text):
                moment = moment.replace(microsecond=0)
            compare(text, parse_ms(text), _ms(moment))


def test_a_day_is_its_midnight() -> None:
    random = Random(2)
    with comparing(at_least=3_000) as compare:
        for _ in range(3_000):
            moment, write = _moment(random), random.choice(_DAYS)
            day = moment.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
            text = write(moment)
            compare(text, parse_ms(text), _ms(day))


def test_what_is_written_for_people_is_read_again() -> None:
    random = Random(3)
    for _ in range(500):
        moment = _moment(random).replace(microsecond=0)
        assert parse_ms(iso(_ms(moment))) == _ms(moment)


def _spoilt(text: str, random: Random) -> str:
    """A text with a few characters changed, doubled or lost."""
    chars = list(text)
    for _ in range(random.choice((0, 1, 1, 2))):
        at = random.randrange(len(chars))
        chars[at : at + 1] = random.choice(("", chars[at] * 2, random.choice("0123456789-+:TZ .,")))
    return "".join(chars)


def _iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return _ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


ISO: Final = (
    Difference(
        "wider than ISO 8601",
        "what no reader of ISO 8601 takes may be a date all the same: none is read otherwise",
        lambda text, ours, theirs: theirs is None,
    ),
    Difference(
        "narrower than Python",
        "hours alone, zones with seconds, any sign between day and time: no date that sites write",
        lambda text, ours, theirs: (
            ours is None
            and re.search(r"[0-9T ]\d\d(?:[+-]|Z|$)|[+-][\d:.,]{6,}$|^[\d-]{8,10}[^T\s\d]", text)
        ),
    ),
)


def test_no_iso_date_is_read_otherwise_than_python_reads_it() -> None:
    random = Random(4)
    with comparing(ISO, at_least=5_000) as compare:
        for _ in range(8_000):
            text = _spoilt(random.choice(_EXACT[:6])(_moment(random)), random)
            compare(text, parse_ms(text), _iso(text))


_HTTP: Final[tuple[str, ...]] = (
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %d %H:%M:%S %Y",
)


def _well_formed(text: str) -> bool:
    """Whether a text is one of the three forms, as the library of C reads and writes it."""
    for form in _HTTP:
        try:
            if datetime.strptime(text, form).strftime(form) == text:  # noqa: DTZ007 - compared only
                return True
        except ValueError:
            continue
    return False


HTTP_DATES: Final = (
    Difference(
        "wider than HTTP",
        "http.cookiejar takes what is none of the three forms of RFC 9110, 5.6.7",
        lambda text, ours, theirs: ours is None and not _well_formed(text),
    ),
    Difference(
        "two digits",
        "years from 70 are of the last century (RFC 6265, 5.1.1); http.cookiejar asks the clock",
        lambda text, ours, theirs: (
            None not in (ours, theirs)
            and datetime.fromtimestamp(theirs, UTC).year
            == datetime.fromtimestamp(ours, UTC).year + 100
        ),
    ),
    Difference(
        "narrower than HTTP",
        "http.cookiejar has no leap second and knows weekdays by their length",
        lambda text, ours, theirs: theirs is None,
    ),
)


def test_http_dates_are_those_of_the_standard_library() -> None:
    random = Random(5)
    with comparing(HTTP_DATES, at_least=5_000) as compare:
        for _ in range(8_000):
            moment = _moment(random).astimezone(UTC)
            text = _spoilt(moment.strftime(random.choice(_HTTP)), random)
            compare(text, http_date(text), http2time(text))


def test_retry_after_is_the_distance_to_its_date() -> None:
    random = Random(6)
    for _ in range(1_000):
        now = _moment(random).replace(microsecond=0).astimezone(UTC)
        ahead = random.choice((-100, 0, 1, 30, 3_599, 3_600, 100_000))
        until = (now + timedelta(seconds=ahead)).strftime(random.choice(_HTTP))
        wanted = float(min(max(ahead, 0), CAP_S))
        assert wait_s(until, date=None, now=now.timestamp()) == wanted
        skewed = now.timestamp() + random.choice((-3_000, 3_000))
        date = now.strftime(random.choice(_HTTP))
        assert wait_s(until, date=date, now=skewed) == wanted
