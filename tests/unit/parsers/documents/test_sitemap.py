from __future__ import annotations

import gzip
import time
from typing import Any

import pytest

from tests.cases import case
from tests.unit.parsers.parsing import links, parsed, sent

URL = "https://a.example/s/sitemap.xml"


def _urls(body: bytes, **changes: Any) -> list[str]:
    given: dict[str, Any] = {"url": URL, "content_type": "application/xml", "via": "sitemap"}
    given |= changes
    return sent(parsed(body, **given))


@pytest.mark.parametrize("case_id", ["smp-01", "smp-03", "smp-06"])
def test_cases(case_id: str) -> None:
    given = case(case_id)["input"]
    assert (
        _urls(given["sitemap_xml"].encode(), url=given["sitemap_url"]) == case(case_id)["expected"]
    )


def test_broken_entries_do_not_become_wrong_urls() -> None:
    given, wanted = case("smp-04")["input"], case("smp-04")["expected"]
    urls = _urls(given["sitemap_xml"].encode(), url=given["sitemap_url"])
    assert set(wanted["must_contain"]) <= set(urls)
    assert not set(wanted["must_not_contain"]) & set(urls)
    assert "https://a.example/x?a=1&b=2" in urls
    assert "https://a.example/caf%C3%A9" in urls


def test_entities_are_off() -> None:
    given = case("smp-07")["input"]
    outcome = parsed(given["sitemap_xml"].encode(), url=URL, content_type="text/xml")
    assert sent(outcome) == []
    assert outcome.counts["rejected.malformed_link"] == 2
    assert "sitemap_entries_dropped" in outcome.record["issues"]


def test_expansion_bombs_cost_nothing() -> None:
    levels = "".join(
        f'<!ENTITY e{at} "{f"&e{at - 1};" * 10 if at else "a" * 10}">' for at in range(12)
    )
    body = f"<!DOCTYPE z [{levels}]><urlset><url><loc>https://a.example/&e11;</loc></url>"
    body += "<url><loc>https://a.example/ok</loc></url></urlset>"
    begun = time.process_time()
    assert _urls(body.encode()) == ["https://a.example/ok"]
    assert time.process_time() - begun < 0.5


def test_lastmod_is_carried_when_it_is_sane() -> None:
    body = b"""<urlset>
    <url><loc>/1</loc><lastmod>2023-01-02</lastmod></url>
    <url><loc>/2</loc><lastmod>2999-01-01</lastmod></url>
    <url><lastmod>2023-01-02T03:04:05+02:00</lastmod><loc>/3</loc></url>
    <url><loc>/4</loc></url></urlset>"""
    outcome = parsed(body, url=URL, content_type="text/xml")
    assert [link["lastmod_at"] for link in outcome.batches[0]["links"]] == [
        1_672_617_600_000,
        None,
        1_672_621_445_000,
        None,
    ]


def test_depths_of_sitemaps_and_pages() -> None:
    index = b"<sitemapindex><sitemap><loc>/1.xml</loc></sitemap></sitemapindex>"
    outcome = parsed(index, url=URL, content_type="text/xml", depth=0, spec={"include": ["/blog/"]})
    assert [(b["via"], b["depth"]) for b in outcome.batches] == [("sitemap", 0)]
    pages = b"<urlset><url><loc>/blog/1</loc></url><url><loc>/x</loc></url></urlset>"
    outcome = parsed(pages, url=URL, content_type="text/xml", depth=0, spec={"include": ["/blog/"]})
    assert [(b["via"], b["depth"]) for b in outcome.batches] == [("sitemap", 1)]
    assert sent(outcome) == ["https://a.example/blog/1"]
    assert outcome.counts["rejected.excluded"] == 1


@pytest.mark.parametrize(
    "body",
    [
        b"<x:urlset xmlns:x='s'><x:url><x:loc>/1</x:loc></x:url></x:urlset>",
        (
            b"<urlset xmlns:image='i'><url><loc>/1</loc><image:image><image:loc>/i.png"
            b"</image:loc></image:image></url></urlset>"
        ),
        b"<urlset><url><loc><![CDATA[/1]]></loc></url></urlset>",
        b"<URLSET><URL><LOC> \n/1\t</LOC></URL></URLSET>",
        (
            "\ufeff<?xml version='1.0' encoding='utf-8'?><urlset><url><loc>/1</loc></url></urlset>"
        ).encode("utf-16"),
        b"<?xml version='1.0' encoding='koi8-r'?><urlset><url><loc>/1</loc></url></urlset>",
        b"<?xml version='1.0' encoding='shift_jis'?><urlset><url><loc>/1</loc></url></urlset>",
        b"<?xml-stylesheet href='x'?><!-- c --><urlset><url><loc>/1</loc></url></urlset>",
        b"<urlset><url><loc>/1</loc></url>\x00\x0b</urlset>",
    ],
    ids=range(9),
)
def test_forms_of_one_sitemap(body: bytes) -> None:
    assert _urls(body) == ["https://a.example/1"]


