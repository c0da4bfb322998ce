"""Checks of a crawl spec that need a parser: entry point `parsers` of `crawlstream.spec_checks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.data import microformats
from parsers.data.extract import plugin
from parsers.documents.html import check_selector
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from schemas.crawl import CrawlSpec
    from schemas.extraction import Selector


def check_selectors(spec: CrawlSpec) -> list[str]:
    """Every problem of what a spec would have extracted, one line each; empty: none."""
    found = list(_problems(spec.extract, "extract"))
    for name in spec.plugins:
        try:
            plugin(name)
        except ConfigError as error:
            found.append(f"plugins: {error}")
    if spec.microformats and not microformats.installed():
        found.append("microformats: mf2py is not installed (crawlstream[microformats])")
    return found


def _problems(selectors: Mapping[str, Selector], path: str) -> Iterator[str]:
    for name, selector in selectors.items():
        where = f"{path}.{name}"
        wrong = check_selector(selector.css)
        if wrong is not None:
            yield f"{where}.css: {wrong}"
        if selector.fields and (selector.attribute or selector.regex or selector.type != "text"):
            yield f"{where}: with fields, attribute, regex and type have no meaning"
        if selector.type == "html" and selector.attribute:
            yield f"{where}: type html reads an element, not an attribute"
        yield from _problems(selector.fields, f"{where}.fields")
