"""Feeds against feedparser."""

from __future__ import annotations

import calendar
import re
import warnings
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

import feedparser
import html5lib

from schemas.url import CrawlUrl, parse
from tests.corpus import made_feeds
from tests.corpus.differences import Difference, comparing
from tests.unit.parsers.parsing import parsed

_ITEM = re.compile(r"<((?:[\w-]+:)?(?:item|entry))[ >].*?</\1>", re.DOTALL)
_DATES = re.compile(
    r"<(?:[\w-]+:)?((?:pubD|d)ate|issued|created|modified|updated|published)>([^<]*)<"
)


class Pair(NamedTuple):
    """One entry as written, as in our record, and as feedparser has it."""

    text: str
    ours: dict[str, Any]
    theirs: Any


@cache
def _documents() -> tuple[tuple[str, dict[str, Any], Any], ...]:
    found = []
    for made in made_feeds.feeds(Random(1), 1_500):
        headers = {"content-location": made_feeds.URL, "content-type": "application/xml"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = feedparser.parse(made.body, response_headers=headers)
        record = parsed(made.body, url=made_feeds.URL, content_type="application/xml").record
        assert record["issues"] == [], made
        wide = made.body.startswith((b"\xff\xfe", b"\xfe\xff"))
        text = made.body.decode("utf-16" if wide else "utf-8", "replace")
        found.append((text, dict(record), theirs))
    return tuple(found)


@cache
def _pairs() -> tuple[Pair, ...]:
    return tuple(
        Pair(item[0], ours, theirs)
        for text, record, feed in _documents()
        for item, ours, theirs in zip(
            _ITEM.finditer(text), record["entries"], feed.entries, strict=True
        )
    )


def _plain(markup: str) -> str:
    """The words of markup, by another parser than ours."""
    words: list[str] = []

    def walk(element: Any) -> None:
        if element.tag not in ("script", "style"):
            words.append(" " if element.tag in ("p", "div", "br") else "")
            words.append(element.text or "")
            for child in element:
                walk(child)
                words.append(child.tail or "")
            words.append(" " if element.tag in ("p", "div") else "")

    walk(html5lib.parseFragment(markup, namespaceHTMLElements=False))
    return " ".join("".join(words).split())


def _web(link: str) -> str:
    """What a crawl makes of a link of feedparser's."""
    url = parse(link) if link else None
    return url.href if isinstance(url, CrawlUrl) else ""


TITLES: Final = (
    Difference(
        "R&D",
        "feedparser's loose reader, for feeds that are no XML, takes `&D` for a reference",
        lambda given, ours, theirs: ours == "R&D" and theirs == "R&D;",
    ),
    Difference(
        "extension's",
        "a title of an extension, the first, names what has no title of its own",
        lambda text, ours, theirs: (
            ours in ("MT", "MG", "M", "IT") and re.search(r"<title>[^<]", text) is None
        ),
    ),
    Difference(
        "extension's before its own",
        "the item's own title counts before an extension's wherever they stand",
        lambda text, ours, theirs: theirs in ("MT", "MG", "M") and "<title>" in text and ours,
    ),
)


def test_feeds_have_the_same_titles_and_as_many_entries() -> None:
    with comparing(TITLES[:1], at_least=1_500) as compare:
        for text, record, feed in _documents():
            compare(text, record["title"], _plain(feed.feed.get("title", "")))
            assert len(record["entries"]) == len(feed.entries)


LANGUAGES: Final = (
    Difference(
        "odd prefix",
        "feedparser's loose reader, for feeds that are no XML, does not know the root by it",
        lambda text, ours, theirs: theirs == "" and 'xml:lang="en"' in text and ours == "en",
    ),
)


def test_feeds_have_the_same_language() -> None:
    with comparing(LANGUAGES, at_least=1_500) as compare:
        for text, record, feed in _documents():
            compare(text, record["language"], feed.feed.get("language", ""))


def _without_source(text: str) -> str:
    return re.sub(r"<(\S*source)>.*?</\1>", "", text, flags=re.DOTALL)


def _alternates(text: str) -> list[str]:
    """The link elements of an entry that lead to the page itself."""
    links = re.findall(r"<\S*link(?:\s[^>]*)?/>", _without_source(text))
    return [one for one in links if re.search(r'rel="(?:\S*/)?alternate"', one, re.IGNORECASE)
            or "rel=" not in one]  # fmt: skip


LINKS: Final = (
    Difference(
        "first of several",
        "the first link that leads to the page counts; feedparser takes the last",
        lambda text, ours, theirs: (
            ours and len(_alternates(text)) + ("<link>" in text) + ("rdf:about" in text) > 1
        ),
    ),
    Difference(
        "other types",
        "an alternate of another type is better than none; feedparser takes the id or nothing",
        lambda text, ours, theirs: (
            ours and len(_alternates(text)) == 1 and "application/json" in _alternates(text)[0]
        ),
    ),
    Difference(
        "registered name",
        "RFC 4287, 4.2.7.2: the address of a relation in IANA's registry is its name",
        lambda text, ours, theirs: ours and "/relation/alternate" in "".join(_alternates(text)),
    ),
    Difference(
        "about",
        "RSS 1.0's identifier of an item without link is its address",
        lambda text, ours, theirs: ours == "https://a.example/about/1" and "<link" not in text,
    ),
    Difference(
        "identifiers",
        "an Atom id and a relative guid identify, and need lead nowhere",
        lambda text, ours, theirs: (
            not ours
            and not _alternates(text)
            and re.search(r"id[^>]*>(?:https://a.example/id|/guid|g-1| x )<", text)
        ),
    ),
    Difference(
        "empty",
        "an alternate without address is none; feedparser takes the feed itself",
        lambda text, ours, theirs: not ours and 'href=""' in "".join(_alternates(text)),
    ),
    Difference(
        "empty link",
        "a permanent guid stands in for an empty link too",
        lambda text, ours, theirs: ours == "https://a.example/guid" and "<link></link>" in text,
    ),
)


def test_entries_lead_to_the_same_page() -> None:
    with comparing(LINKS, at_least=2_500) as compare:
        for text, ours, theirs in _pairs():
            compare(text, ours["url"], _web(theirs.get("link", "")))


def test_entries_have_the_same_title() -> None:
    with comparing(TITLES, at_least=2_500) as compare:
        for text, ours, theirs in _pairs():
            compare(text, ours["title"], _plain(theirs.get("title", "")))


GUIDS: Final = (
    Difference(
        "resolved",
        "an identifier is kept as it is written; feedparser resolves what may be a link",
        lambda text, ours, theirs: theirs.endswith(f"/{ours.removeprefix('/')}"),
    ),
)


def test_entries_have_the_same_identifier() -> None:
    with comparing(GUIDS, at_least=2_500) as compare:
        for text, ours, theirs in _pairs():
            compare(text, ours["guid"], theirs.get("id", ""))


SUMMARIES: Final = (
    Difference(
        "of the content",
        "an empty description says as little as none: the content says it",
        lambda text, ours, theirs: not theirs and "<description></description>" in text and ours,
    ),
    Difference(
        "own before the extension's",
        "the item's own text counts before an extension's wherever they stand",
        lambda text, ours, theirs: theirs in ("MD", "MDD", "IS") and ours,
    ),
)


def test_entries_have_the_same_summary() -> None:
    with comparing(SUMMARIES, at_least=2_500) as compare:
        for text, ours, theirs in _pairs():
            compare(text, ours["summary"], _plain(theirs.get("summary", "")))


_ORDER: Final = ("pubDate", "published", "date", "issued", "created", "updated", "modified")


def _written(text: str) -> dict[str, str]:
    return dict(_DATES.findall(_without_source(text)))


def _meant(text: str) -> int | None:
    written = _written(text)
    dates = [made_feeds.DATES[written[name]] for name in _ORDER if name in written]
    return next((date for date in dates if date is not None), None)


DATES: Final = (
    Difference(
        "read by us alone",
        "a date in a spelling that feedparser reads as another or not at all",
        lambda text, ours, theirs: ours == _meant(text),
    ),
)


def _seconds(date: Any) -> int | None:
    return None if date is None or date[0] < 1990 else calendar.timegm(date)


def test_entries_have_the_same_date() -> None:
    with comparing(DATES, at_least=2_500) as compare:
        for text, ours, theirs in _pairs():
            names = ("published_parsed", "updated_parsed", "created_parsed")
            dates = (_seconds(dict.get(theirs, name)) for name in names)
            at = ours["published_at"]
            compare(
                text,
                None if at is None else at // 1000,
                next((date for date in dates if date), None),
            )
