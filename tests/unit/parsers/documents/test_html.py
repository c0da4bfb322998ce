from __future__ import annotations

import time

import pytest

from parsers.documents import guard
from parsers.documents.html import Document
from parsers.documents.kind import classify
from parsers.documents.page import Heading
from schemas.reasons import Reason
from tests.cases import case, given
from tests.unit.parsers.parsing import PAGE, failure, links, parsed, sent


def _text(markup: str) -> str:
    return Document(markup).scan().text


def test_a_nul_byte_does_not_end_a_page() -> None:
    body = case("htm-01")["input"]["body_latin1"].encode("latin-1")
    outcome = parsed(body)
    assert links(outcome) == ["http://a.example/yes"]
    assert "hello" in outcome.record["text"]


def test_a_frameset_page_has_links_and_no_body() -> None:
    outcome = parsed(case("htm-06")["input"]["body"].encode())
    assert links(outcome) == ["http://a.example/f1", "http://a.example/f2"]
    assert outcome.record["text"] == ""


_PATHOLOGICAL = {
    "htm-03": b"<div>" * 40_000 + b"<a href=/deep>x</a>",
    "htm-03-closed": b"<div>" * 40_000 + b"</div>" * 40_000,
    "htm-03-mixed": b"<b><i>" * 20_000,
    "htm-03-late": b"<p>x</p>" * 20_000 + b"<span>" * 20_000,
    "htm-04": b"<a " + b" ".join(b"a%d=1" % at for at in range(50_000)) + b">",
    "htm-04-slashes": b"<a " + b"/".join(b"a%d" % at for at in range(50_000)) + b">",
    "htm-04-open": b"<a " + b" ".join(b"a%d" % at for at in range(50_000)),
}


@pytest.mark.parametrize("name", sorted(_PATHOLOGICAL))
def test_quadratic_shapes_are_refused_at_once(name: str) -> None:
    begun = time.process_time()
    assert failure(_PATHOLOGICAL[name]).reason is Reason.PARSE_LIMIT
    assert time.process_time() - begun < case("htm-03")["expected"]["time_limit_s"]


@pytest.mark.parametrize(
    "body",
    [
        b"<div><p>x</p></div>" * 30_000,
        b"<p>x" * 30_000,
        b"<br>" * 30_000,
        b"<li>x" * 30_000,
        b"<script>" + b"if(a<b && c<d )" * 5_000 + b"</script>",
        b"<!--" + b"<div>" * 10_000 + b"-->",
        b'<div data-json="' + b"{a b c} " * 20_000 + b'">',
        b"<textarea>" + b"<div>" * 10_000 + b"</textarea>",
        b"<img src='data:image/png;base64," + b"A" * 100_000 + b"'>",
        b"<div>" * 4_000,
        b"x" * 100_000,
        b"a < b " * 20_000,
    ],
    ids=range(12),
)
def test_ordinary_large_pages_are_not_refused(body: bytes) -> None:
    assert guard.refuse(body) is None


def test_a_missing_quote_gives_no_link() -> None:
    body = b'<a href="/1>x</a>' + b"t " * 2_500 + b'<a href="/2">y</a>'
    outcome = parsed(body, url=case("htm-07")["input"]["base"])
    assert links(outcome) == []
    assert outcome.counts["rejected.malformed_link"] == 1


@pytest.mark.parametrize(("media_type", "start", "wanted"), given("htm-09"))
def test_bodies_are_what_they_are(media_type: str, start: str, wanted: str) -> None:
    head = start.encode().decode("unicode_escape").encode("latin-1")
    found = classify(head, "" if media_type == "(none)" else media_type)
    assert (found == "html") == wanted.startswith("html")


