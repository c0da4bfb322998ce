"""RSS (0.9x, 1.0, 2.0) and Atom feeds. Incremental: memory does not grow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from parsers.documents.html import Document
from parsers.documents.page import collapse
from parsers.documents.xmlstream import XmlStream
from parsers.text.dates import past_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ENTRIES: Final = 500
"""Entries kept in a record; the links of all are sent."""
MAX_SUMMARY_CHARS: Final = 2_000
_MAX_FIELD_CHARS: Final = 60_000
_ITEMS: Final = ("item", "entry")
_FIELDS: Final = frozenset(
    (
        *("title", "link", "guid", "id", "language", "description", "subtitle", "tagline"),
        *("summary", "content", "encoded"),
        *("pubdate", "date", "published", "updated", "issued", "modified", "created"),
    )
)
_PUBLISHED: Final = ("pubdate", "published", "date", "issued", "created")
_UPDATED: Final = ("updated", "modified")
_SUMMARIES: Final = ("summary", "description", "content", "encoded")
_BASED: Final = ("feed", "rss", "channel", "rdf", *_ITEMS)
"""Elements whose xml:base is looked at, besides the links'."""
_MEDIA: Final = ("group", "content")
"""Media RSS's elements around the title and the description of what an item shows."""
_RELATIONS: Final = "http://www.iana.org/assignments/relation/"
_PAGES: Final = ("", "text/html", "application/xhtml+xml")
"""Types of an alternate that is read in a browser."""


class FeedItem(NamedTuple):
    """One item, its link as written."""

    link: str
    title: str
    published_at: int | None
    updated_at: int | None
    summary: str
    guid: str
    bases: tuple[str, ...] = ()
    """The values of xml:base around the link, the outermost first."""


@dataclass(slots=True)
class FeedInfo:
    """What a feed says of itself."""

    title: str = ""
    description: str = ""
    language: str = ""
    link: str = ""


@dataclass(slots=True)
class _Level:
    """Fields of the feed or of the item being read.

    The best value of each name counts, and of equals the first: the feed format's own before that
    of an extension (`media:title`), a page before another alternate. Extensions repeat names of
    the format for something else.
    """

    prefix: str
    bases: tuple[str, ...]
    values: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    link_bases: tuple[str, ...] = ()

    def put(self, name: str, value: str, rank: int = 0) -> bool:
        """True when the value counts."""
        better = bool(value) and rank < self.ranks.get(name, 2)
        if better:
            self.values[name], self.ranks[name] = value, rank
        return better


