"""The encoding that a document declares in itself, by format: one reader for each."""

from __future__ import annotations

import re
from typing import Final

from parsers.text import encodings

PRESCAN_BYTES: Final = 1_024
LATE_BYTES: Final = 65_536
"""How far into a page its head is read for a meta element that came too late for the prescan."""

_META_CHARSET = re.compile(
    rb"charset[\t\n\f\r ]*(?:=[\t\n\f\r ]*"
    rb"(?:\"([^\"]*)\"|'([^']*)'|([^\"'\t\n\f\r ;][^\t\n\f\r ;]*))|)",
    re.IGNORECASE,
)
_XML_ENCODING = re.compile(
    rb"<\?xml(?:(?!encoding)[^>])*+encoding[\x00-\x20]*=[\x00-\x20]*([\"'])([^\x00-\x20>]*?)\1[^>]*>"
)
_CSS_CHARSET = re.compile(rb'@charset "([^"]*)";')
_MARKUP = re.compile(rb"<(?:!--|[/A-Za-z!?])")
_META = re.compile(rb"<meta[\t\n\f\r /]", re.IGNORECASE)
_TAG_NAME_END = re.compile(rb"[\t\n\f\r >]")
_ATTRIBUTE = re.compile(
    rb"[\t\n\f\r /]*"
    rb"(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*)"
    rb"(?:[\t\n\f\r ]*=[\t\n\f\r ]*"
    rb"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|[\"'][\s\S]*"
    rb"|(?P<bare>[^\"'>\t\n\f\r ][^\t\n\f\r >]*)?))?"
)
"""An attribute; one whose quote is not closed reaches to the end of the bytes."""
_USUAL = re.compile(
    rb"\s*<!doctype html>\s*<html(?: [a-z]+=\"[^\"]*\")*+>\s*<head>\s*"
    rb"<meta charset=\"([a-z0-9-]+)\"\s*/?>",
    re.IGNORECASE,
)
"""How most pages begin; for these the prescan is one match."""
_TAG = re.compile(rb"<(/?)([A-Za-z][^\t\n\f\r />]*)")
_OF_HEAD: Final = frozenset(
    b"html head title base link meta script style noscript object template".split()
)
_RAW_END: Final = {
    name: re.compile(rb"</%s[\t\n\f\r />]" % name, re.IGNORECASE)
    for name in (b"script", b"style", b"title")
}


def of_html(body: bytes) -> str | None:
    """The encoding that a page declares.

    The prescan sees the first 1,024 bytes. A meta element further down the head is met by the
    tree builder of a browser, which then begins anew in that encoding (HTML 13.2.3.5).
    """
    found = prescan(body[:PRESCAN_BYTES])
    return late_meta(body) if found is None and len(body) > PRESCAN_BYTES else found


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
    return _xml_encoding(head)


def late_meta(body: bytes) -> str | None:
    """The encoding that a meta element anywhere in the head declares.

    Unlike the prescan, which reads blindly, this is a stand-in for the tree builder: a meta
    element in a script is none, and the head ends where anything begins that is not of it.
    """
    head = body[:LATE_BYTES]
    at = 0
    while at >= 0 and (markup := _MARKUP.search(head, at)) is not None:
        at = markup.start()
        if _META.match(head, at):
            name, at = _meta(head, at + 5)
            if name is not None:
                return name
            continue
        tag = _TAG.match(head, at)
        name_of_tag = b"" if tag is None else tag[2].lower()
        if tag is not None and (name_of_tag == b"head" if tag[1] else name_of_tag not in _OF_HEAD):
            return None
        at = _behind(head, at)
        raw = _RAW_END.get(name_of_tag)
        if raw is not None and tag is not None and not tag[1] and at >= 0:
            end = raw.search(head, at)
            at = -1 if end is None else end.start()
    return None


def of_xml(body: bytes) -> str | None:
    """The encoding in an XML declaration; white space in front of it does not hide it."""
    return _xml_encoding(body[:PRESCAN_BYTES].lstrip(b"\t\n\r "))


def of_css(body: bytes) -> str | None:
    """The encoding in `@charset "...";` at the very start of a style sheet (CSS Syntax 3.2)."""
    found = _CSS_CHARSET.match(body[:PRESCAN_BYTES])
    return None if found is None else _ascii_superset(found[1])


def _xml_encoding(head: bytes) -> str | None:
    """The encoding in `<?xml ... encoding="...">` at the start (HTML: get an XML encoding)."""
    found = _XML_ENCODING.match(head)
    return None if found is None else _ascii_superset(found[2])


def _behind(head: bytes, at: int) -> int:
    """Where the markup at a position that is no meta element ends; -1: not within these bytes."""
    if head.startswith(b"<!--", at):
        end = head.find(b"-->", at + 2)
        return end + 3 if end >= 0 else -1
    closing = head[at + 1] == 0x2F
    if head[at + 1] in b"!?" or (closing and not head[at + 2 : at + 3].isalpha()):
        return head.find(b">", at) + 1 or -1
    end_of_name = _TAG_NAME_END.search(head, at)
    return -1 if end_of_name is None else _attributes(head, end_of_name.start(), {})


def _attributes(head: bytes, at: int, seen: dict[bytes, bytes]) -> int:
    """Read the attributes of a tag, names and values to `seen`; -1: the tag is cut off."""
    while (attribute := _ATTRIBUTE.match(head, at)) is not None:
        at = attribute.end()
        value = attribute["double"] or attribute["single"] or attribute["bare"] or b""
        seen.setdefault(attribute["name"].lower(), value)
    return at if head.find(b">", at) >= 0 else -1


def _meta(head: bytes, at: int) -> tuple[str | None, int]:
    """The encoding that one meta element declares, and where to go on; -1: it is cut off."""
    seen: dict[bytes, bytes] = {}
    at = _attributes(head, at, seen)
    if at < 0:
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
    name = _ascii_superset(label)
    return "windows-1252" if name == "x-user-defined" else name


def _ascii_superset(label: bytes) -> str | None:
    """An encoding whose declaration can be read as ASCII; who could read it is not in UTF-16."""
    name = encodings.name_of(label.decode("latin-1"))
    return "utf-8" if name in encodings.WIDE else name
