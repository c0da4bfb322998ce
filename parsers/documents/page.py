"""What a page holds, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

MAX_TEXT_CHARS: Final = 1_000_000
MAX_HEADINGS: Final = 200
MAX_HEADING_CHARS: Final = 1_000
MAX_ANCHOR_CHARS: Final = 300
MAX_TITLE_CHARS: Final = 2_000
MAX_RAW_LINKS: Final = 200_000
"""Link elements looked at in one page, duplicates included; the rest is only counted."""
MAX_RAW_ASSETS: Final = 5_000


RawLink = tuple[str, str, str, str]
"""A link as written: element name, attribute value, rel in lower case, anchor text."""


class Meta(NamedTuple):
    """A meta element: lower-case name, property or itemprop, lower-case http-equiv, content."""

    name: str
    http_equiv: str
    content: str


class Heading(NamedTuple):
    """A heading, white space collapsed."""

    level: int
    text: str


class SrcSet(NamedTuple):
    """A srcset attribute, to be split by `parsers.links.srcset`."""

    value: str


@dataclass(slots=True)
class Page:
    """What one pass over a page finds, as written: no URL is resolved here."""

    lang: str = ""
    title: str = ""
    base: str | None = None
    text: str = ""
    metas: list[Meta] = field(default_factory=list)
    links: list[RawLink] = field(default_factory=list)
    assets: list[str | SrcSet] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    json_ld: list[str] = field(default_factory=list)
    more_links: int = 0
    """Link elements beyond `MAX_RAW_LINKS`."""
    text_capped: bool = False


def collapse(text: str) -> str:
    """White space runs as one space, none at the ends."""
    return " ".join(text.split())
