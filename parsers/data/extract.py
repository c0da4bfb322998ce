"""Extraction as data: a crawl's own selectors, and plug-ins for what selectors cannot say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

from parsers.data.items import Json
from parsers.documents.html import Document, Node
from parsers.documents.page import collapse
from parsers.text.dates import iso, parse_ms
from schemas.errors import ConfigError
from schemas.url import Rejected, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.extraction import Selector
    from schemas.records import FetchResult

PLUGIN_GROUP: Final = "crawlstream.extractors"
MAX_VALUES: Final = 10_000
"""Values taken by one `many` selector."""
MAX_VALUE_CHARS: Final = 100_000

_NUMBER = re.compile(r"[-+\u2212]?\s?\d[\d\s.,'\u2019\u00a0\u202f]*")
_TRUE: Final = frozenset(("true", "yes", "1", "on"))
_FALSE: Final = frozenset(("false", "no", "0", "off", ""))


@dataclass(frozen=True, slots=True)
class PageView:
    """What a plug-in gets: the page, and all that is known about it."""

    url: str
    base: str
    result: FetchResult
    text: str
    """The decoded markup, or the text of a text document; empty for binary bodies."""
    body: bytes
    document: Document | None
    """The parsed page; None when it is no HTML."""


class Extractor(Protocol):
    """A plug-in: an entry point of group `crawlstream.extractors`.

    It runs in a parse process under the parse deadline. It returns values that JSON can hold;
    they join the record's `extracted`. What it raises is noted in the record's `issues`.
    """

    def __call__(self, page: PageView) -> Mapping[str, Any]:
        """The values of a page."""
        ...


@dataclass(slots=True)
class Extracted:
    """Values by name, and codes of what did not work."""

    values: Json = field(default_factory=dict)
    issues: list[str] = field(default_factory=list)


@cache
def plugin(name: str) -> Extractor:
    """The plug-in of that name. Raises ConfigError when it is not installed or does not load."""
    found = [point for point in entry_points(group=PLUGIN_GROUP) if point.name == name]
    if not found:
        raise ConfigError(f"no extraction plug-in {name!r} is installed (group {PLUGIN_GROUP})")
    try:
        loaded = found[0].load()
    except Exception as error:  # whatever a foreign module does at import
        raise ConfigError(
            f"extraction plug-in {name!r}: {type(error).__name__}: {error}"
        ) from error
    if not callable(loaded):
        raise ConfigError(f"extraction plug-in {name!r} is not callable")
    extractor: Extractor = loaded
    return extractor


def select(selectors: Mapping[str, Selector], document: Document, base: str) -> Extracted:
    """The values of a crawl's selectors in a page.

    Args:
        selectors: by name; their syntax was checked when the spec was submitted.
        document: the page.
        base: absolute URL that values of type `url` are resolved against.
    """
    found = Extracted()
    for name, selector in selectors.items():
        found.values[name] = _value(selector, document, None, base, name, found.issues)
    return found


def run_plugins(names: tuple[str, ...], page: PageView) -> Extracted:
    """The values of a crawl's plug-ins, later names winning."""
    found = Extracted()
    for name in names:
        try:
            found.values.update(plugin(name)(page))
        except ConfigError:
            found.issues.append(f"plugin_missing:{name}")
        except Exception as error:  # noqa: BLE001 - a plug-in's fault costs its values, not the page
            found.issues.append(f"plugin_failed:{name}:{type(error).__name__}")
    return found


def _value(
    selector: Selector,
    document: Document,
    within: Node | None,
    base: str,
    name: str,
    issues: list[str],
) -> Any:
    nodes = document.select(selector.css, within)
    if not selector.many:
        value = _one(selector, document, nodes[0], base, name, issues) if nodes else None
        if value is None:
            _note(issues, name)
        return value
    values = []
    for node in nodes[:MAX_VALUES]:
        value = _one(selector, document, node, base, name, issues)
        if value is not None:
            values.append(value)
        else:
            _note(issues, name)
    return values


def _one(
    selector: Selector, document: Document, node: Node, base: str, name: str, issues: list[str]
) -> Any:
    if selector.fields:
        return {
            key: _value(inner, document, node, base, f"{name}.{key}", issues)
            for key, inner in selector.fields.items()
        }
    if selector.attribute is not None:
        raw = document.attribute(node, selector.attribute)
        if raw is None:
            return None
    elif selector.type == "html":
        raw = document.html(node)
    else:
        raw = document.text(node)
    raw = raw[:MAX_VALUE_CHARS]
    text = collapse(raw) if selector.strip and selector.type != "html" else raw
    if selector.regex is not None:
        match = re.search(selector.regex, text)
        if match is None:
            return None
        text = (match[1] if match.re.groups else match[0]) or ""
    return convert(selector.type, text, base)


def convert(kind: str, text: str, base: str) -> Any:
    """A text as a value of the type, or None when it is none."""
    if kind in ("text", "html"):
        return text
    if kind == "number":
        return number(text)
    if kind == "integer":
        value = number(text)
        return int(value) if value is not None and value == int(value) else None
    if kind == "date":
        moment = parse_ms(text)
        return None if moment is None else iso(moment)
    if kind == "url":
        url = parse(text, base)
        return None if isinstance(url, Rejected) else url.href
    lowered = text.strip().lower()
    return True if lowered in _TRUE else False if lowered in _FALSE else None


def number(text: str) -> float | int | None:
    """The first number in a text.

    With both a point and a comma, the last of them is the decimal mark. A single mark followed by
    exactly three digits separates thousands, unless the number begins with 0.
    """
    found = _NUMBER.search(text)
    if found is None:
        return None
    digits = re.sub(r"[\s'\u2019\u00a0\u202f]", "", found[0]).rstrip(".,").replace("\u2212", "-")
    point, comma = digits.rfind("."), digits.rfind(",")
    if point >= 0 and comma >= 0:
        decimal = "." if point > comma else ","
    elif point >= 0 or comma >= 0:
        mark = "." if point >= 0 else ","
        whole, _, rest = digits.rpartition(mark)
        thousands = digits.count(mark) > 1 or (
            len(rest) == 3 and not whole.lstrip("+-").startswith("0")
        )
        decimal = "" if thousands else mark
    else:
        decimal = ""
    for mark in ".,":
        if mark != decimal:
            digits = digits.replace(mark, "")
    digits = digits.replace(",", ".")
    try:
        return float(digits) if "." in digits else int(digits[:300])
    except ValueError:
        return None


def _note(issues: list[str], name: str) -> None:
    code = f"extract:{name}"
    if code not in issues and len(issues) < 100:
        issues.append(code)
