"""What a body is: decided from its first bytes and its declared type together.

Neither alone is enough. A declared type of HTML does not make a ZIP file text, and a feed served
as HTML is still a feed (MIME Sniffing Standard 7.3 for the idea).
"""

from __future__ import annotations

import re
from typing import Final, Literal

from parsers.text import charset

Kind = Literal["html", "feed", "sitemap", "text", "other"]

HEAD_BYTES: Final = 4_096
"""How much of a body `classify` wants to see."""

_BINARY: Final = (
    b"%PDF-",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"7z\xbc\xaf",
    b"Rar!",
    b"(\xb5/\xfd",
    b"\x89PNG",
    b"GIF8",
    b"\xff\xd8\xff",
    b"RIFF",
    b"OggS",
    b"ID3",
    b"fLaC",
    b"\x00\x00\x01\x00",
    b"wOFF",
    b"wOF2",
    b"\x7fELF",
    b"MZ\x90",
    b"\xca\xfe\xba\xbe",
    b"\x00asm",
    b"\xd0\xcf\x11\xe0",
    b"%!PS",
    b"SQLite format 3",
)
_HTML = re.compile(
    r"\s*<(?:!doctype\s+html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)"
    r"[\s>]|\s*<!--",
    re.IGNORECASE,
)
_OBVIOUS = re.compile(rb"\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_PROLOG = re.compile(
    r"(?:[\s\ufeff]++|<\?.*?\?>|<!--.*?-->|<!DOCTYPE(?:[^\[>\"']|\"[^\"]*\"|'[^']*')*+(?:\[.*?\]\s*)?>)*+",
    re.IGNORECASE | re.DOTALL,
)
_ROOT = re.compile(r"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)[\s/>]")
_FEED_ROOTS: Final = frozenset(("rss", "feed", "rdf"))
_SITEMAP_ROOTS: Final = frozenset(("urlset", "sitemapindex"))
_URL_LINE = re.compile(r"\s*https?://\S+[^\S\r\n]*(?:[\r\n]|$)", re.IGNORECASE)
_MEDIA: Final = (
    *("image/", "audio/", "video/", "font/"),
    *("application/pdf", "application/zip", "application/gzip"),
)
_OPAQUE: Final = frozenset(
    ("", "application/octet-stream", "binary/octet-stream", "unknown/unknown")
)
_TEXT: Final = frozenset(("application/json", "application/javascript"))
_FORMATS: Final[dict[str, charset.Format]] = {
    "text/css": "css",
    **dict.fromkeys(("application/json", "text/json", "text/x-json"), "json"),
    **dict.fromkeys(("application/javascript", "text/javascript", "text/ecmascript"), "script"),
    **dict.fromkeys(("text/vtt", "text/event-stream", "text/vcard"), "utf8"),
}
"""Of media types that are text with rules of their own about encodings."""


def is_gzip(head: bytes) -> bool:
    """Whether a body begins as a gzip file."""
    return head.startswith(b"\x1f\x8b\x08")


def is_xml_type(media_type: str) -> bool:
    """Whether a media type is XML (MIME Sniffing 4.6)."""
    return media_type in ("text/xml", "application/xml") or media_type.endswith("+xml")


def is_html_type(media_type: str) -> bool:
    """Whether a media type is HTML or XHTML."""
    return media_type in ("text/html", "application/xhtml+xml")


def classify(head: bytes, media_type: str, *, via: str = "") -> Kind:
    """What a body is.

    Args:
        head: its first bytes.
        media_type: as declared, in lower case, without parameters; empty: none.
        via: how its URL was found; a text file found as a sitemap is one.
    """
    if not head or head.startswith(_BINARY) or media_type.startswith(_MEDIA):
        return "other"
    if is_html_type(media_type) and _OBVIOUS.match(head):
        return "html"
    start = _start(head, _format_of_text(media_type))
    root = root_of(start)
    if root in _SITEMAP_ROOTS:
        return "sitemap"
    if root in _FEED_ROOTS:
        return "feed"
    if is_html_type(media_type) or root == "html":
        return "html"
    if media_type in _OPAQUE and _HTML.match(start):
        return "html"
    if (media_type in _OPAQUE or media_type == "text/plain") and (
        via == "sitemap" and _URL_LINE.match(start)
    ):
        return "sitemap"
    return "text" if _is_text(media_type) and "\x00" not in start else "other"


def _is_text(media_type: str) -> bool:
    return (
        media_type.startswith("text/")
        or media_type in _TEXT
        or is_xml_type(media_type)
        or media_type.endswith("+json")
    )


def in_gzip(head: bytes, via: str) -> Kind:
    """What a gzip file holds, by the first bytes of its content: a sitemap, a feed, or `other`."""
    for media_type in ("application/xml", "text/plain"):
        found = classify(head, media_type, via=via)
        if found in ("sitemap", "feed"):
            return found
    return "other"


def root_of(start: str) -> str:
    """Local name of the XML root element in lower case; empty: none is in sight."""
    prolog = _PROLOG.match(start)
    root = _ROOT.match(start, prolog.end() if prolog else 0)
    return root[1].lower() if root else ""


def format_of(found: Kind, media_type: str, head: bytes) -> charset.Format:
    """Whose rules say in which encoding a body is.

    The kind decides, so that a page sent as `text/plain` has its meta element heard, and a JSON
    document that quotes one has not. Only between HTML and XHTML does the media type decide, as it
    does in a browser.

    Args:
        found: its kind.
        media_type: as declared, in lower case, without parameters; empty: none.
        head: its first bytes.
    """
    if found == "html":
        return "xhtml" if is_xml_type(media_type) else "html"
    if found == "feed":
        return "xml"
    if found == "sitemap":
        return "sitemap" if root_of(_start(head, "sitemap")) else "url_list"
    return _format_of_text(media_type)


def _format_of_text(media_type: str) -> charset.Format:
    if is_xml_type(media_type):
        return "xml"
    return "json" if media_type.endswith("+json") else _FORMATS.get(media_type, "plain")


def _start(head: bytes, document: charset.Format) -> str:
    return charset.decode(head[:HEAD_BYTES], charset.glance(head, document))
