"""The messages that a fetch ends in. Pure: records in, records out."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from fetchers.policy.head import Headers, header
from fetchers.policy.outcome import media_type, stored_headers
from schemas.codec import encode
from schemas.topics import FETCH_RESULTS, RETRY_TIERS, URLS
from streams.delivery.stage import Delivery
from streams.kafka.messages import Out, Source

if TYPE_CHECKING:
    from schemas.reasons import Reason
    from schemas.records import FetchRequest, FetchResult, UrlBatch
    from schemas.url import CrawlUrl

MAX_DETAIL_CHARS: Final = 300
ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]|[^\x00-\xff]")


def fetch_id(url_id: bytes, source: Source, offset: int, attempt: int) -> bytes:
    """16 bytes that are equal for every replay of one message and differ between messages."""
    text = f"\n{source.topic}\n{source.partition}\n{offset}\n{attempt}"
    return blake2b(url_id + text.encode(), digest_size=16).digest()


def user_agent(token: str, contact: str) -> str:
    """The User-Agent: a product token that robots.txt can name, and where to complain."""
    prefix = "" if "://" in contact else "mailto:"
    return f"{token} (+{prefix}{contact})"


def request_fields(agent: str, accept_encoding: str) -> bytes:
    """The header lines that all requests of a crawl share."""
    return (
        f"User-Agent: {agent}\r\nAccept: {ACCEPT}\r\nAccept-Encoding: {accept_encoding}\r\n"
    ).encode("latin-1", "replace")


def extra_fields(request: FetchRequest, cookie: str) -> bytes:
    """The header lines of one request: validators and cookies. Unsafe values are left out."""
    if not (cookie or request["etag"] or request["last_modified"]):
        return b""
    lines = []
    for name, value in (
        ("If-None-Match", request["etag"]),
        ("If-Modified-Since", request["last_modified"]),
        ("Cookie", cookie),
    ):
        if value and not _UNSAFE.search(value):
            lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")


def retried(
    request: FetchRequest, *, reason: Reason, detail: str, now_ms: int, wait_s: float
) -> FetchRequest:
    """The request of the next attempt after one that failed."""
    return {
        **request,
        "attempt": request["attempt"] + 1,
        "first_attempt_at": request["first_attempt_at"] or now_ms,
        "not_before": now_ms + int(wait_s * 1000),
        "first_reason": request["first_reason"] or reason.value,
        "last_reason": reason.value,
        "last_detail": detail[:MAX_DETAIL_CHARS].encode(errors="replace").decode(),
    }


def deferred(
    request: FetchRequest, *, reason: Reason | None, now_ms: int, wait_s: float
) -> FetchRequest:
    """The same request for later, without an attempt.

    Args:
        request: as it was read.
        reason: None: its host is busy; HOST_UNAVAILABLE: its host's breaker is open, which is
            counted, since it must not go on for ever.
        now_ms: wall clock.
        wait_s: until its slot.
    """
    later: FetchRequest = {
        **request,
        "not_before": now_ms + int(wait_s * 1000),
        "deferrals": request["deferrals"] + 1,
    }
    if reason is not None:
        later["last_reason"] = reason.value
        later["unavailable"] = request.get("unavailable", 0) + 1
    return later


def tier_message(request: FetchRequest, tier: int) -> Out:
    """A request for a retry tier."""
    return Out(RETRY_TIERS[tier], request["host"].encode(), encode("fetch-request", request))


def redirect_message(
    request: FetchRequest, target: CrawlUrl, *, scope_host: str, now_ms: int
) -> Out:
    """A redirect's target for `urls`: same depth, with the chain that led to it."""
    batch: UrlBatch = {
        "crawl": request["crawl"],
        "host": target.host,
        "via": "redirect",
        "depth": request["depth"],
        "scope_host": scope_host,
        "referrer": request["referrer"],
        "redirects": [*request["redirects"], request["url"]],
        "seeded_at": request["seeded_at"],
        "discovered_at": now_ms,
        "links": [
            {
                "url": target.href,
                "url_id": None,
                "priority": request["priority"],
                "lastmod_at": None,
            }
        ],
    }
    return Out(URLS, target.host.encode(), encode("url-batch", batch))


class ResultBuilder:
    """Collects what a fetch result says; `message` makes it."""

    def __init__(self, delivery: Delivery, request: FetchRequest) -> None:
        self.record: FetchResult = {
            "crawl": request["crawl"],
            "url_id": request["url_id"],
            "url": request["url"],
            "host": request["host"],
            "depth": request["depth"],
            "scope_host": request["scope_host"],
            "via": request["via"],
            "referrer": request["referrer"],
            "redirects": request["redirects"],
            "seeded_at": request["seeded_at"],
            "discovered_at": request["discovered_at"],
            "fetch_id": fetch_id(
                request["url_id"], delivery.source, delivery.offset, request["attempt"]
            ),
            "attempt": request["attempt"],
            "status": 0,
            "headers": [],
            "content_type": "",
            "location": "",
            "redirect_followed": False,
            "fetched_at": 0,
            "duration_ms": 0,
            "address": "",
            "http_version": "",
            "wire_bytes": 0,
            "body_bytes": 0,
            "body_sha256": b"",
            "body_coding": "identity",
            "body": b"",
            "body_ref": "",
            "truncated": False,
            "not_modified": False,
            "sitemaps": [],
        }

    def answered(self, status: int, headers: Headers) -> None:
        """Note status and headers."""
        self.record["status"] = status
        self.record["headers"] = stored_headers(headers)
        self.record["content_type"] = media_type(headers)
        self.record["not_modified"] = status == 304

    def message(self) -> Out:
        """The message for `fetch-results`."""
        return Out(FETCH_RESULTS, self.record["url_id"], encode("fetch-result", self.record))


def retry_after_of(headers: Headers) -> tuple[str | None, str | None]:
    """Values of Retry-After and Date."""
    return header(headers, "retry-after"), header(headers, "date")
