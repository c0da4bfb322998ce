from __future__ import annotations

from parsers.documents.feed import Feed
from tests.unit.parsers.parsing import parsed, sent

RSS = b"""<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:dc="d" xmlns:media="m" xmlns:content="c"><channel>
<title>The &lt;b&gt;feed&lt;/b&gt;</title><link>https://a.example/</link>
<description>About</description><language>en-gb</language>
<image><title>no</title><link>https://a.example/no</link></image>
<item><title>One &amp; two</title><link>/1?a=1&b=2</link>
<guid isPermaLink="false">g-1</guid><pubDate>Wed, 02 Oct 2002 13:00:00 GMT</pubDate>
<description><![CDATA[<p>Some <a href="/x">text</a> &amp; more</p>]]></description></item>
<item><title>Two</title><guid>https://a.example/2</guid><dc:date>2003-01-01</dc:date></item>
<item><title>Three</title><guid isPermaLink="false">https://a.example/3</guid></item>
</channel></rss>"""

ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://a.example/b/" xml:lang="de">
<title type="text">F</title><subtitle>S</subtitle><link rel="self" href="/self"/>
<link href="/home"/>
<entry><title type="html">A &lt;i&gt;b&lt;/i&gt;</title><link rel="edit" href="e"/>
<link href="1"/><id>tag:1</id><published>2020-01-01T00:00:00Z</published>
<updated>2020-01-02T00:00:00Z</updated>
<content type="xhtml"><div xmlns="x">In <b>bold</b></div></content></entry>
</feed>"""

RDF = b"""<rdf:RDF xmlns:rdf="r" xmlns="s"><channel><title>R</title></channel>
<item rdf:about="https://a.example/9"><title>N</title></item></rdf:RDF>"""


def test_rss() -> None:
    outcome = parsed(RSS, url="https://a.example/feed", content_type="application/rss+xml")
    record = outcome.record
    assert (record["kind"], record["title"], record["description"], record["language"]) == (
        "feed",
        "The feed",
        "About",
        "en-gb",
    )
    assert sent(outcome, "feed") == ["https://a.example/1?a=1&b=2", "https://a.example/2"]
    one, two, three = record["entries"]
    assert one == {
        "url": "https://a.example/1?a=1&b=2",
        "title": "One & two",
        "published_at": 1_033_563_600_000,
        "summary": "Some text & more",
        "guid": "g-1",
    }
    assert two["url"] == "https://a.example/2"
    assert two["published_at"] == 1_041_379_200_000
    assert three["url"] == ""
    assert [link["lastmod_at"] for link in outcome.batches[0]["links"]] == [
        1_033_563_600_000,
        1_041_379_200_000,
    ]
    assert outcome.batches[0]["depth"] == 1


def test_atom() -> None:
    outcome = parsed(ATOM, url="https://a.example/feed", content_type="text/xml")
    record = outcome.record
    assert (record["title"], record["description"], record["language"]) == ("F", "S", "de")
    assert sent(outcome) == ["https://a.example/b/1"]
    (entry,) = record["entries"]
    assert (entry["title"], entry["summary"], entry["guid"]) == ("A b", "In bold", "tag:1")
    assert entry["published_at"] == 1_577_836_800_000
    assert outcome.batches[0]["links"][0]["lastmod_at"] == 1_577_923_200_000


def test_rdf() -> None:
    outcome = parsed(RDF, url="https://a.example/feed", content_type="application/rdf+xml")
    assert outcome.record["title"] == "R"
    assert sent(outcome) == ["https://a.example/9"]


def test_a_broken_feed_keeps_what_came_before() -> None:
    outcome = parsed(RSS.partition(b"<item><title>Two")[0] + b"<item><title>T</wrong>",
                     url="https://a.example/feed", content_type="text/xml")  # fmt: skip
    assert [entry["guid"] for entry in outcome.record["entries"]] == ["g-1"]
    assert outcome.record["truncated"]
    assert outcome.record["issues"] == ["xml_broken"]


def test_the_record_holds_a_bounded_number_of_entries_and_all_links_go_out() -> None:
    items = b"".join(b"<item><link>/%d</link></item>" % at for at in range(700))
    outcome = parsed(b"<rss><channel>" + items + b"</channel></rss>", content_type="text/xml")
    assert len(outcome.record["entries"]) == 500
    assert len(sent(outcome)) == 700
    assert "entries_capped" in outcome.record["issues"]


def test_nofollow_holds_for_feeds() -> None:
    outcome = parsed(RSS, content_type="text/xml", headers=[("x-robots-tag", "nofollow")])
    assert sent(outcome) == []
    assert outcome.counts["rejected.nofollow"] == 2


def test_extensions_do_not_stand_for_the_items_own_words() -> None:
    outcome = parsed(
        b"<rss xmlns:media='m' xmlns:itunes='i'><channel><item><media:title>no</media:title>"
        b"<itunes:summary>no</itunes:summary><media:content url='/x'><media:title>no</media:title>"
        b"</media:content><title>T</title><description>D</description></item></channel></rss>",
        content_type="text/xml",
    )
    (entry,) = outcome.record["entries"]
    assert (entry["title"], entry["summary"]) == ("T", "D")


def test_a_video_feed_is_described_by_its_media() -> None:
    outcome = parsed(
        b"<feed xmlns='http://www.w3.org/2005/Atom' xmlns:media='m'><entry><title>T</title>"
        b"<media:group><media:title>M</media:title><media:content url='/v'/>"
        b"<media:description>D</media:description></media:group></entry></feed>",
        content_type="text/xml",
    )
    (entry,) = outcome.record["entries"]
    assert (entry["title"], entry["summary"]) == ("T", "D")


def test_links_are_relative_to_the_bases_around_them() -> None:
    outcome = parsed(
        b"<feed xml:base='/f/'><entry xml:base='e/'><link href='1'/></entry>"
        b"<entry><link xml:base='http://b.example/l/' href='2'/></entry>"
        b"<entry><link href='3'/></entry></feed>",
        url="https://a.example/feed",
        content_type="text/xml",
    )
    assert [entry["url"] for entry in outcome.record["entries"]] == [
        "https://a.example/f/e/1",
        "http://b.example/l/2",
        "https://a.example/f/3",
    ]


def test_of_several_links_the_page_itself_counts() -> None:
    outcome = parsed(
        b"<feed><entry><source><link href='/source'/></source>"
        b"<link type='application/json' href='/j'/><link rel='enclosure' href='/e'/>"
        b"<link rel='http://www.iana.org/assignments/relation/alternate' href='/page'/></entry>"
        b"</feed>",
        url="https://a.example/feed",
        content_type="text/xml",
    )
    assert sent(outcome) == ["https://a.example/page"]


def test_the_first_date_that_can_be_read_counts() -> None:
    outcome = parsed(
        b"<feed><entry><published>soon</published><updated>2020-01-02T00:00:00Z</updated></entry>"
        b"</feed>",
        content_type="text/xml",
    )
    assert outcome.record["entries"][0]["published_at"] == 1_577_923_200_000


def test_signs_of_less_in_text_do_not_end_the_feed() -> None:
    body = b"<rss><channel><item><title>1 < 2 <3 & <b>x</b> <</title><link>/1</link></item>"
    body += b"<item><link>/2</link></item></channel></rss>"
    for size in (1, 2, 3, len(body)):
        reader = Feed(body, "", 0)
        items = []
        for at in range(0, len(body), size):
            items += reader.feed(body[at : at + size])
        items += reader.close()
        assert not reader.error
        assert [(item.title, item.link) for item in items] == [("1 < 2 <3 & x <", "/1"), ("", "/2")]
