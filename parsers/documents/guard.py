"""A look at markup before it is parsed, for the two shapes that lexbor takes quadratic time for.

Elements nested tens of thousands deep, and an element with tens of thousands of attributes, cost
seconds in a few hundred kilobytes. The look costs a few microseconds unless a page is suspicious,
and only a suspicious page is read properly. It is a courtesy to the parse deadline, which stops
whatever gets past it.
"""

from __future__ import annotations

import re
from typing import Final

MAX_DEPTH: Final = 5_000
"""Elements open at once; parsing this many nested costs about 50 ms."""
MAX_ATTRIBUTES: Final = 5_000
"""Attributes of one element; this many cost about 70 ms."""

_CHUNK: Final = 16_384
_LONG_TAG: Final = 10_000
"""Bytes between two `>` below which `MAX_ATTRIBUTES` attributes hardly fit."""

_VOID: Final = frozenset(
    b"area base br col embed hr img input link meta param source track wbr"
    b" li p td th tr dt dd option optgroup tbody thead tfoot colgroup rp rt".split()
)
"""Elements that nothing nests in, or that the next of their kind closes."""
_TOKEN = re.compile(
    rb"<!--.*?(?:--!?>|\Z)"
    rb"|<(?P<raw>script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\s/>])"
    rb"(?:[^>\"']|\"[^\"]*\"|'[^']*')*+>.*?(?:</(?P=raw)|\Z)"
    rb"|<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*)(?P<rest>(?:[^>\"']|\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z))*+)",
    re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(rb"[^\s/>=][^\s/>=]*+\s*+(?:=\s*+(?:\"[^\"]*+\"?|'[^']*+'?|[^\s>]*+))?")


def refuse(markup: bytes) -> str | None:
    """Why markup should not be given to lexbor, or None.

    Args:
        markup: in an encoding that has ASCII's bytes for ASCII.
    """
    if not (_many_open(markup) or _long_tag(markup)):
        return None
    return _read(markup)


def _many_open(markup: bytes) -> bool:
    """Whether more start tags than end tags precede some point (in steps of a chunk).

    Elements without end tags count too, so this is often wrong, and never the other way.
    """
    if len(markup) < 3 * MAX_DEPTH:
        return False
    count = markup.count
    if count(b"<") < MAX_DEPTH:
        return False
    open_tags = 0
    for at in range(0, len(markup), _CHUNK):
        end = at + _CHUNK
        starts = count(b"<", at, end)
        if open_tags + starts > MAX_DEPTH:
            return True
        open_tags = max(0, open_tags + starts - 2 * count(b"</", at, end))
    return False


def _long_tag(markup: bytes) -> bool:
    """Whether `_LONG_TAG` bytes pass without a `>`."""
    at, size = 0, len(markup)
    while at + _LONG_TAG <= size:
        end = markup.rfind(b">", at, at + _LONG_TAG)
        if end < 0:
            return True
        at = end + 1
    return False


def _read(markup: bytes) -> str | None:
    depth = 0
    for token in _TOKEN.finditer(markup):
        name = token["name"]
        if name is None:
            continue
        rest = token["rest"]
        if len(rest) > MAX_ATTRIBUTES:
            attributes = sum(1 for _ in _ATTRIBUTE.finditer(rest))
            if attributes > MAX_ATTRIBUTES:
                return f"an element with {attributes} attributes"
        if name.lower() in _VOID or rest.endswith(b"/"):
            continue
        if token["end"]:
            depth = max(0, depth - 1)
        else:
            depth += 1
            if depth > MAX_DEPTH:
                return f"more than {MAX_DEPTH} elements open at once"
    return None
