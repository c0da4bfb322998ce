"""Why a URL did not become a record: one row a reason, in one table.

A reason is a value, not an exception. Its row says all that policy needs: whether another
attempt may help, whether the fault is the URL's or its whole host's, how long to wait at first,
how often to try at most, and how loud to log it.
"""

from __future__ import annotations

import enum
from typing import Literal, NamedTuple


class Reason(enum.StrEnum):
    """Stable codes: they are on the wire (`dead-letters`), in metrics and in commands."""

    # Rejected at admission: never fetched, counted, no message kept.
    INVALID_URL = "invalid_url"
    UNSUPPORTED_SCHEME = "unsupported_scheme"
    URL_TOO_LONG = "url_too_long"
    OUT_OF_SCOPE = "out_of_scope"
    EXCLUDED = "excluded"
    TOO_DEEP = "too_deep"
    BUDGET_SPENT = "budget_spent"
    TRAP = "trap"
    CALENDAR_TRAP = "calendar_trap"
    UNKNOWN_CRAWL = "unknown_crawl"
    CRAWL_STOPPED = "crawl_stopped"
    TOO_MANY_LINKS = "too_many_links"
    NOFOLLOW = "nofollow"
    MALFORMED_LINK = "malformed_link"
    # Disregarded by the fetcher: a rule says no; not a failure.
    ROBOTS_DENIED = "robots_denied"
    BLOCKED_ADDRESS = "blocked_address"
    CONTENT_TYPE = "content_type"
    # Failures of the fetch.
    DNS_NOT_FOUND = "dns_not_found"
    DNS_TEMPORARY = "dns_temporary"
    CONNECT = "connect"
    CONNECT_TIMEOUT = "connect_timeout"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    DEADLINE = "deadline"
    TLS = "tls"
    PROTOCOL = "protocol"
    EMPTY_REPLY = "empty_reply"
    NOT_HTTP = "not_http"
    TRANSFER_CODING = "transfer_coding"
    INCOMPLETE = "incomplete"
    HEADERS_TOO_LARGE = "headers_too_large"
    CONTENT_CODING = "content_coding"
    BOMB = "bomb"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    HOST_UNAVAILABLE = "host_unavailable"
    HTTP_408 = "http_408"
    HTTP_421 = "http_421"
    HTTP_425 = "http_425"
    HTTP_429 = "http_429"
    HTTP_4XX = "http_4xx"
    HTTP_500 = "http_500"
    HTTP_502 = "http_502"
    HTTP_503 = "http_503"
    HTTP_504 = "http_504"
    HTTP_5XX = "http_5xx"
    HTTP_ODD = "http_odd"
    # Failures of parsing.
    PARSE_DEADLINE = "parse_deadline"
    PARSE_LIMIT = "parse_limit"
    PARSE_CRASH = "parse_crash"
    PARSE_ERROR = "parse_error"
    BODY_MISSING = "body_missing"
    # Failures of the message itself.
    UNDECODABLE = "undecodable"
    UNKNOWN_SCHEMA = "unknown_schema"
    POISON = "poison"
    UNEXPECTED = "unexpected"


Scope = Literal["url", "host"]
Level = Literal["debug", "info", "warning", "error"]
Kind = Literal["rejected", "disregarded", "failed"]


class ReasonRow(NamedTuple):
    """What policy does about a reason.

    `base_delay_s` is the wait before the second attempt; it doubles with each further one.
    `max_attempts` counts the first attempt; 1 means that it is never tried again.
    """

    retriable: bool
    scope: Scope
    base_delay_s: float
    max_attempts: int
    level: Level
    kind: Kind


def _once(scope: Scope, level: Level, kind: Kind) -> ReasonRow:
    return ReasonRow(
        retriable=False, scope=scope, base_delay_s=0.0, max_attempts=1, level=level, kind=kind
    )


def _rejected(level: Level = "debug") -> ReasonRow:
    return _once("url", level, "rejected")


def _disregarded(scope: Scope = "url", level: Level = "info") -> ReasonRow:
    return _once(scope, level, "disregarded")


def _permanent(scope: Scope = "url", level: Level = "info") -> ReasonRow:
    return _once(scope, level, "failed")


def _retry(
    scope: Scope, base_delay_s: float, max_attempts: int, level: Level = "info"
) -> ReasonRow:
    return ReasonRow(
        retriable=True,
        scope=scope,
        base_delay_s=base_delay_s,
        max_attempts=max_attempts,
        level=level,
        kind="failed",
    )


