"""Sitemaps against what they were made of, and against a reading with lxml."""

from __future__ import annotations

import gzip
import re
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from lxml import etree

from parsers.documents.sitemap import Entry, TextSitemap, XmlSitemap
from tests.corpus import made_sitemaps
from tests.corpus.differences import Difference, comparing
from tests.unit.parsers.parsing import NOW_MS, parsed, sent

if TYPE_CHECKING:
    from schemas.records import UrlBatch


def _links(batches: list[UrlBatch]) -> list[tuple[str, int | None]]:
    return sorted(
        (
            (link["url"], None if (at := link["lastmod_at"]) is None else at // 1000)
            for batch in batches
            for link in batch["links"]
        ),
        key=str,
    )


@pytest.mark.parametrize("packed", [False, True])
def test_entries_are_those_that_were_written(packed: bool) -> None:
    with comparing(at_least=500) as compare:
        for made in made_sitemaps.sitemaps(Random(1), 500):
            body = gzip.compress(made.body) if packed else made.body
            outcome = parsed(
                body,
                url=made_sitemaps.URL,
                content_type="application/gzip" if packed else "application/xml",
                via="sitemap",
                spec={"scope": "any"},
            )
            assert outcome.record["kind"] == "sitemap"
            wanted: dict[str, int | None] = {}
            for url, at in made.means:
                wanted.setdefault(url, at)
            compare(made.body, _links(outcome.batches), sorted(wanted.items(), key=str))


def _by_lxml(body: bytes) -> list[str]:
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True)
    root = etree.fromstring(body.lstrip(), parser)
    found = []
    for element in () if root is None else root.iter(etree.Element):
        parent = element.getparent()
        if _local(element) == "loc" and parent is not None and _local(parent) in ("url", "sitemap"):
            found.append("".join(element.xpath("text()")).strip())
    return [loc for loc in found if loc]


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].rpartition(":")[2].lower()


def _read(body: bytes, size: int) -> tuple[list[Entry], XmlSitemap]:
    reader = XmlSitemap(body[:4_096], "", NOW_MS)
    found = []
    for at in range(0, len(body), size):
        found += reader.feed(body[at : at + size])
    return found + reader.close(), reader


BROKEN: Final = (
    Difference(
        "stops",
        "after its first fatal error a document is over: what was read before is a beginning",
        lambda body, ours, theirs: ours == theirs[: len(ours)] and _read(body, 999)[1].error,
    ),
    Difference(
        "no character",
        "an entry with a reference to what XML has no character for is not known",
        lambda body, ours, theirs: (
            re.search(rb"&#(?:\d|1\d|2\d|3[01]);", body)
            and ours == [loc for loc in theirs if loc.isprintable()]
        ),
    ),
    Difference(
        "broken declaration",
        "lxml loses references after a declaration that is wrong; nothing of ours depends on it",
        lambda body, ours, theirs: (
            b"<?xml " in body
            and not re.search(
                rb"<\?xml version=\"1.0\"(?: encoding=\"(?:utf|iso)-[\d-]+\")?\?>", body
            )
        ),
    ),
    Difference(
        "repaired",
        "a lone ampersand, an entity of HTML or a sign of less in a text: lxml drops it, or what"
        " follows it",
        lambda body, ours, theirs: re.search(
            rb"&(?!(?:amp|lt|gt|quot|apos|#\d+);)|<[^\w/!?]", body
        ),
    ),
)


def test_broken_files_give_what_lxml_finds_before_the_break() -> None:
    random = Random(2)
    with comparing(BROKEN, at_least=700) as compare:
        for made in made_sitemaps.sitemaps(random, 1_000):
            body = made.body
            if not body or body[:2] in (b"\xff\xfe", b"\xfe\xff"):
                continue
            at = random.randrange(len(body))
            body = random.choice((body, body[:at], body[:at] + body[at + 1 :]))
            entries, _ = _read(body, random.choice((1, 7, 64, 10_000)))
            locs = [entry.loc for entry in entries]
            theirs = [loc for loc in _by_lxml(body) if "\ufffd" not in loc]
            compare(body, locs, theirs)


def test_fifty_thousand_and_one_entries() -> None:
    body = b"".join(b"<url><loc>/%d</loc></url>" % at for at in range(50_001))
    outcome = parsed(b"<urlset>" + body + b"</urlset>", content_type="text/xml")
    assert len(sent(outcome)) == 50_000
    assert outcome.counts["rejected.too_many_links"] == 1
    assert outcome.record["issues"] == ["links_capped"]


def test_text_sitemaps_are_their_lines() -> None:
    random = Random(3)
    lines = {
        "https://a.example/1": "https://a.example/1",
        "  https://a.example/2  ": "https://a.example/2",
        "HTTP://a.example/3": "HTTP://a.example/3",
        "https://a.example/caf\u00e9": "https://a.example/caf\u00e9",
        "": None,
        "# note": None,
        "/relative": None,
        "ftp://a.example/4": None,
    }
    with comparing(at_least=500) as compare:
        for _ in range(500):
            chosen = random.choices(tuple(lines), k=random.randint(0, 6))
            body = (
                random.choice(("\n", "\r\n", "\r"))
                .join(chosen)
                .encode(random.choice(("utf-8", "utf-8", "utf-8-sig")))
            )
            reader = TextSitemap(body[:4_096], "")
            size = random.choice((1, 3, 1_000))
            found = [
                one for at in range(0, len(body), size) for one in reader.feed(body[at : at + size])
            ]
            found += reader.close()
            wanted = [lines[line] for line in chosen if lines[line]]
            compare(body, [entry.loc for entry in found], wanted)
