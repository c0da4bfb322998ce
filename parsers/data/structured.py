"""Structured data that pages carry about themselves: JSON-LD, named metadata, microdata."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from parsers.documents.html import Document, Node
from parsers.documents.page import Meta, collapse
from parsers.text.dates import past_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_JSON_CHARS: Final = 400_000
"""Longest JSON text of JSON-LD, of microdata and of extracted values in a record."""
MAX_META: Final = 200
MAX_META_CHARS: Final = 2_000
MAX_MICRODATA_NODES: Final = 20_000

_SURROGATE = re.compile("[\ud800-\udfff]")
_OPENERS = re.compile(r"(?:\s|\ufeff|;|<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)+")
_CLOSERS = re.compile(r"(?:\s|\ufeff|;|-->|//\s*\]\]>|/\*\s*\]\]>\s*\*/|\]\]>|//)+$")
_TAIL_CHARS: Final = 200

Json = dict[str, Any]


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

    Wrappers that pages put around the JSON (comments, CDATA, a semicolon) are removed, from the
    ends only, and only when the text does not parse as it stands.
    """
    items: list[Json] = []
    issues: list[str] = []
    for script in scripts:
        if not script.strip():
            continue
        try:
            value = _loads(script)
        except (ValueError, RecursionError):
            issues.append("json_ld_invalid")
            continue
        for item in value if isinstance(value, list) else [value]:
            graph = item.get("@graph") if isinstance(item, dict) else None
            found = graph if isinstance(graph, list) else [item]
            items.extend(one for one in found if isinstance(one, dict))
    return Items(items, sorted(set(issues)))


def _loads(text: str) -> Any:
    try:
        return _strict(text)
    except ValueError:
        opened = _OPENERS.match(text)
        start = opened.end() if opened else 0
        closed = _CLOSERS.search(text, max(start, len(text) - _TAIL_CHARS))
        return _strict(text[start : closed.start() if closed else len(text)])


def _strict(text: str) -> Any:
    """Control characters in strings are let through; what is no JSON number becomes null."""
    return json.loads(text, strict=False, parse_constant=_null, parse_float=_finite)


def _null(_: str) -> None:
    return None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


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


_URL_ATTRIBUTES: Final = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    **dict.fromkeys(("a", "area", "link"), "href"),
    "object": "data",
}


def microdata(document: Document) -> list[Json]:
    """The top-level microdata items of a page (HTML 5.3): type, id, properties.

    URLs are left as written, `itemref` is not followed.
    """
    top: list[Json] = []
    scopes: dict[int, Json] = {}
    nodes = document.select("[itemscope],[itemprop]")
    for node in nodes[:MAX_MICRODATA_NODES]:
        attributes = document.attributes(node)
        owner = _owner(document, node, scopes)
        names = attributes.get("itemprop", "").split()
        value: Any
        if "itemscope" in attributes:
            value = {"type": attributes.get("itemtype", "").split(), "properties": {}}
            if attributes.get("itemid"):
                value["id"] = attributes["itemid"]
            scopes[document.key(node)] = value
            if not names or owner is None:
                top.append(value)
        else:
            value = _property(document, node, attributes)
        if owner is not None:
            for name in names:
                owner["properties"].setdefault(name, []).append(value)
    return top


def _owner(document: Document, node: Node, scopes: Mapping[int, Json]) -> Json | None:
    if not scopes:
        return None
    for depth, around in enumerate(document.ancestors(node)):
        found = scopes.get(document.key(around))
        if found is not None:
            return found
        if depth > 200:
            break
    return None


def _property(document: Document, node: Node, attributes: Mapping[str, str]) -> str:
    tag = document.tag(node)
    if tag == "meta" or "content" in attributes:
        return attributes.get("content", "")
    if tag in _URL_ATTRIBUTES:
        return attributes.get(_URL_ATTRIBUTES[tag], "")
    if tag in ("data", "meter"):
        return attributes.get("value", "")
    if tag == "time" and "datetime" in attributes:
        return attributes["datetime"]
    return collapse(document.text(node))
