"""Dates of the web to milliseconds since the epoch, UTC. Pure: the clock is passed in."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Final

_ISO = re.compile(
    r"\s*(?P<y>\d{4})(?:-?(?P<m>\d{2})(?:-?(?P<d>\d{2}))?)?"
    r"(?:[T\s]+(?P<H>\d{2}):?(?P<M>\d{2})(?::?(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?"
    r"\s*(?P<z>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?\s*",
    re.IGNORECASE,
)
_YEAR_FIRST = re.compile(r"\s*(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?=\D|$)")
_MONTH: Final = r"(?P<m>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_DAY_FIRST = re.compile(
    rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?[\s.-]+{_MONTH}[.,]?(?:-|,?\s+)(?P<y>\d{{4}})\b",
    re.IGNORECASE,
)
_MONTH_FIRST = re.compile(
    rf"\b{_MONTH}\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>\d{{4}})\b", re.IGNORECASE
)
_CLOCK = re.compile(
    r"\b(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,]\d+)?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\b\.?)?"
    r"(?:\s*(?:GMT|UTC)?(?P<z>[+-]\d{2}:?\d{2}|\b[A-Za-z]{1,5}\b))?"
)
_NUMERIC = re.compile(r"\s*(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})\s*")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS: Final = 86_400_000


def parse_ms(text: str) -> int | None:
    """The instant that a text names, or None.

    Understood: ISO 8601 and W3C dates (from a year on), with `/` or `.` and without leading zeros
    too, RFC 5322 dates, `3 March 2021`, `March 3, 2021` and `3.3.2021`. Without a time it is
    midnight, without a zone UTC.
    """
    text = text[:100]
    year_first = _YEAR_FIRST.match(text)
    if year_first is not None:
        year, _, month, day = year_first.groups()
        text = f"{year}-{month:0>2}-{day:0>2}{text[year_first.end() :]}"
    found = _ISO.fullmatch(text)
    try:
        if found is not None:
            return _ms(_from_iso(found))
        return _ms(_from_words(text))
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def past_ms(text: str, now_ms: int) -> int | None:
    """As `parse_ms`, but a date in the future or before the Web (1990) counts as unknown.

    A day of tolerance covers zones and clocks.
    """
    found = parse_ms(text)
    if found is None or not 631_152_000_000 <= found <= now_ms + _DAY_MS:
        return None
    return found


def iso(ms: int) -> str:
    """ISO 8601 of an instant, in UTC."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _from_iso(found: re.Match[str]) -> datetime:
    part = found.groupdict()
    fraction = (part["f"] or "").ljust(6, "0")[:6]
    return datetime(
        int(part["y"]),
        int(part["m"] or 1),
        int(part["d"] or 1),
        int(part["H"] or 0),
        int(part["M"] or 0),
        min(int(part["S"] or 0), 59),
        int(fraction or 0),
        tzinfo=_zone(part["z"]),
    )


def _zone(text: str | None) -> timezone:
    if text is None or not text.startswith(("+", "-")):
        return UTC
    digits = text[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return timezone(timedelta(minutes=minutes if text[0] == "+" else -minutes))


def _from_words(text: str) -> datetime:
    found = _NUMERIC.fullmatch(text)
    if found is not None:
        return datetime(int(found[3]), int(found[2]), int(found[1]), tzinfo=UTC)
    day = _DAY_FIRST.search(text) or _MONTH_FIRST.search(text)
    if day is None:
        if ":" not in text:
            raise ValueError(text)
        return parsedate_to_datetime(text)
    written = f"{int(day['d'])} {day['m']} {day['y']}"
    clock = _CLOCK.search(text, day.end()) or _CLOCK.search(text, 0, day.start())
    if clock is None:
        return parsedate_to_datetime(f"{written} 00:00:00 GMT")
    hour = int(clock["H"])
    if clock["half"]:
        hour = hour % 12 + (12 if clock["half"] in "pP" else 0)
    zone = (clock["z"] or "GMT").replace(":", "")
    return parsedate_to_datetime(f"{written} {hour}:{clock['M']}:{clock['S'] or '00'} {zone}")
