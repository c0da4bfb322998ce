"""XML of the wild through expat, in pieces, with flat memory and no entities.

Before expat sees the text: white space and marks in front of the declaration go, the declaration
and the document type go (so nothing declared there can expand or be read), ampersands are
repaired, and signs of less that begin no tag; references to entities that neither XML nor HTML
knows become U+FFFD, by which an entry that held one is recognised. After its first fatal error a
document is over; what was read before stands.
"""

from __future__ import annotations

import codecs
import html.entities
import re
from typing import TYPE_CHECKING, Final, Protocol
from xml.parsers import expat

from parsers.text import charset, encodings

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PROLOG_CHARS: Final = 200_000
"""A document whose root element is further away than this is not read."""
_HOLD: Final = 64
"""Characters that a reference may span; shorter tails wait for the next piece."""
SLICE_BYTES: Final = 262_144
"""Bytes decoded at once, so that a piece of any size costs flat memory."""

_REFERENCE = re.compile(r"&(?:(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{0,40});)?")
_NO_TAG = re.compile(r"<(?![A-Za-z_:/!?\u0080-\U0010ffff])")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_PROLOG_ITEM = re.compile(
    r"\s+|\ufeff|<\?.*?\?>|<!--.*?-->"
    r"|<!DOCTYPE(?:[^\[>\"']|\"[^\"]*\"|'[^']*')*+(?:\[(?:[^\]\"']|\"[^\"]*\"|'[^']*')*+\]\s*)?>",
    re.IGNORECASE | re.DOTALL,
)
_XML_NAMES: Final = frozenset(("amp", "lt", "gt", "quot", "apos"))


class Handler(Protocol):
    """What receives the events. Names are local, in lower case."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins; attribute names keep their prefix."""
        ...

    def end(self, name: str) -> None:
        """An element ends."""
        ...

    def text(self, text: str) -> None:
        """Character data, in pieces."""
        ...


class XmlStream:
    """Feeds a document's bytes to a handler.

    Args:
        handler: receives the events.
        head: the first bytes of the document, which decide its encoding; they are not consumed.
        content_type: the Content-Type header; empty: none.
        document: its format.
    """

    def __init__(
        self, handler: Handler, head: bytes, content_type: str, document: charset.Format
    ) -> None:
        self.charset = charset.sniff(head, content_type, document)
        self.error = ""
        """What ended the document early; empty: nothing did."""
        self.prefix = ""
        """Namespace prefix of the element that begins, as written."""
        self._decoder = decoder(self.charset.name)
        self._held = ""
        self._root_seen = False
        self._in_cdata = False
        self._done = False
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

        def start(name: str, attributes: dict[str, str]) -> None:
            self.prefix, _, name = name.rpartition(":")
            handler.start(name.lower(), attributes)

        parser.StartElementHandler = start
        parser.EndElementHandler = lambda name: handler.end(_local(name))
        parser.CharacterDataHandler = handler.text

    def feed(self, data: bytes) -> None:
        """Read a piece. Never raises on what the document holds."""
        for at in range(0, len(data), SLICE_BYTES):
            if self._done:
                return
            self._push(self._decoder.decode(data[at : at + SLICE_BYTES]), last=False)

    def close(self) -> None:
        """End of the document."""
        if not self._done:
            rest = self._decoder.decode(b"", True)  # noqa: FBT003 - as codecs
            self._push(rest, last=True)

    def _push(self, text: str, *, last: bool) -> None:
        text = self._held + text
        self._held = ""
        if not self._root_seen:
            text = self._skip_prolog(text, last=last)
        try:
            if text and self._root_seen:
                self._parser.Parse(self._repair(text, last=last).encode("utf-8", "replace"))
            if last:
                self._parser.Parse(b"", True)  # noqa: FBT003 - expat takes no keyword
                self._done = True
        except expat.ExpatError as error:
            self.error = str(error)[:200]
            self._done = True

    def _skip_prolog(self, text: str, *, last: bool) -> str:
        at = 0
        while (item := _PROLOG_ITEM.match(text, at)) is not None:
            at = item.end()
        rest = text[at:]
        begins = rest[:1] == "<" and rest[1:2] not in ("", "!", "?")
        if begins or last:
            self._root_seen = True
            return rest
        if len(rest) > MAX_PROLOG_CHARS or (rest and rest[0] != "<"):
            self.error, self._done = "no root element", True
        self._held = rest
        return ""

    def _repair(self, text: str, *, last: bool) -> str:
        """Text that expat takes; a tail that may be cut in the middle of something is held."""
        text = _FORBIDDEN.sub("\ufffd", text)
        out: list[str] = []
        at = 0
        while at < len(text):
            if self._in_cdata:
                end = text.find("]]>", at)
                if end < 0:
                    cut = len(text) if last else max(at, len(text) - 2)
                    out.append(text[at:cut])
                    self._held = text[cut:]
                    return "".join(out)
                out.append(text[at : end + 3])
                at, self._in_cdata = end + 3, False
                continue
            start = text.find("<![CDATA[", at)
            if start < 0:
                tail = text[at:]
                cut = len(tail) if last else _safe_end(tail)
                self._held = tail[cut:]
                out.append(_escaped(tail[:cut]))
                break
            out.append(_escaped(text[at:start]))
            out.append("<![CDATA[")
            at, self._in_cdata = start + 9, True
        return "".join(out)


