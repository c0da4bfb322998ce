"""Links of pages against html5lib's tree, w3lib's meta refresh and base, requests' Link header."""

from __future__ import annotations

import html
import re
from random import Random
from typing import Any, Final

import html5lib
import pytest
from requests.utils import parse_header_links
from w3lib.html import get_base_url, get_meta_refresh

from parsers.documents.html import Document
from parsers.links.resolve import base_of, link_header, refresh_target, srcset
from schemas.url import CrawlUrl, parse
from tests.corpus import found, made_pages
from tests.corpus.differences import Difference, comparing

_HTML: Final = "{http://www.w3.org/1999/xhtml}"
_SVG: Final = "{http://www.w3.org/2000/svg}"
_XLINK: Final = "{http://www.w3.org/1999/xlink}href"
_RELS: Final = {"next", "prev", "alternate", "canonical"}
PAGE: Final = "http://a.example/d/p"


def _ours(text: str) -> tuple[list[tuple[str, str]], str | None]:
    page = Document(text).scan()
    return list(dict.fromkeys(link[:2] for link in page.links)), page.base


def _theirs(text: str) -> tuple[list[tuple[str, str]], str | None]:
    links: dict[tuple[str, str], None] = {}
    base: str | None = None
    for element in html5lib.parse(text, treebuilder="etree").iter():
        name = element.tag if isinstance(element.tag, str) else ""
        if name == f"{_HTML}base" and base is None:
            base = element.get("href")
        href = _href(name, element)
        if href is not None:
            links[name.rpartition("}")[2], href] = None
    return list(links), base


def _href(name: str, element: Any) -> str | None:
    """What a link element refers to; None: it is none that a crawl follows."""
    if name in (f"{_HTML}a", f"{_HTML}area"):
        return element.get("href")
    if name == f"{_SVG}a":
        return element.get("href", element.get(_XLINK))
    if name in (f"{_HTML}iframe", f"{_HTML}frame"):
        return element.get("src") or None
    rels = set(element.get("rel", "").lower().split())
    if name == f"{_HTML}link" and rels & _RELS and "stylesheet" not in rels:
        return element.get("href") or None
    return None


def test_the_links_of_made_pages_are_those_of_html5libs_tree() -> None:
    random = Random(1)
    with comparing(at_least=1_000) as compare:
        for _ in range(1_000):
            text = made_pages.page(random)
            compare(text, _ours(text), _theirs(text))


def test_the_links_of_markup_in_installed_packages_are_those_of_html5libs_tree() -> None:
    with comparing(at_least=80) as compare:
        for text in found.markup():
            compare(text, _ours(text), _theirs(text))


def _fetched(href: str | None) -> str | None:
    url = parse(href, PAGE) if href else None
    return url.href if isinstance(url, CrawlUrl) else None


REFRESHES: Final = (
    Difference(
        "notations",
        "w3lib knows `5; url=x` only; the standard a comma, a space, no name and odd numbers too",
        lambda content, ours, theirs: (
            theirs is None and not re.match(r"\s*(?:\d*\.)?\d+\s*;\s*url=", content, re.IGNORECASE)
        ),
    ),
    Difference(
        "reload",
        "an empty address reloads the page, which is known",
        lambda content, ours, theirs: ours is None and theirs == PAGE,
    ),
    Difference(
        "quotes",
        "the standard takes what stands between quotes; w3lib ends at the first it meets",
        lambda content, ours, theirs: re.search(r"url=.*['\"]", content, re.IGNORECASE),
    ),
)


def test_meta_refresh_leads_where_w3lib_says_it_does() -> None:
    random = Random(2)
    with comparing(REFRESHES, at_least=3_000) as compare:
        for _ in range(3_000):
            written = made_pages.refresh(random)
            element = f'<meta http-equiv="refresh" content="{written}">'
            theirs = get_meta_refresh(element, PAGE)[1]
            content = html.unescape(written)
            assert Document(element).scan().metas[0].content == content
            compare(content, _fetched(refresh_target(content)), _fetched(theirs))


BASES: Final = (
    Difference(
        "not for documents",
        "data: and javascript: are no bases (HTML, 4.2.3)",
        lambda base, ours, theirs: ours == PAGE and theirs.startswith(("data:", "javascript:")),
    ),
)


def test_the_base_is_the_one_that_w3lib_finds() -> None:
    with comparing(BASES, at_least=10) as compare:
        for base in dict.fromkeys(made_pages.BASES):
            if "http://[" in base:
                assert base_of(PAGE, "http://[x") == PAGE
                continue
            text = f"<html><head>{base}</head><body><base href='/no/'></body></html>"
            theirs = get_base_url(text, PAGE)
            ours = base_of(PAGE, Document(text).scan().base)
            compare(base, ours, _fetched(theirs) or theirs)


_LINK_PARTS: Final = ("</a>", "<b>", "<http://c.example/?x=1;y=2>", "</d,e>", "< /f >", "<>")
_RELATIONS: Final = ('rel="next"', "rel=prev", 'rel="alternate canonical"', "REL=next",
                     'rel = "next"', "rel='next'", "x=y")  # fmt: skip
_PARAMS: Final = ('title="a,b"', 'title="a;b"', 'title="; rel=no"', "hreflang=de", 'title="<x>"',
                  "crossorigin")  # fmt: skip
LINK_HEADERS: Final = (
    Difference(
        "any case",
        "names of parameters have no case (RFC 8288, 3)",
        lambda value, ours, theirs: "REL" in value and len(ours) > len(theirs),
    ),
    Difference(
        "quoted",
        "what stands between quotes or angle brackets ends nothing",
        lambda value, ours, theirs: re.search(r"; rel=no|x=1;y=2|a;b", value),
    ),
    Difference(
        "without value",
        "a parameter without value ends nothing",
        lambda value, ours, theirs: "crossorigin" in value and len(ours) > len(theirs),
    ),
)


def _link_value(random: Random) -> str:
    params = [random.choice(_RELATIONS), *random.sample(_PARAMS, random.randint(0, 2))]
    random.shuffle(params)
    return random.choice(("; ", ";", " ; ")).join([random.choice(_LINK_PARTS), *params])


def test_link_headers_are_read_as_requests_reads_them() -> None:
    random = Random(3)
    with comparing(LINK_HEADERS, at_least=2_000) as compare:
        for _ in range(2_000):
            value = ", ".join(_link_value(random) for _ in range(random.randint(1, 3)))
            links = parse_header_links(value)
            theirs = [(link["url"].strip(), link["rel"]) for link in links if "rel" in link]
            compare(value, list(link_header(value)), theirs)


_IMAGES: Final = ("a.png", "/b,c.png", "http://c.example/d?x=1,2", "data:image/png;base64,AA==",
                  "e.png?(f)", "\u00e9.png", "g;h.png")  # fmt: skip
_DESCRIPTORS: Final = ("", " 1x", " 2.5x", " 100w", " 100w 50h", "  3x ", " type(a,b)", "\n4x")


@pytest.mark.parametrize("separator", [", ", " , ", ",\n\t", " ,,, "])
def test_a_srcset_has_the_images_it_was_made_of(separator: str) -> None:
    random = Random(4)
    for _ in range(500):
        images = random.choices(_IMAGES, k=random.randint(1, 4))
        value = separator.join(image + random.choice(_DESCRIPTORS) for image in images)
        assert srcset(random.choice(("", " ", ",")) + value) == images