@pytest.mark.parametrize(
    ("head", "media_type", "via", "wanted"),
    [
        (b"", "text/html", "", "other"),
        (b"hello", "text/html", "", "html"),
        (b"\xef\xbb\xbf  <!DOCTYPE HTML>", "", "", "html"),
        (b"\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00", "", "", "html"),
        (b"<rss version='2.0'>", "text/html", "", "feed"),
        (b"<?xml version='1.0'?><!-- x --><feed xmlns='x'>", "application/xml", "", "feed"),
        (b"<rdf:RDF xmlns:rdf='x'>", "text/xml", "", "feed"),
        (b"<?xml version='1.0'?>\n<s:urlset>", "text/xml", "", "sitemap"),
        (b"<!DOCTYPE urlset [<!ENTITY a '>'>]><urlset>", "text/plain", "", "sitemap"),
        (b"<?xml version='1.0'?><html>", "application/xhtml+xml", "", "html"),
        (b"<?xml version='1.0'?><data>", "application/xml", "", "text"),
        (b"<svg>", "image/svg+xml", "", "other"),
        (b"http://a.example/1\n", "text/plain", "sitemap", "sitemap"),
        (b"http://a.example/1\n", "text/plain", "link", "text"),
        (b"\x00\x01\x02", "text/plain", "", "other"),
        (b'{"a": 1}', "application/json", "", "text"),
        (b'{"a": 1}', "application/problem+json", "", "text"),
        (b"<!doctype html>", "text/plain", "", "text"),
        (b"%PDF-1.7", "application/pdf", "", "other"),
        (b"<p>x", "application/octet-stream", "", "html"),
        (b"plain", "application/octet-stream", "", "other"),
        (b"<!DOCTYPE " + b'"a" ' * 900, "text/plain", "", "text"),
    ],
)
def test_kinds(head: bytes, media_type: str, via: str, wanted: str) -> None:
    assert classify(head, media_type, via=via) == wanted


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>a<b>b</b> c</p>d", "ab c\nd"),
        ("<div>a<div>b</div>c</div>", "a\nb\nc"),
        ("a<br>b<hr>c", "a\nb\nc"),
        ("<ul><li>a<li>b <i> c </i></ul>", "a\nb c"),
        ("<table><tr><td>a<td>b</table>", "a\nb"),
        ("<pre>\n a\n  b\n</pre>c", " a\n  b\nc"),
        ("<script>x</script>a<style>y</style><noscript>n</noscript>", "an"),
        ("<head><title>t</title></head>a", "a"),
        ("<svg><title>t</title><text>s</text></svg>", "s"),
        ("<template>t</template>a<iframe>i</iframe>", "a"),
        ("<script src=x></script>a", "a"),
        ("<p>a\n  b\u00a0c</p>", "a b c"),
        ("<h1>H</h1><p>a", "H\na"),
        ("", ""),
        ("<span>a</span> <span>b</span>", "a b"),
        ("a<div></div>b", "a\nb"),
        ("<p> <b> </b>a</p>", "a"),
        ("<pre>  <b>x</b>\n<i> </i>y</pre>", "  x\n y"),
        ("<pre>a<div> b  c </div> d</pre>", "a\nb c\n d"),
        ("<p>a<style>s</style>b<object>o</object></p>", "abo"),
    ],
)
def test_visible_text(markup: str, text: str) -> None:
    assert _text(markup) == text


def test_text_is_cut_at_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parsers.documents.scan.MAX_TEXT_CHARS", 5)
    page = Document("<p>abcde<p>fgh<p>ijk").scan()
    assert (page.text, page.text_capped) == ("abcde", True)
    page = Document("<p>abcd<p>fgh<p>ijk").scan()
    assert (page.text, page.text_capped) == ("abcd", True)
    page = Document("<p>abcde<p> <p>").scan()
    assert (page.text, page.text_capped) == ("abcde", False)


@pytest.mark.parametrize(
    ("markup", "anchors"),
    [
        ("<a href=1> a <b>b</b></a>", ["a b"]),
        ("<a href=1><h3>a</h3><p>b</p></a>", ["a b"]),
        ("<a href=1>a<script>s</script>b<style>t</style></a>", ["ab"]),
        (
            "<a href=1><img alt='an image'></a><a href=2 title=t></a><a href=3></a>",
            ["an image", "t", ""],
        ),
        ("<a href=1>a<table><tr><td><a href=2>b</a></table></a>", ["a b", "b"]),
        ("x<a>no link <a href=1>a</a>", ["a"]),
        ("<div><a href=1>a</div>b</a>", ["a", "b"]),
    ],
)
def test_anchor_texts(markup: str, anchors: list[str]) -> None:
    assert [link[3] for link in Document(markup).scan().links] == anchors