def test_a_truncated_file_gives_only_whole_entries() -> None:
    body = b"<urlset><url><loc>https://a.example/1</loc></url><url><loc>https://a.example/par"
    outcome = parsed(body, url=URL, content_type="text/xml")
    assert sent(outcome) == ["https://a.example/1"]
    assert outcome.record["truncated"]
    assert "xml_broken" in outcome.record["issues"]


def test_text_sitemaps() -> None:
    body = (
        b"\xef\xbb\xbfhttps://a.example/1\r\nnothing\n\nHTTPS://a.example/2\nhttps://a.example/la"
    )
    given: dict[str, Any] = {
        "url": "https://a.example/sitemap.txt",
        "content_type": "text/plain",
        "via": "sitemap",
    }
    outcome = parsed(body, **given)
    assert sent(outcome) == [f"https://a.example/{name}" for name in ("1", "2", "la")]
    assert outcome.record["kind"] == "sitemap"
    cut = parsed(body, truncated=True, **given)
    assert sent(cut) == ["https://a.example/1", "https://a.example/2"]


def test_lines_of_text_sitemaps_end_in_any_way() -> None:
    body = b"\xef\xbb\xbf https://a.example/1\rhttps://a.example/2\r\nhttps://a.example/3"
    outcome = parsed(
        body, url="https://a.example/sitemap.txt", content_type="text/plain", via="sitemap"
    )
    assert sent(outcome) == [f"https://a.example/{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize("media_type", ["application/gzip", "application/octet-stream", "text/xml"])
def test_gzip(media_type: str) -> None:
    body = b"<urlset><url><loc>/1</loc></url></urlset>"
    assert _urls(gzip.compress(body), content_type=media_type) == ["https://a.example/1"]
    members = gzip.compress(body[:20]) + gzip.compress(body[20:]) + b"\x00" * 10
    assert _urls(members, content_type=media_type) == ["https://a.example/1"]


def test_cut_gzip_gives_no_cut_url() -> None:
    lines = b"".join(b"https://a.example/%d\n" % at for at in range(3_000))
    packed = gzip.compress(lines)[:-600]
    outcome = parsed(packed, url=URL, content_type="application/gzip", via="sitemap")
    urls = sent(outcome)
    assert 500 < len(urls) < 3_000
    assert urls[-1] == f"https://a.example/{len(urls) - 1}"
    assert "sitemap_cut" in outcome.record["issues"]


def test_gzip_of_something_else_is_not_read() -> None:
    outcome = parsed(gzip.compress(b"<a href=/x>"), content_type="application/gzip")
    assert outcome.record["kind"] == "other"
    assert outcome.batches == []


def test_pieces_of_any_size_give_the_same() -> None:
    from parsers.documents.sitemap import XmlSitemap

    body = (
        "<?xml version='1.0'?><!DOCTYPE urlset [<!ENTITY x 'y'>]><urlset>"
        "<url><loc>https://a.example/ä?a=1&b=2&amp;c=&eacute;&#38;d</loc></url>"
        "<url><loc><![CDATA[https://a.example/<&]]]]><![CDATA[>x]]></loc></url>"
        "<url><loc>https://a.example/&x;</loc></url><url><loc>/ü</loc></url></urlset>"
    ).encode()
    whole = XmlSitemap(body, "", 0)
    wanted = whole.feed(body) + whole.close()
    assert [entry.loc for entry in wanted] == [
        "https://a.example/ä?a=1&b=2&c=é&d",
        "https://a.example/<&]]>x",
        "/ü",
    ]
    for size in (1, 2, 3, 7, 16, 61):
        reader = XmlSitemap(body, "", 0)
        found = []
        for at in range(0, len(body), size):
            found += reader.feed(body[at : at + size])
        assert found + reader.close() == wanted
        assert reader.dropped == 1
        assert not reader.error


def test_a_large_sitemap_is_not_held_to_the_cap_of_pages() -> None:
    body = b"".join(b"<url><loc>/%d</loc></url>" % at for at in range(6_000))
    outcome = parsed(b"<urlset>" + body + b"</urlset>", url=URL, content_type="text/xml")
    assert len(sent(outcome)) == 6_000
    assert len(outcome.batches) == 12
    assert links(outcome) == []
