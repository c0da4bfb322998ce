"""One request in hand, from its delivery to its completion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.codec import decode
from schemas.errors import DecodeError, UnknownSchemaError
from schemas.reasons import Reason
from schemas.url import CrawlUrl, Rejected, parse

if TYPE_CHECKING:
    from schemas.admission import Rules
    from schemas.records import FetchRequest
    from streams.delivery.stage import Delivery


@dataclass(slots=True, eq=False)
class Work:
    """A request and the message it came in.

    `counted`: it takes room of its partition, since `taken_at` (monotonic seconds).
    """

    delivery: Delivery
    request: FetchRequest
    rules: Rules | None = None
    counted: bool = False
    taken_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Unusable:
    """A message that is no request to work on, and why."""

    reason: Reason
    detail: str
    request: FetchRequest | None = None


def read(delivery: Delivery) -> Work | Unusable:
    """The request in a message.

    Its URL is parsed again: what goes into a request line must be a serialised URL, whoever
    produced the message, and its host key must be that of the URL.
    """
    try:
        request: FetchRequest = decode("fetch-request", delivery.value or b"")
    except UnknownSchemaError as error:
        return Unusable(Reason.UNKNOWN_SCHEMA, str(error))
    except DecodeError as error:
        return Unusable(Reason.UNDECODABLE, str(error))
    parsed = parse(request["url"])
    if isinstance(parsed, Rejected):
        return Unusable(parsed.reason, parsed.detail, request)
    assert isinstance(parsed, CrawlUrl)
    if request["url"] != parsed.href or request["host"] != parsed.host:
        request["url"], request["host"] = parsed
    request["attempt"] = max(request["attempt"], 1)
    return Work(delivery, request)


def hold_s(request: FetchRequest, now_ms: int, longest_s: float) -> float:
    """How long a request still has to wait before it may be begun; never negative."""
    return min(max((request["not_before"] - now_ms) / 1000, 0.0), longest_s)