def _safe_end(tail: str) -> int:
    """Where a tail may be cut: before a reference or a CDATA mark that is not complete."""
    window = max(0, len(tail) - _HOLD)
    cut = len(tail)
    mark = tail.rfind("&", window)
    if mark >= 0 and ";" not in tail[mark:]:
        cut = mark
    mark = tail.rfind("<", max(0, len(tail) - 8))
    if mark >= 0 and "<![CDATA[".startswith(tail[mark:]):
        cut = min(cut, mark)
    return cut


def _escaped(text: str) -> str:
    """Markup whose ampersands and signs of less all mean something."""
    return _REFERENCE.sub(_reference, _NO_TAG.sub("&lt;", text))


def _reference(match: re.Match[str]) -> str:
    name = match[1]
    if name is None:
        return "&amp;"
    if name in _XML_NAMES:
        return match[0]
    if name[0] == "#":
        code = int(f"0{name[1:]}", 0) if name[1] in "xX" else int(name[1:])
        fine = code in (9, 10, 13) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD
        return match[0] if fine or 0x10000 <= code <= 0x10FFFF else "\ufffd"
    return html.entities.html5.get(f"{name};", "\ufffd").replace("&", "&amp;").replace("<", "&lt;")


def _local(name: str) -> str:
    return name.rpartition(":")[2].lower()


class _Pieces:
    """Decoder for the encodings that only `parsers.text.encodings` has right.

    Multi-byte text is cut behind a `>` or a newline, which are part of no longer sequence.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._wide = name in _WIDE
        self._held = b""

    def decode(self, data: bytes, final: bool = False) -> str:
        data = self._held + data
        cut = len(data)
        if self._wide and not final and cut < MAX_HELD_BYTES:
            cut = max(data.rfind(b"\n"), data.rfind(b">")) + 1
        self._held = data[cut:]
        return encodings.decode(self._name, data[:cut])


class Decoder(Protocol):
    """Bytes to text, in pieces."""

    def decode(self, data: bytes, final: bool = ..., /) -> str:
        """Text of what is complete so far."""
        ...


MAX_HELD_BYTES: Final = 1_048_576
_WIDE: Final = frozenset(("gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr"))
_INCREMENTAL: Final = {
    "utf-8": "utf-8",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
}


def decoder(name: str) -> Decoder:
    """A decoder for an encoding; a byte order mark stays in the text."""
    codec = _INCREMENTAL.get(name)
    if codec is None:
        return _Pieces(name)
    return codecs.getincrementaldecoder(codec)("replace")
