"""Retry-After and Date (RFC 9110 sections 5.6.7 and 10.2.3): how long a server asks us to wait."""

from __future__ import annotations

import calendar
import re
from typing import Final

CAP_S: Final = 3_600.0
"""Longest wait that a Retry-After gets; what asks for more is asked again after this."""
_SANE_SKEW_S = 2 * 86_400.0
_DIGITS = re.compile(r"[0-9]+")
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if number}
_IMF = re.compile(
    r"[a-z]{3}, ([0-9]{2}) ([a-z]{3}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) gmt"
)
_RFC850 = re.compile(
    r"[a-z]{6,9}, ([0-9]{2})-([a-z]{3})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) gmt"
)
_ASCTIME = re.compile(
    r"[a-z]{3} ([a-z]{3}) ([0-9 ][0-9]) ([0-9]{2}):([0-9]{2}):([0-9]{2}) ([0-9]{4})"
)


def http_date(text: str) -> float | None:
    """Seconds since the epoch of an HTTP date in any of its three forms, or None.

    Two-digit years are of this century's first seventy years or else of the last century.
    """
    low = text.strip().lower()
    if match := _IMF.fullmatch(low):
        day, month, year, *clock = match.groups()
    elif match := _RFC850.fullmatch(low):
        day, month, short, *clock = match.groups()
        year = f"{'20' if int(short) < 70 else '19'}{short}"
    elif match := _ASCTIME.fullmatch(low):
        month, day, *clock, year = match.groups()
    else:
        return None
    number = _MONTHS.get(month)
    hour, minute, second = (int(part) for part in clock)
    if number is None or hour > 23 or minute > 59 or second > 60:
        return None
    if not 1 <= int(day) <= calendar.monthrange(max(int(year), 1), number)[1]:
        return None
    return float(calendar.timegm((int(year), number, int(day), hour, minute, second)))


def wait_s(
    value: str | None, *, date: str | None, now: float, cap_s: float = CAP_S
) -> float | None:
    """Seconds that a Retry-After asks for, at most `cap_s`; None when it is absent or invalid.

    A date is measured against the response's own Date while that is within two days of our
    clock, so that a server whose clock is off gets the wait it meant. A date that has passed is
    0, which still leaves the politeness delay.

    Args:
        value: the field's value; several values, signs and fractions are invalid.
        date: the response's Date.
        now: our clock, seconds since the epoch.
        cap_s: upper bound.
    """
    if value is None:
        return None
    text = value.strip()
    if _DIGITS.fullmatch(text):
        return cap_s if len(text) > 9 else min(float(text), cap_s)
    until = http_date(text)
    if until is None:
        return None
    server_now = http_date(date) if date else None
    if server_now is None or abs(server_now - now) > _SANE_SKEW_S:
        server_now = now
    return min(max(until - server_now, 0.0), cap_s)
