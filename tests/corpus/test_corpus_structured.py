"""Structured data next to extruct, mf2py and w3lib, on pages of our own and on made-up ones.

Both sides are brought to one form first: white space as a reader sees it, properties as lists.
What still differs is listed with its reason; a difference that is not listed fails, and so does
one that is listed and no longer there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

import extruct
import mf2py
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree
from w3lib.html import get_base_url

from parsers.documents.html import Document
from parsers.links.resolve import base_of
from tests.corpus import found
from tests.corpus.differences import Difference, comparing
from tests.unit.parsers.parsing import PAGE, parsed

FOLDER: Final = Path(__file__).parents[1] / "data" / "structured"
PAGES: Final = sorted(file.stem for file in FOLDER.glob("*.html"))
SYNTAXES: Final = ("json-ld", "microdata", "opengraph", "rdfa", "microformats")
FAILED: Final = "the peer raises"

WRAPPED = "the peer removes comment lines only, and a script it cannot read ends the whole page"
DIFFERENCES: Final = {
    ("jsonld_wrapped", "json-ld"): WRAPPED,
    ("jsonld_several", "json-ld"): "the peer reads one value of a script",
    ("jsonld_entities", "json-ld"): "the peer does not know of entities in scripts",
    ("jsonld_broken", "json-ld"): "both cannot read it: the peer raises, the record says so",
    ("jsonld_case_of_type", "json-ld"): "the peer compares the type of a script as it is written",
    ("jsonld_graph", "json-ld"): "a graph counts as its items here",
    ("microdata_camel", "microdata"): "the peer's URLs are joined, not parsed: spaces stay in them",
    ("microdata_cycle", "microdata"): "an item inside of itself is left out here, null at the peer",
    ("microdata_empty_item", "microdata"): "the peer makes the text of an empty item its value",
    ("microdata_no_date", "microdata"): "the standard: a time without datetime is its text",
    ("microdata_no_url", "microdata"): "the standard: what is no URL is empty; the peer raises",
    ("microdata_two_types_and_names", "microdata"): "the standard: itemid is a URL, made absolute",
    (
        "opengraph_body",
        "opengraph",
    ): "the peer looks into the head only; metadata in the body is old",
    ("opengraph_name", "opengraph"): "pages write name for property, and readers take it",
    ("opengraph_own_prefix", "opengraph"): "a prefix of the page's own is no OpenGraph: see `meta`",
    ("opengraph_own_prefix", "rdfa"): "what meta elements say of a page without items is in `meta`",
    ("opengraph_product", "opengraph"): "the peer does not know fb",
    ("microdata_no_url", "rdfa"): "the peer raises at a URL that it cannot parse",
    ("opengraph_relative", "opengraph"): "URLs are made absolute and empty values left out here",
    ("rdfa_link_around", "rdfa"): "Lite: href names a value and not what is spoken of",
    ("rdfa_no_vocab", "rdfa"): "terms without a vocabulary stay as they are here; RDFa drops them",
    ("rdfa_rel", "rdfa"): "Lite has no rel",
    ("rdfa_text", "rdfa"): "scripts are no text here, and a line break is white space",
    ("rdfa_time", "rdfa"): "the peer does not know datetime (HTML+RDFa 1.1, section 3.1)",
}


def text_form(value: Any) -> Any:
    return " ".join(value.split()) if isinstance(value, str) else value


def ours(body: bytes, syntax: str) -> Any:
    outcome = parsed(body, spec={"microformats": syntax == "microformats"})
    field = syntax.replace("-", "_")
    found = json.loads(outcome.record[field])  # type: ignore[literal-required]
    if syntax == "rdfa":
        return set(map(said_by, found))
    return found


def peers(body: bytes, syntax: str) -> Any:
    base = get_base_url(body.decode(), PAGE)
    if syntax == "microformats":
        return mf2py.parse(doc=body.decode(), url=PAGE, filter_roots=True)["items"]
    try:
        found = extruct.extract(body, base_url=base, syntaxes=[syntax])[syntax]
    except (ValueError, RecursionError):
        return FAILED
    except etree.ParserError:  # its name for a document without an element
        return []
    if syntax == "microdata":
        return [item_form(item) for item in found]
    if syntax == "opengraph":
        return [[name, text_form(one)] for page in found for name, one in page["properties"]]
    return said_in(found) if syntax == "rdfa" else found


def item_form(item: Any) -> Any:
    """A microdata item of extruct in the form of ours."""
    if not isinstance(item, dict):
        return text_form(item)
    types = item.get("type", [])
    form = {"type": [types] if isinstance(types, str) else types, "properties": {}}
    for name, values in item.get("properties", {}).items():
        every = values if isinstance(values, list) else [values]
        form["properties"][name] = [item_form(one) for one in every]
    extra = {name: one for name, one in item.items() if name not in ("type", "properties")}
    return {**form, **extra}


Form = frozenset[tuple[str, Any]]


def said_by(item: Any) -> Form:
    """An item of ours as the set of what it says; its items likewise."""
    vocab = item["type"][0] if item["type"] else ""
    vocab = vocab[: max(vocab.rfind("/"), vocab.rfind("#")) + 1]
    said = {("type", one) for one in item["type"]}
    for name, values in item["properties"].items():
        full = name if ":" in name else vocab + name
        said |= {(full, said_by(one) if isinstance(one, dict) else one) for one in values}
    return frozenset(said | ({("id", item["id"])} if "id" in item else set()))


def said_in(nodes: Any) -> set[Form]:
    """A graph of extruct in that form; without what meta elements say of the page."""
    by_name = {node["@id"]: node for node in nodes}
    inner: set[str] = set()

    def form(node: Any) -> Form:
        name = node["@id"]
        said: set[tuple[str, Any]] = {("type", one) for one in node.get("@type", ())}
        for key, values in node.items():
            if key in ("@id", "@type") or key.endswith("usesVocabulary"):
                continue
            if name == PAGE and key.startswith(("http://ogp.me/", "product:")):
                continue
            for one in values:
                target = one.get("@id", "")
                if target in by_name:
                    inner.add(target)
                    said.add((key, form(by_name[target])))
                else:
                    said.add((key, target or text_form(one.get("@value", ""))))
        named = said and not name.startswith("_:")
        return frozenset(said | ({("id", name)} if named else set()))

    forms = {name: form(node) for name, node in by_name.items()}
    return {one for name, one in forms.items() if one and name not in inner}


@cache
def page(name: str) -> bytes:
    return (FOLDER / f"{name}.html").read_bytes()


def _of(name: str, syntax: str) -> Callable[[Any, Any, Any], bool]:
    return lambda given, _, theirs: given == (name, syntax)


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_pages_of_our_own(syntax: str) -> None:
    listed = tuple(
        Difference(name, reason, _of(name, syntax))
        for (name, of), reason in DIFFERENCES.items()
        if of == syntax
    )
    with comparing(listed, at_least=40) as compare:
        for name in PAGES:
            compare((name, syntax), ours(page(name), syntax), peers(page(name), syntax))


def test_there_are_pages_of_every_syntax() -> None:
    said = Counter(syntax for name in PAGES for syntax in SYNTAXES if ours(page(name), syntax))
    assert all(said[syntax] >= 5 for syntax in SYNTAXES[:4])
    assert said["microformats"] >= 2
    assert {name for name, _ in DIFFERENCES} <= set(PAGES)


def test_base_urls() -> None:
    with comparing(at_least=40) as compare:
        for name in PAGES:
            found = base_of(PAGE, Document(page(name)).scan().base)
            compare(name, found, get_base_url(page(name), PAGE))


# ---- made-up pages

_WORD = st.sampled_from(("one", "two three", "4.5", "a<b", "\u00e9\u00df"))
_NAME = st.sampled_from(("name", "url", "a b", "c"))
_HREF = st.sampled_from(("x", "/x/y", "../z", "?q=1", "#f", "http://b.example/p", " s "))
_ID = st.sampled_from(("r1", "r2", "r3"))
_TYPE = st.sampled_from(("http://schema.example/A", "http://schema.example/B"))


@st.composite
def _value(draw: st.DrawFn, name: str) -> str:
    """An element with a value, which `name` (an attribute) says."""
    kind = draw(st.integers(0, 6))
    word = escape(draw(_WORD))
    if kind == 0:
        return f'<a {name} href="{draw(_HREF)}">{word}</a>'
    if kind == 1:
        return f'<img {name} src="{draw(_HREF)}">'
    if kind == 2:
        return f'<meta {name} content="{word}">'
    if kind == 3 and "itemprop" in name:
        return f'<data {name} value="{word}">other</data>'
    if kind == 4 and "itemprop" in name:
        return f'<time {name} datetime="2020-01-0{draw(st.integers(1, 9))}">then</time>'
    return f"<span {name}>{word} <b>{escape(draw(_WORD))}</b></span>"


@st.composite
def microdata_pages(draw: st.DrawFn) -> bytes:
    """Items and properties in each other, with references to what is outside of all items."""
    used: set[str] = set()

    def item(depth: int, prop: str) -> str:
        kind = f' itemtype="{draw(_TYPE)}"' if draw(st.booleans()) else ""
        refs = ""
        if not prop and draw(st.integers(0, 3)) == 0:
            ref = draw(_ID)
            if ref not in used:
                used.add(ref)
                refs = f' itemref="{ref}"'
        inner = "".join(body(depth + 1) for _ in range(draw(st.integers(1, 3))))
        return f"<div itemscope{kind}{refs}{prop}>{draw(_value('itemprop=first'))}{inner}</div>"

    def body(depth: int) -> str:
        prop = f'itemprop="{draw(_NAME)}"'
        kind = draw(st.integers(0, 4 if depth < 4 else 1))
        if kind <= 1:
            return draw(_value(prop))
        if kind == 2:
            return f"<section><p>text</p>{body(depth + 1)}</section>"
        return item(depth, f" {prop}" if kind == 3 else "")

    items = "".join(item(0, "") for _ in range(draw(st.integers(1, 3))))
    targets = "".join(f'<p id="{one}">{draw(_value("itemprop=far"))}</p>' for one in ("r1", "r2"))
    return f"<!doctype html><html><head><title>t</title></head><body>{items}{targets}".encode()


@st.composite
def rdfa_pages(draw: st.DrawFn) -> bytes:
    """Typed items in each other, by vocabulary and by prefix."""

    def item(depth: int, prop: str) -> str:
        kind = draw(st.sampled_from(("A", "A B", "s:A", "foaf:Person")))
        inner = "".join(body(depth + 1) for _ in range(draw(st.integers(1, 3))))
        number[0] += 1
        own = f'<b property="number">{number[0]}</b>'  # no two items say the same
        return f'<div typeof="{kind}"{prop}>{own}{inner}</div>'

    def body(depth: int) -> str:
        name = draw(st.sampled_from(("name", "s:url", "foaf:nick dc:title", "a b")))
        prop = f'property="{name}"'
        if depth < 4 and draw(st.integers(0, 2)) == 0:
            return item(depth, f" {prop}")
        return f"<p>{draw(_value(prop))}</p>"

    number = [0]
    items = "".join(item(0, "") for _ in range(draw(st.integers(1, 3))))
    return (
        '<!doctype html><html><head><title>t</title></head><body vocab="http://schema.example/"'
        f' prefix="s: http://s.example/ns#">{items}</body></html>'
    ).encode()


@st.composite
def metadata_pages(draw: st.DrawFn) -> bytes:
    """OpenGraph in heads, and JSON-LD that a strict reader takes."""
    names = ("og:title", "og:image:width", "article:tag", "product:price:amount", "other", "x:y")
    metas = "".join(
        f'<meta property="{draw(st.sampled_from(names))}" content="{escape(draw(_WORD))}">'
        for _ in range(draw(st.integers(0, 6)))
    )
    values = st.recursive(
        _WORD | st.integers() | st.booleans(), lambda one: st.lists(one) | items(one)
    )
    found = draw(st.lists(items(values), max_size=3))
    scripts = "".join(
        f'<script type="application/ld+json">{json.dumps(one)}</script>' for one in found
    )
    return f"<!doctype html><html><head><title>t</title>{metas}{scripts}</head><body>x".encode()


def items(values: Any) -> Any:
    return st.dictionaries(st.sampled_from(("@type", "name", "url")), values, min_size=1)


MADE = settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@MADE
@given(microdata_pages())
def test_made_up_microdata(body: bytes) -> None:
    assert ours(body, "microdata") == peers(body, "microdata")


@MADE
@given(rdfa_pages())
def test_made_up_rdfa(body: bytes) -> None:
    assert ours(body, "rdfa") == peers(body, "rdfa")


@MADE
@given(metadata_pages())
def test_made_up_metadata(body: bytes) -> None:
    for syntax in ("opengraph", "json-ld"):
        assert ours(body, syntax) == peers(body, syntax)


# ---- what others wrote

OTHERS: Final = {
    "json-ld": (
        Difference(
            "not JSON",
            "neither reads it: the peer raises, the record says so in its issues",
            lambda given, ours, theirs: (
                theirs == FAILED
                and ours == []
                and parsed(given.encode()).record["issues"] == ["json_ld_invalid"]
            ),
        ),
    ),
    "microdata": (),
    "opengraph": (
        Difference(
            "in the body",
            "the peer looks into the head only",
            lambda given, _, theirs: (
                theirs == [] and not Document(given).select("head meta[property]")
            ),
        ),
    ),
}


@pytest.mark.parametrize("syntax", OTHERS)
def test_markup_in_installed_packages(syntax: str) -> None:
    with comparing(OTHERS[syntax], at_least=80) as compare:
        for text in found.markup():
            body = text.encode("utf-8", "replace")
            compare(text, ours(body, syntax), peers(body, syntax))
