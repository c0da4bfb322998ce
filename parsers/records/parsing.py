"""The state of one parse, shared by its parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parsers.documents.robots_meta import Permissions

if TYPE_CHECKING:
    from parsers.links.batches import LinkSink
    from parsers.links.resolve import Resolver
    from schemas.crawl import CrawlSpec
    from schemas.records import FetchResult, Record


@dataclass(slots=True)
class Parsing:
    """One fetch result on its way to a record."""

    result: FetchResult
    spec: CrawlSpec
    resolver: Resolver
    agent: str
    """Our product token in lower case."""
    max_html_bytes: int
    now_ms: int
    record: Record
    """Filled by the parts."""
    sink: LinkSink
    content_type: str = ""
    """The Content-Type header as sent."""
    allowed: Permissions = field(default_factory=Permissions)
    issues: list[str] = field(default_factory=list)
