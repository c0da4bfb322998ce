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
        *("pubdate", "date", "published", "updated", "issued", "modified"),
    )
)


class FeedItem(NamedTuple):
    """One item, its link as written."""

    link: str
    title: str
    published_at: int | None
    updated_at: int | None
    summary: str
    guid: str


@dataclass(slots=True)
class FeedInfo:
    """What a feed says of itself."""

    title: str = ""
    description: str = ""
    language: str = ""
    link: str = ""
    base: str = ""


@dataclass(slots=True)
class _Level:
    """Fields of the feed or of the item being read; the first value of each name counts."""

    values: dict[str, str] = field(default_factory=dict)


class Feed:
    """A feed, fed in pieces."""

    def __init__(self, head: bytes, content_type: str, now_ms: int) -> None:
        self.info = FeedInfo()
        self.items = 0
        self._now_ms = now_ms
        self._feed = _Level()
        self._item: _Level | None = None
        self._depth = 0
        self._item_depth = 0
        self._name = ""
        self._name_depth = 0
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
        if name in ("feed", "rss", "channel", "rdf"):
            self.info.base = self.info.base or attributes.get("xml:base", "")
            self.info.language = self.info.language or attributes.get("xml:lang", "")
        elif name in _ITEMS:
            self._item, self._item_depth = _Level(), self._depth
            if "rdf:about" in attributes:
                self._item.values["about"] = attributes["rdf:about"]
        elif name == "link" and "href" in attributes:
            self._atom_link(attributes)
        elif name in _FIELDS:
            self._begin(name, attributes)

    def end(self, name: str) -> None:
        """See `Handler`."""
        if self._text is not None and self._depth == self._name_depth:
            self._store(self._name, "".join(self._text).strip())
            self._text = None
        elif name in _ITEMS and self._item is not None and self._depth == self._item_depth:
            self._found.append(self._finish(self._item.values))
            self.items += 1
            self._item = None
        self._depth -= 1

    def text(self, text: str) -> None:
        """See `Handler`."""
        if self._text is not None and self._size < _MAX_FIELD_CHARS:
            self._size += len(text)
            self._text.append(text)

    def _begin(self, name: str, attributes: Mapping[str, str]) -> None:
        inside = self._depth - (self._item_depth if self._item is not None else 2)
        if inside > 1:
            return
        if name == "guid" and attributes.get("isPermaLink", "true").lower() != "false":
            self._store("permalink", "1")
        self._text, self._size = [], 0
        self._name, self._name_depth = name, self._depth

    def _atom_link(self, attributes: Mapping[str, str]) -> None:
        rel = attributes.get("rel", "alternate").lower()
        if rel == "alternate":
            self._store("link", attributes["href"].strip())
        elif rel == "self" and self._item is None:
            self._store("self", attributes["href"].strip())

    def _store(self, name: str, value: str) -> None:
        values = (self._item or self._feed).values
        if value and name not in values:
            values[name] = value

    def _finish(self, values: Mapping[str, str]) -> FeedItem:
        guid = values.get("guid") or values.get("id") or values.get("about") or ""
        link = values.get("link", "")
        if not link and ("permalink" in values or "about" in values) and _is_web(guid):
            link = guid
        said = values.get("summary") or values.get("description") or values.get("content")
        summary = collapse(_plain(said or values.get("encoded", "")))[:MAX_SUMMARY_CHARS]
        published = _first(values, ("pubdate", "published", "date", "issued"))
        updated = _first(values, ("updated", "modified"))
        return FeedItem(
            link=link,
            title=collapse(_plain(values.get("title", "")))[:MAX_SUMMARY_CHARS],
            published_at=past_ms(published or updated, self._now_ms),
            updated_at=past_ms(updated or published, self._now_ms),
            summary=summary,
            guid=guid[:MAX_SUMMARY_CHARS],
        )

    def _take(self) -> list[FeedItem]:
        taken, self._found = self._found, []
        return taken


def _first(values: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((values[name] for name in names if name in values), "")


def _is_web(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _plain(text: str) -> str:
    """Text of a field that may hold markup."""
    if "<" not in text and "&" not in text:
        return text
    return Document(text[:_MAX_FIELD_CHARS]).scan(links=False).text
