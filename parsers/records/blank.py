"""A record before anything is parsed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from schemas.records import FetchResult, Record

try:
    VERSION: Final = version("crawlstream")
except PackageNotFoundError:  # a source tree on the path
    VERSION = "0"  # type: ignore[misc]


def blank_record(result: FetchResult, now_ms: int, config_hash: str) -> Record:
    """A record with what the fetch result says and nothing parsed."""
    return {
        "crawl": result["crawl"],
        "url_id": result["url_id"],
        "url": result["url"],
        "host": result["host"],
        "depth": result["depth"],
        "scope_host": result["scope_host"],
        "via": result["via"],
        "referrer": result["referrer"],
        "redirects": result["redirects"],
        "seeded_at": result["seeded_at"],
        "discovered_at": result["discovered_at"],
        "fetch_id": result["fetch_id"],
        "kind": "other",
        "status": result["status"],
        "attempt": result["attempt"],
        "fetched_at": result["fetched_at"],
        "duration_ms": result["duration_ms"],
        "address": result["address"],
        "location": result["location"],
        "canonical_url": "",
        "content_type": result["content_type"],
        "headers": result["headers"],
        "charset": "",
        "charset_source": "",
        "language": "",
        "body_bytes": result["body_bytes"],
        "body_sha256": result["body_sha256"],
        "body_ref": result["body_ref"],
        "truncated": result["truncated"],
        "title": "",
        "description": "",
        "author": "",
        "published_at": None,
        "modified_at": None,
        "headings": [],
        "text": "",
        "main_text": "",
        "simhash": 0,
        "json_ld": "[]",
        "meta": {},
        "microdata": "[]",
        "rdfa": "[]",
        "opengraph": "[]",
        "microformats": "[]",
        "extracted": "{}",
        "outlinks": [],
        "assets": [],
        "entries": [],
        "noindex": False,
        "nofollow": False,
        "issues": [],
        "parsed_at": now_ms,
        "parser_version": VERSION,
        "config_hash": config_hash,
    }
