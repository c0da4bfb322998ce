"""Which encoding a document is in.

Order of the HTML standard (13.2.3.2): byte order mark, transport header, prescan of the first
1,024 bytes, and only then a look at the bytes themselves.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from parsers.text import encodings
from parsers.text.detect import detect

Source = Literal["bom", "header", "meta", "detected", "default"]

PRESCAN_BYTES: Final = 1_024

_CHARSET_PARAM = re.compile(r";[\t\n\r ]*charset=(?:\"((?:[^\"\\]|\\.)*)|([^;]*))", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"charset[\t\n\f\r ]*(?:=[\t\n\f\r ]*"
    rb"(?:\"([^\"]*)\"|'([^']*)'|([^\"'\t\n\f\r ;][^\t\n\f\r ;]*))|)",
    re.IGNORECASE,
)
_XML_ENCODING = re.compile(rb"<\?xml[^>]*?encoding[\x00-\x20]*=[\x00-\x20]*([\"'])([^>]*?)\1")
_MARKUP = re.compile(rb"<(?:!--|[/A-Za-z!?])")
_META = re.compile(rb"<meta[\t\n\f\r /]", re.IGNORECASE)
_TAG_NAME_END = re.compile(rb"[\t\n\f\r >]")
_ATTRIBUTE = re.compile(
    rb"[\t\n\f\r /]*"
    rb"(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*)"
    rb"(?:[\t\n\f\r ]*=[\t\n\f\r ]*"
    rb"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\"'>\t\n\f\r ][^\t\n\f\r >]*)?))?"
)
_USUAL = re.compile(
    rb"\s*<!doctype html>\s*<html(?: [a-z]+=\"[^\"]*\")*+>\s*<head>\s*"
    rb"<meta charset=\"([a-z0-9-]+)\"\s*/?>",
    re.IGNORECASE,
)
"""How most pages begin; for these the prescan is one match."""


class Charset(NamedTuple):
    """An encoding (name of the Encoding Standard), who said so, and the length of the BOM."""

    name: str
    source: Source
    bom_bytes: int = 0


def of_content_type(value: str) -> str | None:
    """The encoding that a Content-Type header names; None: it names none that is known."""
    found = _CHARSET_PARAM.search(value)
    if found is None:
        return None
    quoted = found[1]
    return encodings.name_of(found[2] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))


def sniff(body: bytes, content_type: str = "", *, xml: bool = False) -> Charset:
    """The encoding of a document.

    Args:
        body: the document or a prefix of at least some kilobytes.
        content_type: the Content-Type header as sent; empty: none.
        xml: it is XML: its declaration counts and UTF-8 is its default.
    """
    marked = _bom(body)
    if marked is not None:
        return marked
    named = of_content_type(content_type) if content_type else None
    if named is not None:
        return Charset(named, "header")
    named = xml_declaration(body) if xml else prescan(body[:PRESCAN_BYTES])
    if named is not None:
        return Charset(named, "meta")
    if xml:
        return Charset("utf-8", "default")
    found = detect(body)
    return Charset(found, "detected") if found else Charset("windows-1252", "default")


def decode(body: bytes, charset: Charset) -> str:
    """The text of a document, without its BOM. Never raises."""
    return encodings.decode(charset.name, body[charset.bom_bytes :])


def _bom(body: bytes) -> Charset | None:
    if body.startswith(b"\xef\xbb\xbf"):
        return Charset("utf-8", "bom", 3)
    if body.startswith(b"\xfe\xff"):
        return Charset("utf-16be", "bom", 2)
    if body.startswith(b"\xff\xfe"):
        return Charset("utf-16le", "bom", 2)
    return None


def xml_declaration(body: bytes) -> str | None:
    """The encoding in `<?xml ... encoding="...">` at the start (HTML: get an XML encoding)."""
    if not body.startswith(b"<?xml"):
        return None
    found = _XML_ENCODING.match(body[:PRESCAN_BYTES])
    return _declared(found[2]) if found else None


def prescan(head: bytes) -> str | None:
    """The encoding declared in the first bytes of HTML (HTML 13.2.3.2, prescan), or None."""
    usual = _USUAL.match(head)
    if usual is not None:
        name = _declared(usual[1])
        if name is not None:
            return name
    if head.startswith(b"<\x00?\x00x\x00"):
        return "utf-16le"
    if head.startswith(b"\x00<\x00?\x00x"):
        return "utf-16be"
    at = 0
    while at >= 0 and (markup := _MARKUP.search(head, at)) is not None:
        at = markup.start()
        if _META.match(head, at):
            name, at = _meta(head, at + 5)
            if name is not None:
                return name
        else:
            at = _behind(head, at)
    return xml_declaration(head)


def _behind(head: bytes, at: int) -> int:
    """Where the markup at a position that is no meta element ends; -1: not within these bytes."""
    if head.startswith(b"<!--", at):
        end = head.find(b"-->", at + 2)
        return end + 3 if end >= 0 else -1
    closing = head[at + 1] == 0x2F
    if head[at + 1] in b"!?" or (closing and not head[at + 2 : at + 3].isalpha()):
        return head.find(b">", at) + 1 or -1
    end_of_name = _TAG_NAME_END.search(head, at)
    if end_of_name is None:
        return -1
    at = end_of_name.start()
    while (attribute := _ATTRIBUTE.match(head, at)) is not None:
        at = attribute.end()
    return at


def _meta(head: bytes, at: int) -> tuple[str | None, int]:
    """The encoding that one meta element declares, and where to go on."""
    seen: dict[bytes, bytes] = {}
    while (attribute := _ATTRIBUTE.match(head, at)) is not None:
        at = attribute.end()
        value = attribute["double"] or attribute["single"] or attribute["bare"] or b""
        seen.setdefault(attribute["name"].lower(), value)
    if at >= len(head):  # the element is cut off: the standard stops before judging it
        return None, at
    if b"charset" in seen:
        return _declared(seen[b"charset"]), at
    if seen.get(b"http-equiv", b"").lower() == b"content-type":
        return _from_content(seen.get(b"content", b"")), at
    return None, at


def _from_content(content: bytes) -> str | None:
    """HTML: extracting a character encoding from a meta element."""
    for found in _META_CHARSET.finditer(content):
        label = found[1] or found[2] or found[3]
        if label:
            return _declared(label)
        if b"=" in found[0]:
            return None
    return None


def _declared(label: bytes) -> str | None:
    name = encodings.name_of(label.decode("latin-1"))
    if name in ("utf-16le", "utf-16be"):
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name