class Feed:
    """A feed, fed in pieces."""

    def __init__(self, head: bytes, content_type: str, now_ms: int) -> None:
        self.info = FeedInfo()
        self.items = 0
        self._now_ms = now_ms
        self._feed = _Level("", ())
        self._item: _Level | None = None
        self._depth = 0
        self._item_depth = 0
        self._name = ""
        self._rank = 0
        self._bases: tuple[str, ...] = ()
        self._name_depth = 0
        self._media_depth = 0
        self._text: list[str] | None = None
        self._size = 0
        self._found: list[FeedItem] = []
        self._stream = XmlStream(self, head, content_type, "xml")

    @property
    def charset(self) -> tuple[str, str]:
        """Encoding and who said so."""
        return self._stream.charset.name, self._stream.charset.source

    @property
    def error(self) -> str:
        """What ended the document early; empty: nothing did."""
        return self._stream.error

    def feed(self, data: bytes) -> list[FeedItem]:
        """The items completed by a piece."""
        self._stream.feed(data)
        return self._take()

    def close(self) -> list[FeedItem]:
        """The items completed by the end; `info` is complete afterwards."""
        self._stream.close()
        values = self._feed.values
        self.info.title = collapse(_plain(values.get("title", "")))[:MAX_SUMMARY_CHARS]
        said = values.get("description") or values.get("subtitle") or values.get("tagline") or ""
        self.info.description = collapse(_plain(said))[:MAX_SUMMARY_CHARS]
        self.info.language = self.info.language or values.get("language", "")[:100]
        self.info.link = values.get("link", "")
        return self._take()

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """See `Handler`."""
        self._depth += 1
        if self._text is not None:
            return
        level = self._item or self._feed
        bases = level.bases
        if attributes.get("xml:base"):
            bases = (*bases, attributes["xml:base"])
        if name in _ITEMS:
            self._item, self._item_depth = _Level(self._stream.prefix, bases), self._depth
            if "rdf:about" in attributes:
                self._item.put("about", attributes["rdf:about"])
        elif name in _BASED:
            if self._item is None:
                self._feed.prefix, self._feed.bases = self._stream.prefix, bases
                self.info.language = self.info.language or attributes.get("xml:lang", "")
        elif name == "link" and "href" in attributes:
            self._atom_link(attributes, level, bases)
        elif self._item is not None and name in _MEDIA and self._stream.prefix != level.prefix:
            self._media_depth = self._media_depth or self._depth
        elif name in _FIELDS:
            self._begin(name, attributes, level, bases)

    def end(self, name: str) -> None:
        """See `Handler`."""
        if self._text is not None and self._depth == self._name_depth:
            level = self._item or self._feed
            counts = level.put(self._name, "".join(self._text).strip(), self._rank)
            if counts and self._name == "link":
                level.link_bases = self._bases
            self._text = None
        elif name in _ITEMS and self._item is not None and self._depth == self._item_depth:
            self._found.append(self._finish(self._item))
            self.items += 1
            self._item = None
        if self._depth == self._media_depth:
            self._media_depth = 0
        self._depth -= 1

    def text(self, text: str) -> None:
        """See `Handler`."""
        if self._text is not None and self._size < _MAX_FIELD_CHARS:
            self._size += len(text)
            self._text.append(text)

    def _begin(
        self, name: str, attributes: Mapping[str, str], level: _Level, bases: tuple[str, ...]
    ) -> None:
        above = self._media_depth or (self._item_depth if self._item is not None else 2)
        if self._depth > above + 1:
            return
        if name == "guid" and attributes.get("isPermaLink", "true").lower() != "false":
            level.put("permalink", "1")
        self._text, self._size = [], 0
        self._name, self._name_depth, self._bases = name, self._depth, bases
        self._rank = int(self._stream.prefix != level.prefix)

    def _atom_link(
        self, attributes: Mapping[str, str], level: _Level, bases: tuple[str, ...]
    ) -> None:
        if self._item is not None and self._depth != self._item_depth + 1:
            return
        rel = attributes.get("rel", "alternate").strip().lower().removeprefix(_RELATIONS)
        if rel == "alternate":
            kind = attributes.get("type", "").partition(";")[0].strip().lower()
            if level.put("link", attributes["href"].strip(), int(kind not in _PAGES)):
                level.link_bases = bases

    def _finish(self, item: _Level) -> FeedItem:
        values = item.values
        guid = values.get("guid") or values.get("id") or values.get("about") or ""
        link, bases = values.get("link", ""), item.link_bases
        if not link and ("permalink" in values or "about" in values) and _is_web(guid):
            link, bases = guid, ()
        said = [(item.ranks[name], at) for at, name in enumerate(_SUMMARIES) if name in values]
        summary = values[_SUMMARIES[min(said)[1]]] if said else ""
        return FeedItem(
            link=link,
            title=collapse(_plain(values.get("title", "")))[:MAX_SUMMARY_CHARS],
            published_at=self._first_date(values, (*_PUBLISHED, *_UPDATED)),
            updated_at=self._first_date(values, (*_UPDATED, *_PUBLISHED)),
            summary=collapse(_plain(summary))[:MAX_SUMMARY_CHARS],
            guid=guid[:MAX_SUMMARY_CHARS],
            bases=bases,
        )

    def _first_date(self, values: Mapping[str, str], names: tuple[str, ...]) -> int | None:
        """The first of some fields that can be read as a date of the past."""
        dates = (past_ms(values[name], self._now_ms) for name in names if name in values)
        return next((date for date in dates if date is not None), None)

    def _take(self) -> list[FeedItem]:
        taken, self._found = self._found, []
        return taken


def _is_web(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _plain(text: str) -> str:
    """Text of a field that may hold markup."""
    if "<" not in text and "&" not in text:
        return text
    return Document(text[:_MAX_FIELD_CHARS]).scan(links=False).text
