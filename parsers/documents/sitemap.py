"""Sitemaps (sitemaps.org protocol): index, URL set, text. Incremental: memory does not grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from parsers.documents.xmlstream import XmlStream, decoder
from parsers.text import charset
from parsers.text.dates import past_ms
from schemas.url import MAX_URL_CHARS

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENTRIES: Final = ("url", "sitemap")


class Entry(NamedTuple):
    """One `loc`, as written."""

    loc: str
    lastmod_at: int | None
    of_sitemap: bool
    """True when it is the URL of another sitemap."""


class XmlSitemap:
    """A urlset or sitemapindex, fed in pieces.

    An entry counts when its element is closed; one whose text had to be repaired beyond
    recognition is dropped and counted in `dropped`.
    """

    def __init__(self, head: bytes, content_type: str, now_ms: int) -> None:
        self.dropped = 0
        self._now_ms = now_ms
        self._stack: list[str] = []
        self._locs: list[str] = []
        self._lastmod = ""
        self._text: list[str] | None = None
        self._size = 0
        self._found: list[Entry] = []
        self._stream = XmlStream(self, head, content_type, "sitemap")

    @property
    def charset(self) -> tuple[str, str]:
        """Encoding and who said so."""
        return self._stream.charset.name, self._stream.charset.source

    @property
    def error(self) -> str:
        """What ended the document early; empty: nothing did."""
        return self._stream.error

    def feed(self, data: bytes) -> list[Entry]:
        """The entries completed by a piece."""
        self._stream.feed(data)
        return self._take()

    def close(self, *, whole: bool = True) -> list[Entry]:  # noqa: ARG002 - as TextSitemap
        """The entries completed by the end; an element that is not closed is none."""
        self._stream.close()
        return self._take()

    def start(self, name: str, attributes: Mapping[str, str]) -> None:  # noqa: ARG002 - a Handler
        """See `Handler`."""
        parent = self._stack[-1] if self._stack else ""
        self._stack.append(name)
        if name in _ENTRIES:
            self._locs, self._lastmod = [], ""
        elif parent in _ENTRIES and name in ("loc", "lastmod"):
            self._text, self._size = [], 0

    def end(self, name: str) -> None:
        """See `Handler`."""
        self._stack.pop()
        if self._text is not None:
            text = "".join(self._text).strip()
            self._text = None
            if name == "loc":
                self._locs.append(text if self._size <= 2 * MAX_URL_CHARS else "\ufffd")
            elif name == "lastmod":
                self._lastmod = text
        elif name in _ENTRIES:
            self._finish(of_sitemap=name == "sitemap")

    def text(self, text: str) -> None:
        """See `Handler`."""
        if self._text is not None:
            self._size += len(text)
            if self._size <= 2 * MAX_URL_CHARS:
                self._text.append(text)

    def _finish(self, *, of_sitemap: bool) -> None:
        lastmod_at = past_ms(self._lastmod, self._now_ms) if self._lastmod else None
        for loc in self._locs:
            if not loc or "\ufffd" in loc:
                self.dropped += 1
            else:
                self._found.append(Entry(loc, lastmod_at, of_sitemap))
        self._locs = []

    def _take(self) -> list[Entry]:
        taken, self._found = self._found, []
        return taken


class TextSitemap:
    """One URL a line, lines ended in any way.

    A line that is cut off by the end of a piece waits.
    """

    error = ""

    def __init__(self, head: bytes, content_type: str) -> None:
        self.dropped = 0
        self._held = ""
        found = charset.sniff(head, content_type, "url_list")
        self.charset = (found.name, str(found.source))
        self._decoder = decoder(found.name)

    def feed(self, data: bytes) -> list[Entry]:
        """The entries completed by a piece."""
        lines = _lines(self._held + self._decoder.decode(data))
        self._held = lines.pop()
        if len(self._held) > 2 * MAX_URL_CHARS:
            self._held = self._held[: 2 * MAX_URL_CHARS]
        return self._entries(lines)

    def close(self, *, whole: bool = True) -> list[Entry]:
        """The entry in the last line, which is no entry when the file was cut off."""
        if not whole:
            return []
        rest = self._decoder.decode(b"", True)  # noqa: FBT003 - as codecs
        return self._entries(_lines(self._held + rest))

    def _entries(self, lines: list[str]) -> list[Entry]:
        found = []
        for line in lines:
            loc = line.removeprefix("\ufeff").strip()
            if loc.lower().startswith(("http://", "https://")) and "\ufffd" not in loc:
                found.append(Entry(loc, None, of_sitemap=False))
            elif loc:
                self.dropped += 1
        return found


def _lines(text: str) -> list[str]:
    return text.replace("\r", "\n").split("\n")


Sitemap = XmlSitemap | TextSitemap
