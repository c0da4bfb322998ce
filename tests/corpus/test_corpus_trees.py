"""Title, text and links of pages against the trees of html5lib and libxml2, in many encodings.

The peers get the same bytes and decide the encoding themselves.
"""

from __future__ import annotations

import re
import warnings
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import html5lib
import lxml.html
from html5lib.constants import DataLossWarning

from parsers.records.parse import Parsed
from schemas.url import CrawlUrl, parse
from tests.corpus.differences import Difference, comparing
from tests.corpus.pages import pages
from tests.unit.parsers.parsing import NOW_MS, crawl_parser, fetch_result, links

if TYPE_CHECKING:
    from collections.abc import Iterator

URL: Final = "http://docs.example/a/b.html"
_CODECS: Final = ("utf-8", "windows-1252", "koi8-r", "shift_jis", "utf-16", "gb18030", "euc-kr")
_DECLARED: Final = re.compile(r"<meta[^>]*charset[^>]*>", re.IGNORECASE)
_ROBOTS: Final = re.compile(r"<meta[^>]*\brobots\b[^>]*>", re.IGNORECASE)
"""Taken out: of a page that says noindex a record has neither title nor text."""
_HTML5LIB_CHARS: Final = 1_500_000
"""html5lib reads half a megabyte a second."""


class View(NamedTuple):
    """What a page shows, white space aside."""

    title: str
    text: str
    links: frozenset[str]


def _written() -> Iterator[bytes]:
    """Each page in one of the encodings, declared in one of the ways."""
    chance = Random(3)
    for page in pages():
        codec = chance.choice(_CODECS)
        bare = _ROBOTS.sub("", _DECLARED.sub("", page, count=1))
        head = f"<meta charset={codec}>" if codec != "utf-16" else ""
        try:
            body = bare.replace("<head>", f"<head>{head}", 1).encode(codec)
        except UnicodeEncodeError:
            body = b"\xef\xbb\xbf" + bare.encode()
        if "<head>" not in bare:
            body = b"\xef\xbb\xbf" + bare.encode()
        yield body


def _ours(body: bytes) -> View:
    parser = crawl_parser(max_links=1_000_000, scope="any")
    outcome = parser.parse(fetch_result(body, url=URL), body, NOW_MS)
    assert isinstance(outcome, Parsed), outcome
    record = outcome.record
    return View(_squeeze(record["title"]), _squeeze(record["text"]), frozenset(links(outcome)))


_RELS: Final = {"next", "prev", "alternate", "canonical"}
_SILENT: Final = {"script", "style", "title", "noframes", "noembed", "iframe", "template"}


def _view(tree: Any) -> View:
    """The same of a tree in lxml's form, by rules of its own."""
    title = next((one for one in tree.iter("title") if _name(one.getparent()) != "svg"), None)
    found = (parse(href, _base(tree)) for href in _hrefs(tree))
    return View(
        "" if title is None else _squeeze("".join(title.itertext())),
        _squeeze("".join(_texts(tree))),
        frozenset(one.href for one in found if isinstance(one, CrawlUrl)),
    )


def _hrefs(tree: Any) -> Iterator[str]:
    for one in tree.iter("a", "area"):
        if one.get("href") is not None:
            yield one.get("href")
    for one in tree.iter("iframe", "frame"):
        if one.get("src"):
            yield one.get("src")
    for one in tree.iter("link"):
        rels = set(one.get("rel", "").lower().split())
        if one.get("href") and _RELS & rels and "stylesheet" not in rels:
            yield one.get("href")
    for one in tree.iter("meta"):
        refresh = re.match(
            r"\s*[\d.]+\s*[;,]\s*url\s*=\s*['\"]?([^'\"]*)", one.get("content", ""), re.IGNORECASE
        )
        if one.get("http-equiv", "").lower() == "refresh" and refresh:
            yield refresh[1].strip()


def _base(tree: Any) -> str:
    for one in tree.iter("base"):
        if one.get("href") is not None:
            joined = parse(one.get("href"), URL)
            return joined.href if isinstance(joined, CrawlUrl) else URL
    return URL


def _texts(element: Any) -> Iterator[str]:
    if _name(element) not in _SILENT and isinstance(element.tag, str):
        yield element.text or ""
        for child in element:
            yield from _texts(child)
            yield child.tail or ""


def _name(element: Any) -> str:
    return "" if element is None else str(element.tag).rpartition("}")[2]


def _squeeze(text: str) -> str:
    return "".join(text.split())


@cache
def _documents() -> tuple[tuple[bytes, View], ...]:
    return tuple((body, _ours(body)) for body in _written())


def _by_html5lib(body: bytes) -> View:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataLossWarning)  # names that XML cannot have
        tree = html5lib.parse(body, treebuilder="lxml", namespaceHTMLElements=False)
    return _view(tree.getroot())


def test_pages_show_what_html5lib_shows() -> None:
    taken = Random(4).sample(_documents(), len(_documents()))
    size = 0
    with comparing(at_least=75) as compare:
        for body, ours in taken:
            size += len(body)
            if size > _HTML5LIB_CHARS:
                break
            theirs = _by_html5lib(body)
            for name, one, other in zip(View._fields, ours, theirs, strict=True):
                compare((name, body), *_apart(one, other))


LIBXML2: Final = (
    Difference(
        "yen",
        "iconv's SHIFT_JIS has a yen sign for 0x5C; the Encoding Standard's has the backslash",
        lambda _, ours, theirs: "\xa5" in theirs and theirs.replace("\xa5", "\\") == ours,
    ),
)


def test_pages_show_what_libxml2_shows() -> None:
    with comparing(LIBXML2, at_least=360) as compare:
        for body, ours in _documents():
            theirs = _view(lxml.html.document_fromstring(body, parser=lxml.html.HTMLParser()))
            for name, one, other in zip(View._fields, ours, theirs, strict=True):
                compare((name, body), *_apart(one, other))


def _apart(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """Two values cut down to where they differ, so that a failure can be read."""
    if isinstance(ours, frozenset):
        return sorted(ours - theirs), sorted(theirs - ours)
    at = next(
        (at for at, pair in enumerate(zip(ours, theirs, strict=False)) if len(set(pair)) > 1), None
    )
    if at is None:
        at = min(len(ours), len(theirs))
    return ours[max(0, at - 40) : at + 80], theirs[max(0, at - 40) : at + 80]