R = Reason
REASONS: dict[Reason, ReasonRow] = {
    R.INVALID_URL: _rejected(),
    R.UNSUPPORTED_SCHEME: _rejected(),
    R.URL_TOO_LONG: _rejected(),
    R.OUT_OF_SCOPE: _rejected(),
    R.EXCLUDED: _rejected(),
    R.TOO_DEEP: _rejected(),
    R.BUDGET_SPENT: _rejected(),
    R.TRAP: _rejected(),
    R.CALENDAR_TRAP: _rejected(),
    R.UNKNOWN_CRAWL: _rejected("warning"),
    R.CRAWL_STOPPED: _rejected(),
    R.TOO_MANY_LINKS: _rejected("info"),
    R.NOFOLLOW: _rejected(),
    R.MALFORMED_LINK: _rejected(),
    R.ROBOTS_DENIED: _disregarded(),
    R.BLOCKED_ADDRESS: _disregarded("host", "warning"),
    R.CONTENT_TYPE: _disregarded(),
    R.DNS_NOT_FOUND: _retry("host", 600.0, 2),
    R.DNS_TEMPORARY: _retry("host", 30.0, 5),
    R.CONNECT: _retry("host", 30.0, 5),
    R.CONNECT_TIMEOUT: _retry("host", 60.0, 5),
    R.FIRST_BYTE_TIMEOUT: _retry("host", 60.0, 4),
    R.IDLE_TIMEOUT: _retry("url", 60.0, 3),
    R.DEADLINE: _retry("url", 120.0, 3),
    R.TLS: _permanent("host"),
    R.PROTOCOL: _permanent(),
    R.EMPTY_REPLY: _retry("url", 30.0, 4),
    R.NOT_HTTP: _permanent(),
    R.TRANSFER_CODING: _permanent(),
    R.INCOMPLETE: _retry("url", 30.0, 4),
    R.HEADERS_TOO_LARGE: _permanent(),
    R.CONTENT_CODING: _permanent(),
    R.BOMB: _permanent("url", "warning"),
    R.TOO_MANY_REDIRECTS: _permanent(),
    R.ROBOTS_UNREACHABLE: _retry("host", 120.0, 6),
    R.HOST_UNAVAILABLE: _retry("host", 120.0, 8),
    R.HTTP_408: _retry("url", 30.0, 4),
    R.HTTP_421: _retry("url", 30.0, 3),
    R.HTTP_425: _retry("url", 30.0, 4),
    R.HTTP_429: _retry("host", 60.0, 8),
    R.HTTP_4XX: _permanent("url", "debug"),
    R.HTTP_500: _retry("url", 120.0, 4),
    R.HTTP_502: _retry("url", 30.0, 5),
    R.HTTP_503: _retry("host", 60.0, 6),
    R.HTTP_504: _retry("url", 60.0, 4),
    R.HTTP_5XX: _permanent(),
    R.HTTP_ODD: _permanent(),
    R.PARSE_DEADLINE: _permanent("url", "warning"),
    R.PARSE_LIMIT: _permanent("url", "warning"),
    R.PARSE_CRASH: _retry("url", 0.0, 3, "error"),
    R.PARSE_ERROR: _permanent("url", "warning"),
    R.BODY_MISSING: _permanent("url", "error"),
    R.UNDECODABLE: _permanent("url", "warning"),
    R.UNKNOWN_SCHEMA: _permanent("url", "error"),
    R.POISON: _retry("url", 0.0, 3, "error"),
    R.UNEXPECTED: _retry("url", 60.0, 3, "error"),
}


def of_status(status: int) -> Reason | None:
    """The reason that an HTTP status gives, or None when the response is a result.

    2xx, 3xx and 304 are results. Unassigned numbers are `HTTP_ODD`.
    """
    if 200 <= status < 400:
        return None
    named = _BY_STATUS.get(status)
    if named is not None:
        return named
    if 400 <= status < 500:
        return Reason.HTTP_4XX
    if 500 <= status < 600:
        return Reason.HTTP_5XX
    return Reason.HTTP_ODD


_BY_STATUS = {
    int(reason.value[5:]): reason
    for reason in Reason
    if reason.value.startswith("http_") and reason.value[5:].isdigit()
}
