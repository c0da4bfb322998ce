"""Shapes of URLs: which of a page's links would make its space endless. Pure.

A link grows from its page in one of two ways. It **deepens** it when it lies below the page's own
folder, as `news/` does on every page of a site whose links lack a leading slash. It **varies** it
when it has the page's pattern: the same path under another query, another date of the same
calendar, or a session id minted anew. Most growing links are ordinary; they are an endless space
only where the pages behind them keep telling what their host has told before, which is judged in
`streams.dedup.traps`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from schemas.admission import calendar_shape
from schemas.url import path_of

_ID: Final = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{10,}(?![A-Za-z0-9])",
)
_QUERY_ID: Final = re.compile(
    r"[?&;]([^=&;]*)=(?=[A-Za-z]*[0-9])[A-Za-z0-9]{10,}(?![A-Za-z0-9])",
)


class Shape(NamedTuple):
    """What a page's URL says about the links that would grow from it."""

    path: str
    """Scheme, host, port and path."""
    folder: str
    """The same up to the last slash."""
    slashes: int
    """How deep: slashes in `path`."""
    pattern: str
    """The path alone, with its dates as zeros where it is a calendar's and its ids as `*`."""
    mint: str
    """Where the URL has something like a session id: the pattern up to it, or the name of the
    parameter; empty: nowhere."""
    open: bool
    """Whether a link may vary the page under another path than its own."""


def shape(href: str) -> Shape:
    """The shape of a serialised URL."""
    path, mark, query = href.partition("?")
    masked = calendar_shape(href) or href
    pattern = _ID.sub("*", path_of(masked.partition("?")[0]))
    at = pattern.find("*")
    mint = pattern[: at + 1]
    if mark and not mint:
        found = _QUERY_ID.search(f"?{query}")
        mint = f"?{found[1]}" if found else ""
    is_open = bool(mint) or pattern != path_of(path)
    return Shape(path, path[: path.rindex("/") + 1], path.count("/"), pattern, mint, is_open)


def deepens(page: Shape, href: str) -> bool:
    """Whether a link of the page's host lies below the page's own folder."""
    return href.startswith(page.folder) and href.partition("?")[0].count("/") > page.slashes


def varies(page: Shape, href: str) -> bool:
    """Whether a link of the page's host has the page's pattern, or an id where the page has one."""
    target = shape(href)
    return target.pattern == page.pattern or (bool(page.mint) and target.mint == page.mint)


def may_grow(page: Shape, href: str) -> bool:
    """False where neither `deepens` nor `varies` holds; costs a tenth of asking them."""
    if page.open or href.startswith(f"{page.path}?") or href == page.path:
        return True
    return href.startswith(page.folder) and href.count("/") > page.slashes
