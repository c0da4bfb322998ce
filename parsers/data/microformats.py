"""Microformats, for crawls that ask for them.

The only importer of mf2py, an optional dependency (`crawlstream[microformats]`) that costs several
times what the rest of parsing does: it is loaded when the first page with a microformat comes.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from parsers.data.items import Json
    from parsers.documents.html import Document

MAX_MARKUP_CHARS: Final = 2_000_000
"""Longer pages have no microformats: reading them takes seconds."""

_ROOTS: Final = (
    ".h-adr,.h-app,.h-card,.h-cite,.h-entry,.h-event,.h-feed,.h-geo,.h-item,.h-listing,.h-product,"
    ".h-recipe,.h-resume,.h-review,.h-review-aggregate,.h-x-app,.adr,.geo,.hentry,.hfeed,.hnews,"
    ".hproduct,.hrecipe,.hresume,.hreview,.hreview-aggregate,.vcard,.vevent"
)
"""Classes that begin a microformat, those of before version 2 among them. Other names with `h-`
are styles (`h-full`) more often than not: a page that has only those is not read."""
_STYLES: Final = ("auto", "fit", "full", "max", "min", "px", "screen")


def installed() -> bool:
    """Whether the optional dependency is there."""
    return find_spec("mf2py") is not None


@cache
def _parse() -> Any:
    import mf2py

    return mf2py.parse


def microformats(document: Document, base: str) -> tuple[list[Json], str]:
    """The microformats of a page as mf2py gives them (`items`), and what went wrong, if anything.

    Args:
        document: the page.
        base: what references are relative to; `base` elements were looked at before.
    """
    if not document.select(_ROOTS):
        return [], ""
    if not installed():
        return [], "microformats_missing"
    markup = "".join(map(document.html, document.select("html")))
    if len(markup) > MAX_MARKUP_CHARS:
        return [], "microformats_failed"
    try:
        found = _parse()(doc=markup, url=base, html_parser="lxml", filter_roots=_STYLES)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a foreign parser; the page is worth keeping without
        return [], "microformats_failed"
    items: list[Json] = found["items"]
    return items, ""
