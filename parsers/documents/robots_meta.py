"""Robots meta elements and X-Robots-Tag headers: may a page be stored, may its links be followed.

All rules that address everyone or us are summed up: a permission given in one place does not lift
a prohibition made in another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from parsers.text.dates import parse_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

_VALUED: Final = frozenset(
    ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
)
"""Directives that contain a colon of their own; any other colon ends an agent's name."""


class Permissions(NamedTuple):
    """What the page forbids."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: object) -> Permissions:
        if not isinstance(other, Permissions):
            return NotImplemented
        return Permissions(self.noindex or other.noindex, self.nofollow or other.nofollow)


def of_meta(metas: Iterable[tuple[str, str]], agent: str, now_ms: int) -> Permissions:
    """Permissions in meta elements.

    Args:
        metas: (lower-case name, content) pairs.
        agent: our product token; a meta element of that name speaks to us.
        now_ms: decides `unavailable_after`.
    """
    found = Permissions()
    names = ("robots", agent.lower()) if agent else ("robots",)
    for name, content in metas:
        if name in names:
            found |= _directives(content, now_ms)
    return found


def of_header(values: Iterable[str], agent: str, now_ms: int) -> Permissions:
    """Permissions in X-Robots-Tag header lines, each with or without an agent's name in front."""
    found = Permissions()
    for value in values:
        for name, directives in _by_agent(value):
            if not name or name == agent.lower():
                found |= _directives(directives, now_ms)
    return found


def _by_agent(value: str) -> Iterable[tuple[str, str]]:
    """(lower-case agent or empty, directives) of one header line.

    A name holds for all directives after it, up to the next name.
    """
    agent = ""
    held: list[str] = []
    for part in value.split(","):
        head, colon, rest = part.partition(":")
        name = head.strip().lower()
        if colon and name and name not in _VALUED and " " not in name:
            if held:
                yield agent, ",".join(held)
            agent, held = name, [rest]
        else:
            held.append(part)
    if held:
        yield agent, ",".join(held)


def _directives(text: str, now_ms: int) -> Permissions:
    lowered = text.lower()
    tokens = {token.strip() for token in lowered.replace(";", ",").split(",")}
    expired = False
    if "unavailable_after" in lowered:
        until = parse_ms(text[lowered.index("unavailable_after") + 17 :].lstrip(" :"))
        expired = until is not None and until < now_ms
    return Permissions(
        noindex=expired or not tokens.isdisjoint(("noindex", "none")),
        nofollow=not tokens.isdisjoint(("nofollow", "none")),
    )
