"""Which encoding a document is in: one table by format, and one order of asking.

1. A byte order mark (Encoding Standard 6, RFC 7303, section 3): certain for every format.
2. NULs where only UTF-16 or UTF-32 has them. No label can deny them; RFC 4627, section 3 (JSON)
   and appendix F of XML read them the same way.
3. The Content-Type header, where the format lets it speak. A label of UTF-16 on bytes without a
   NUL that are well-formed UTF-8 is a mistake of the server and says nothing.
4. What the document declares in the way of its own format, and of no other.
5. The default of the format, where that is UTF-8 and the bytes agree.
6. A declaration that the format does not provide for, and then the look of the bytes, where a
   guess does less harm than replacement characters.
7. The default of the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from parsers.text import declared, encodings
from parsers.text.detect import SCAN_BYTES, detect, first_unit, is_utf8, wide

Source = Literal["bom", "header", "meta", "detected", "default"]
Format = Literal[
    "html", "xhtml", "xml", "sitemap", "url_list", "json", "css", "script", "plain", "utf8"
]


class Charset(NamedTuple):
    """An encoding (name of the Encoding Standard), who said so, and the length of the BOM."""

    name: str
    source: Source
    bom_bytes: int = 0


class Rule(NamedTuple):
    """Who may say in which encoding a format is."""

    header: bool = True
    """Whether a Content-Type header counts."""
    declared: Callable[[bytes], str | None] | None = None
    """Reads what a document declares in its own way."""
    ascii_start: bool = False
    """Its first character is ASCII, so that the first two bytes tell UTF-16."""
    utf8: bool = True
    """Its default is UTF-8; else windows-1252, the default of the web."""
    instead: Callable[[bytes], str | None] | None = None
    """Reads a declaration that counts only where UTF-8 cannot be."""
    guess: bool = False
    """Whether the look of the bytes counts where UTF-8 cannot be."""


RULES: Final[dict[Format, Rule]] = {
    # A meta element, or an XML declaration that no meta element contradicts.
    "html": Rule(declared=declared.of_html, utf8=False, guess=True),
    # XML by its type: its meta elements say nothing (HTML 4.2.5.4). A page that is ill-formed UTF-8
    # is no XML either; we read it as HTML, and then its meta element is the best there is.
    "xhtml": Rule(declared=declared.of_xml, ascii_start=True, instead=declared.of_html, guess=True),
    # Feeds and any other XML. Ill-formed UTF-8 is fatal in XML; text is worth a guess.
    "xml": Rule(declared=declared.of_xml, ascii_start=True, guess=True),
    # A guess would make URLs that nobody wrote.
    "sitemap": Rule(declared=declared.of_xml, ascii_start=True),
    # Must be UTF-8 by its protocol; a header here is a default of the server.
    "url_list": Rule(header=False),
    # RFC 8259, section 8.1.
    "json": Rule(ascii_start=True),
    "css": Rule(declared=declared.of_css, guess=True),
    # RFC 9239, section 4.
    "script": Rule(guess=True),
    # Text, CSV and whatever else is text; UTF-8 is asked first, but as a guess.
    "plain": Rule(utf8=False, guess=True),
    # WebVTT, event streams, vCard: UTF-8 whatever anybody says.
    "utf8": Rule(header=False),
}

_PARAMETER = re.compile(
    r";[\t\n\r ]*(?P<name>[^;=]*)"
    r"(?:=(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)(?:\\?\Z|\"[^;]*)|(?P<bare>[^;,]*)))?",
    re.DOTALL,
)
_BOMS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32le"),
    (b"\x00\x00\xfe\xff", "utf-32be"),
    (b"\xff\xfe", "utf-16le"),
    (b"\xfe\xff", "utf-16be"),
)


def sniff(body: bytes, content_type: str, document: Format) -> Charset:
    """The encoding of a document.

    Args:
        body: the document or a prefix of at least some kilobytes.
        content_type: the Content-Type header as sent; empty: none.
        document: its format.
    """
    rule = RULES[document]
    marked = _bom(body)
    if marked is not None:
        return marked
    seen = _nuls(body, rule)
    named = of_content_type(content_type) if content_type and rule.header else None
    if seen is not None:
        return Charset(seen, "header" if seen == named else "detected")
    if named is not None and not _refuted(named, body):
        return Charset(named, "header")
    said = rule.declared(body) if rule.declared is not None else None
    if said is not None:
        return Charset(said, "meta")
    if rule.utf8 and is_utf8(body[:SCAN_BYTES]):
        return Charset("utf-8", "default")
    said = rule.instead(body) if rule.instead is not None else None
    if said is not None:
        return Charset(said, "meta")
    guessed = detect(body) if rule.guess else None
    if guessed is not None:
        return Charset(guessed, "detected")
    return Charset("utf-8" if rule.utf8 else "windows-1252", "default")


def glance(head: bytes, document: Format) -> Charset:
    """An encoding good enough to see in the first bytes what a document is."""
    marked = _bom(head)
    if marked is not None:
        return marked
    seen = _nuls(head, RULES[document])
    return Charset("utf-8", "default") if seen is None else Charset(seen, "detected")


def decode(body: bytes, charset: Charset) -> str:
    """The text of a document, without its BOM. Never raises."""
    return encodings.decode(charset.name, body[charset.bom_bytes :])


@lru_cache(maxsize=256)
def of_content_type(value: str) -> str | None:
    """The encoding that a Content-Type header names; None: it names none that is known.

    The first parameter `charset` that has a value counts (MIME Sniffing 4.4). What follows a comma
    is another header that a proxy joined to this one.
    """
    for parameter in _PARAMETER.finditer(value):
        if parameter["name"].lower() == "charset":
            quoted = parameter["quoted"]
            if quoted is not None:
                return encodings.name_of(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
            bare = (parameter["bare"] or "").strip("\t\n\r ")
            if bare:
                return encodings.name_of(bare)
    return None


def _bom(body: bytes) -> Charset | None:
    for mark, name in _BOMS:
        if body.startswith(mark):
            return Charset(name, "bom", len(mark))
    return None


def _nuls(body: bytes, rule: Rule) -> str | None:
    if b"\x00" not in body[:64]:
        return None
    return (first_unit(body) if rule.ascii_start else None) or wide(body)


def _refuted(named: str, body: bytes) -> bool:
    """Whether bytes cannot be in the encoding that a header names."""
    head = body[:SCAN_BYTES]
    return named in encodings.WIDE and b"\x00" not in head and is_utf8(head)
