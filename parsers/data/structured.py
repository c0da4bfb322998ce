"""Structured data that pages carry about themselves: JSON-LD, named metadata, OpenGraph.

Items in markup are read by `parsers.data.microdata` and `parsers.data.rdfa`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from parsers.data import lenient
from parsers.data.items import Json
from parsers.documents.page import Meta, collapse
from parsers.text.dates import past_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MAX_JSON_CHARS: Final = 400_000
"""Longest JSON text of JSON-LD, of microdata and of extracted values in a record."""
MAX_META: Final = 200
MAX_META_CHARS: Final = 2_000

_SURROGATE = re.compile("[\ud800-\udfff]")


class Items(NamedTuple):
    """Items found, and codes of what was wrong with the rest."""

    items: list[Json]
    issues: list[str]


def dumps(value: Any) -> str:
    """Strict JSON that UTF-8 can carry: no NaN, no lone surrogates."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _SURROGATE.sub("\ufffd", text) if not text.isascii() else text


def dump_list(items: Sequence[Any]) -> tuple[str, bool]:
    """JSON array of as many items, from the first, as `MAX_JSON_CHARS` holds; True when cut."""
    parts: list[str] = []
    room = MAX_JSON_CHARS
    for item in items:
        text = dumps(item)
        room -= len(text) + 1
        if room < 0:
            return f"[{','.join(parts)}]", True
        parts.append(text)
    return f"[{','.join(parts)}]", False


def json_ld(scripts: Iterable[str]) -> Items:
    """The JSON-LD items of a page's scripts; a `@graph` counts as its items.

    What is not JSON is read as pages mean it (`parsers.data.lenient`): each kind of repair is an
    issue, and so is what could not be read at all.
    """
    items: list[Json] = []
    issues: set[str] = set()
    for script in scripts:
        if not script or script.isspace():
            continue
        found = lenient.read(script)
        issues.update(f"json_ld_repaired_{repair}" for repair in found.repairs)
        if found.broken:
            issues.add("json_ld_invalid")
        for value in found.values:
            items.extend(_items(value))
    return Items(items, sorted(issues))


def _items(value: Any) -> Iterator[Json]:
    """The items in a value: lists, also in lists, and graphs are opened."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(reversed(one))
        elif isinstance(one, dict):
            graph = one.get("@graph")
            if isinstance(graph, list):
                yield from (inner for inner in graph if isinstance(inner, dict))
            elif isinstance(graph, dict):
                yield graph
            else:
                yield one


def named(metas: Iterable[Meta]) -> dict[str, str]:
    """The first value of each named meta element: OpenGraph, Twitter, Dublin Core and others."""
    found: dict[str, str] = {}
    for meta in metas:
        name = meta.name[:200]
        if name and name not in found and len(found) < MAX_META:
            value = collapse(meta.content)[:MAX_META_CHARS]
            if value:
                found[name] = value
    return found


_OPENGRAPH: Final = frozenset(
    (
        *("og", "fb", "al", "music", "video", "article", "book", "profile", "product", "website"),
        *("books", "business", "fitness", "game", "place", "restaurant"),
    )
)
"""Prefixes of OpenGraph and of what its readers know besides."""
_OPENGRAPH_URLS: Final = frozenset(
    (
        *("og:url", "og:see_also"),
        *("og:image", "og:image:url", "og:image:secure_url"),
        *("og:video", "og:video:url", "og:video:secure_url"),
        *("og:audio", "og:audio:url", "og:audio:secure_url"),
    )
)


def opengraph(metas: Iterable[Meta], absolute: Callable[[str], str]) -> list[tuple[str, str]]:
    """The OpenGraph properties of a page, in order and with those that repeat.

    The order says which image a width is of. Values that are URLs are made absolute.

    Args:
        metas: named metadata.
        absolute: makes a reference absolute; the empty string when it is no URL.
    """
    found: list[tuple[str, str]] = []
    for meta in metas:
        name = meta.name
        if ":" not in name or name.partition(":")[0] not in _OPENGRAPH:
            continue
        value = collapse(meta.content)
        if value and name in _OPENGRAPH_URLS:
            value = absolute(value) or value
        if value:
            found.append((name[:200], value))
    return found


class Facts(NamedTuple):
    """What metadata says about a page."""

    description: str
    author: str
    published_at: int | None
    modified_at: int | None


_PUBLISHED: Final = (
    "article:published_time",
    "og:article:published_time",
    "og:published_time",
    "datepublished",
    "citation_publication_date",
    "dc.date.issued",
    "dcterms.issued",
    "dcterms.created",
    "dc.date.created",
    "dc.date",
    "parsely-pub-date",
    "sailthru.date",
    "pubdate",
    "publish-date",
    "publish_date",
    "date",
)
_MODIFIED: Final = (
    "article:modified_time",
    "og:article:modified_time",
    "og:updated_time",
    "datemodified",
    "dcterms.modified",
    "dc.date.modified",
    "last-modified",
    "revised",
)
_AUTHOR: Final = (
    "author",
    "article:author",
    "og:article:author",
    "parsely-author",
    "sailthru.author",
    "citation_author",
    "dc.creator",
    "dcterms.creator",
    "byl",
)
_DESCRIPTION: Final = ("description", "og:description", "twitter:description", "dc.description")


def facts(meta: Mapping[str, str], items: Sequence[Json], now_ms: int) -> Facts:
    """Description, author and dates, from JSON-LD first and named metadata next.

    A date in the future is no date of publication.
    """
    return Facts(
        description=next((meta[name] for name in _DESCRIPTION if name in meta), ""),
        author=_author(meta, items),
        published_at=_date(meta, _PUBLISHED, items, "datePublished", now_ms),
        modified_at=_date(meta, _MODIFIED, items, "dateModified", now_ms),
    )


def _date(
    meta: Mapping[str, str], names: Sequence[str], items: Sequence[Json], key: str, now_ms: int
) -> int | None:
    said = [item[key] for item in items if isinstance(item.get(key), str)]
    said.extend(meta[name] for name in names if name in meta)
    for text in said:
        found = past_ms(text, now_ms)
        if found is not None:
            return found
    return None


def _author(meta: Mapping[str, str], items: Sequence[Json]) -> str:
    for item in items:
        name = _name(item.get("author"))
        if name:
            return name
    for key in _AUTHOR:
        value = meta.get(key, "")
        if value and not value.lower().startswith(("http://", "https://")):
            return value[:300]
    return ""


def _name(author: Any) -> str:
    if isinstance(author, list):
        return ", ".join(filter(None, (_name(one) for one in author[:20])))[:300]
    if isinstance(author, dict):
        author = author.get("name")
    return _SURROGATE.sub("\ufffd", collapse(author)[:300]) if isinstance(author, str) else ""