@pytest.mark.parametrize(
    ("markup", "hrefs", "text"),
    [
        ("<svg><link><a href=/x>t</a></link></svg>", ["/x"], "t"),
        ("<svg><base><a href=/x>t</a></svg>", ["/x"], "t"),
        ("<svg><area><text>t</text></area></svg>", [], "t"),
        ("<svg><title>q<a href=/x>t</a></title></svg>", ["/x"], "t"),
        ("<svg><style>q<a href=/x>t</a></style></svg>", ["/x"], "t"),
    ],
)
def test_elements_that_are_empty_in_html_may_have_content_in_svg(
    markup: str, hrefs: list[str], text: str
) -> None:
    page = Document(markup).scan()
    assert [link[1] for link in page.links] == hrefs
    assert page.text == text


def test_a_record_without_outlinks_and_simhash() -> None:
    body = b"<p>one two three four <a href=/1>five</a><img src=/i.png>"
    whole = parsed(body).record
    assert whole["simhash"] != 0
    assert [link["anchor"] for link in whole["outlinks"]] == ["five"]
    lean = parsed(body, spec={"store_outlinks": False, "simhash": False})
    assert sent(lean) == ["http://a.example/1"]
    assert (lean.record["simhash"], lean.record["outlinks"], lean.record["assets"]) == (0, [], [])
    assert lean.record["text"] == whole["text"]
    assert lean.record["config_hash"] != whole["config_hash"]


def test_headings_have_their_own_text() -> None:
    page = Document("<h1>a <a href=1>b</a><br>c</h1>d<h2><div>e</div></h2><h3> </h3>").scan()
    assert page.headings == [Heading(1, "a b c"), Heading(2, "e")]
    page = Document("<h1>a<div><h2>b</h2><p>c</div></h1><p>d").scan()
    assert page.headings == [Heading(1, "a b c"), Heading(2, "b")]


def test_text_is_linear_in_nested_inline_elements() -> None:
    markup = "<span>x " * 4_000
    begun = time.process_time()
    assert _text(markup).count("x") == 4_000
    assert time.process_time() - begun < 1.0


def test_what_a_page_says_of_itself() -> None:
    record = parsed(
        b"<html lang=de-AT><head><title> A\n B </title><meta name=Description content=' d  e '>"
        b"<meta name=AUTHOR content='N. N.'><meta property=og:title content=O>"
        b"<meta property='article:published_time' content='2023-02-01T10:00:00+01:00'>"
        b"<link rel=canonical href=/c></head><h1>One <style>.x{}</style></h1><h3>Two</h3>"
    ).record
    assert record["language"] == "de-AT"
    assert record["title"] == "A B"
    assert record["description"] == "d e"
    assert record["author"] == "N. N."
    assert record["published_at"] == 1_675_242_000_000
    assert record["headings"] == [{"level": 1, "text": "One"}, {"level": 3, "text": "Two"}]
    assert record["canonical_url"] == "http://a.example/c"
    assert record["meta"]["og:title"] == "O"
    assert record["kind"] == "html"


def test_language_falls_back_to_meta_and_header() -> None:
    meta = b"<meta http-equiv=Content-Language content='fr, en'>"
    assert parsed(meta).record["language"] == "fr"
    assert parsed(b"x", headers=[("content-language", "it")]).record["language"] == "it"


def test_html_beyond_the_cap_is_cut() -> None:
    body = b"<a href=/1>x</a>" + b" " * 2_000_000 + b"<a href=/2>y</a>"
    from parsers.records.parse import CrawlParser, Parsed
    from schemas.admission import compile_rules
    from schemas.crawl import CrawlSpec
    from tests.unit.parsers.parsing import NOW_MS, fetch_result

    parser = CrawlParser(compile_rules(CrawlSpec(crawl="c")), max_html_bytes=1_000_000)
    outcome = parser.parse(fetch_result(body, url=PAGE), body, NOW_MS)
    assert isinstance(outcome, Parsed)
    assert links(outcome) == ["http://a.example/1"]
    assert outcome.record["truncated"]
    assert "html_capped" in outcome.record["issues"]
