"""Fetch results for tests of the parser."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, cast

from parsers.records.parse import CrawlParser, Failure, Parsed
from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
from schemas.url import CrawlUrl, parse, url_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.records import FetchResult

NOW_MS = 1_700_000_000_000
PAGE = "http://a.example/d/p"


def fetch_result(
    body: bytes = b"",
    *,
    url: str = PAGE,
    content_type: str = "text/html",
    headers: Sequence[tuple[str, str]] = (),
    **changes: Any,
) -> FetchResult:
    """A fetch result of crawl `c` for a seed."""
    parsed = parse(url)
    assert isinstance(parsed, CrawlUrl)
    lines = [*([("content-type", content_type)] if content_type else []), *headers]
    result = {
        "crawl": "c",
        "url_id": url_id("c", parsed.href),
        "url": parsed.href,
        "host": parsed.host,
        "depth": 0,
        "scope_host": parsed.host,
        "via": "seed",
        "referrer": "",
        "redirects": [],
        "seeded_at": 1,
        "discovered_at": 2,
        "fetch_id": b"f" * 16,
        "attempt": 1,
        "status": 200,
        "headers": [{"name": name, "value": value} for name, value in lines],
        "content_type": content_type.partition(";")[0].strip().lower(),
        "location": "",
        "redirect_followed": False,
        "fetched_at": 3,
        "duration_ms": 4,
        "address": "192.0.2.1",
        "http_version": "1.1",
        "wire_bytes": len(body),
        "body_bytes": len(body),
        "body_sha256": hashlib.sha256(body).digest(),
        "body_coding": "identity",
        "body": body,
        "body_ref": "",
        "truncated": False,
        "not_modified": False,
        "sitemaps": [],
    }
    return cast("FetchResult", {**result, **changes})


def crawl_parser(known: Any = frozenset(), agent: str = "acmebot", **rules: Any) -> CrawlParser:
    """A parser of crawl `c`."""
    spec = CrawlSpec(crawl="c", **rules)
    return CrawlParser(compile_rules(spec), agent=agent, known=known)


def parsed(body: bytes, *, spec: dict[str, Any] | None = None, **result: Any) -> Parsed:
    """The parse of a body, which must succeed."""
    outcome = crawl_parser(**(spec or {})).parse(fetch_result(body, **result), body, NOW_MS)
    assert isinstance(outcome, Parsed), outcome
    return outcome


def failure(body: bytes, **result: Any) -> Failure:
    """The failure of a body, which must fail."""
    outcome = crawl_parser().parse(fetch_result(body, **result), body, NOW_MS)
    assert isinstance(outcome, Failure), outcome
    return outcome


def links(outcome: Parsed) -> list[str]:
    """URLs of all links in the record."""
    return [link["url"] for link in outcome.record["outlinks"]]


def sent(outcome: Parsed, via: str | None = None) -> list[str]:
    """URLs of all links in messages."""
    return [
        link["url"]
        for batch in outcome.batches
        if via is None or batch["via"] == via
        for link in batch["links"]
    ]
