"""The sitemap and feed part of parsing: in pieces, link messages going out as they fill up."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from parsers.documents import kind
from parsers.documents.feed import MAX_ENTRIES, Feed
from parsers.documents.sitemap import TextSitemap, XmlSitemap
from parsers.links.resolve import base_of
from schemas.reasons import Reason
from schemas.url import Rejected

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from parsers.documents.bodies import Gunzip
    from parsers.documents.feed import FeedItem
    from parsers.documents.sitemap import Entry, Sitemap
    from parsers.links.resolve import Base
    from parsers.records.parsing import Parsing
    from schemas.records import UrlBatch

MAX_SITEMAP_LINKS: Final = 50_000
"""URLs of one sitemap file in the protocol; a crawl's greater `max_links` wins."""


def read_sitemap(
    work: Parsing, head: bytes, chunks: Iterator[bytes], packed: Gunzip | None
) -> Generator[list[UrlBatch], None, None]:
    """Read a sitemap.

    Args:
        work: receives what is found.
        head: the first bytes, which `chunks` has too.
        chunks: the content.
        packed: the gzip file that it comes from; None: it came as it is.
    """
    reader: Sitemap
    if kind.format_of("sitemap", "", head) == "url_list":
        reader = TextSitemap(head, work.content_type)
    else:
        reader = XmlSitemap(head, work.content_type, work.now_ms)
    base = work.resolver.within(work.result["url"])
    room = max(work.spec.max_links, MAX_SITEMAP_LINKS)
    over = 0
    for chunk in chain(chunks, (None,)):
        if chunk is not None:
            entries = reader.feed(chunk)
        else:
            whole = not work.result["truncated"] and (packed is None or packed.whole)
            entries = reader.close(whole=whole)
            if not whole:
                work.issues.append("sitemap_cut")
                work.record["truncated"] = True
        taken = entries[:room]
        room -= len(taken)
        over += len(entries) - len(taken)
        for entry in taken:
            _entry(work, entry, base)
        full, work.sink.full = work.sink.full, []
        yield full
    _close_xml(work, reader.charset, reader.error, over)
    if reader.dropped:
        work.issues.append("sitemap_entries_dropped")
        work.sink.reject(Reason.MALFORMED_LINK, reader.dropped)


def _entry(work: Parsing, entry: Entry, base: Base) -> None:
    target = base.resolve(entry.loc)
    work.sink.count("links_found")
    if isinstance(target, Rejected):
        work.sink.reject(target.reason)
    elif work.allowed.nofollow:
        work.sink.reject(Reason.NOFOLLOW)
    elif entry.of_sitemap:
        work.sink.add_sitemap(target, lastmod_at=entry.lastmod_at)
    else:
        work.sink.add(target, "sitemap", lastmod_at=entry.lastmod_at)


def read_feed(
    work: Parsing, head: bytes, chunks: Iterator[bytes]
) -> Generator[list[UrlBatch], None, None]:
    """Read a feed; `head` is the first bytes, which `chunks` has too."""
    reader = Feed(head, work.content_type, work.now_ms)
    room = work.spec.max_links
    over = 0
    base: Base | None = None
    bases: tuple[str, ...] = ()
    for chunk in chain(chunks, (None,)):
        items = reader.close() if chunk is None else reader.feed(chunk)
        taken = items[:room]
        room -= len(taken)
        over += len(items) - len(taken)
        for item in taken:
            if base is None or item.bases != bases:
                base, bases = _within(work, item.bases), item.bases
            _item(work, item, base)
        full, work.sink.full = work.sink.full, []
        yield full
    _close_xml(work, reader.charset, reader.error, over)
    record, info = work.record, reader.info
    record["title"], record["description"] = info.title, info.description
    record["language"] = info.language or record["language"]
    if reader.items > len(record["entries"]):
        work.issues.append("entries_capped")


def _within(work: Parsing, bases: tuple[str, ...]) -> Base:
    """The resolver for a link inside some values of xml:base, the outermost first."""
    url = work.result["url"]
    for base in bases:
        url = base_of(url, base)
    return work.resolver.within(url)


def _item(work: Parsing, item: FeedItem, base: Base) -> None:
    target = base.resolve(item.link) if item.link else None
    url = ""
    if isinstance(target, Rejected):
        work.sink.reject(target.reason)
    elif target is not None:
        url = target.url
        work.sink.count("links_found")
        if work.allowed.nofollow:
            work.sink.reject(Reason.NOFOLLOW)
        else:
            work.sink.add(target, "feed", lastmod_at=item.updated_at)
    entries = work.record["entries"]
    if len(entries) < MAX_ENTRIES:
        entries.append(
            {
                "url": url,
                "title": item.title,
                "published_at": item.published_at,
                "summary": item.summary,
                "guid": item.guid,
            }
        )


def _close_xml(work: Parsing, encoding: tuple[str, str], error: str, over: int) -> None:
    record = work.record
    record["charset"], record["charset_source"] = encoding
    if error:
        work.issues.append("xml_broken")
        record["truncated"] = True
    if over:
        work.sink.reject(Reason.TOO_MANY_LINKS, over)
        work.issues.append("links_capped")
        record["truncated"] = True
