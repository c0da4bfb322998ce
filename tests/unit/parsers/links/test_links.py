from __future__ import annotations

from typing import Any

import pytest

from parsers.links.resolve import link_header, refresh_target, srcset
from parsers.records.parse import CrawlParser, Parsed
from schemas.reasons import Reason
from tests.cases import case, given
from tests.unit.parsers.parsing import NOW_MS, PAGE, crawl_parser, fetch_result, links, parsed, sent


@pytest.mark.parametrize(("markup", "url"), given("lnk-01"))
def test_white_space_in_references(markup: str, url: str) -> None:
    outcome = parsed(f"{markup}x</a>".encode(), url=case("lnk-01")["input"]["base"])
    assert links(outcome) == [url]


@pytest.mark.parametrize(("markup", "url"), given("lnk-03"))
def test_bases_that_are_none(markup: str, url: str) -> None:
    assert links(parsed(markup.encode(), url=case("lnk-03")["input"]["page"])) == [url]


@pytest.mark.parametrize(
    ("charset", "query"),
    [
        ("utf-8", "%C3%A9"),
        ("windows-1252", "%E9"),
        ("koi8-r", "%26%23233%3B"),
        ("gbk", "%A8%A6"),
        ("utf-16", "%C3%A9"),
    ],
)
def test_queries_are_sent_in_the_encoding_of_the_page(charset: str, query: str) -> None:
    codec = "gb18030" if charset == "gbk" else charset
    pages = [f'<a href="{start}?q=&eacute;#&eacute;">' for start in ("x", "", "http://b.example/")]
    for page, url in zip(pages, ("/d/x", "/d/p", "http://b.example/"), strict=True):
        outcome = parsed(
            page.encode(codec),
            url="http://a.example/d/p",
            content_type=f"text/html; charset={charset}",
        )
        assert links(outcome) == [
            f"{url if url.startswith('http') else 'http://a.example' + url}?q={query}"
        ]


def test_a_base_far_from_the_start_counts() -> None:
    body = "<!-- " + "x" * 5_000 + ' --><base href="http://b.example/"><a href="i">'
    outcome = parsed(body.encode(), url=case("lnk-04")["input"]["page"])
    assert links(outcome) == [case("lnk-04")["expected"]]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("/x/", "http://a.example/x/i"),
        ("x/y", "http://a.example/d/x/i"),
        ("//b.example", "http://b.example/i"),
        ("http://b.example/q?z#f", "http://b.example/i"),
        ("http://[", "http://a.example/d/i"),
        ("", "http://a.example/d/i"),
    ],
)
def test_base_href(base: str, url: str) -> None:
    body = f"<base target=_top><base href='{base}'><base href=/no/><a href=i>".encode()
    assert links(parsed(body)) == [url]


def test_relative_links_of_an_ftp_base_are_not_queued() -> None:
    outcome = parsed(b"<base href='ftp://b.example/'><a href=i>")
    assert links(outcome) == []
    assert outcome.counts["rejected.unsupported_scheme"] == 1


@pytest.mark.parametrize(("value", "urls"), given("lnk-06"))
def test_srcset(value: str, urls: list[str]) -> None:
    assert srcset(value) == urls


def test_all_link_elements() -> None:
    outcome = parsed(
        b"<link rel='NEXT' href=/next><link rel='alternate stylesheet' href=/css>"
        b"<link rel=stylesheet href=/style><link rel=alternate hreflang=fr href=/fr>"
        b"<meta http-equiv=Refresh content='0; URL=\"/go\"'>"
        b"<a href=/a rel='UGC  sponsored'> A <b>b</b></a><map><area href=/area alt=Map></map>"
        b"<iframe src=/iframe title=T></iframe><svg><a xlink:href=/svg><text>s</text></a></svg>"
        b"<a href=/img><img src=i.png alt='An image'></a><a name=x>no</a>",
        headers=[("link", '</h>; rel="prev", </x>; rel=preload'), ("refresh", "3; url=/r")],
    )
    found = {
        link["url"].removeprefix("http://a.example"): (link["element"], link["rel"], link["anchor"])
        for link in outcome.record["outlinks"]
    }
    assert found == {
        "/next": ("link", "next", ""),
        "/fr": ("link", "alternate", "fr"),
        "/go": ("meta", "", ""),
        "/a": ("a", "ugc sponsored", "A b"),
        "/area": ("area", "", "Map"),
        "/iframe": ("iframe", "", "T"),
        "/svg": ("a", "", "s"),
        "/img": ("a", "", "An image"),
        "/h": ("link", "prev", ""),
        "/r": ("meta", "", ""),
    }
    assert sent(outcome, "alternate") == ["http://a.example/fr"]
    assert len(sent(outcome, "link")) == 9


def test_duplicates_are_one_link_followed_if_any_is() -> None:
    outcome = parsed(
        b"<a href=/x#1 rel=nofollow></a><a href='x/../../x'>Text</a><a href=/n rel=nofollow>n</a>"
    )
    assert [(link["url"], link["anchor"]) for link in outcome.record["outlinks"]] == [
        ("http://a.example/x", "Text"),
        ("http://a.example/n", "n"),
    ]
    assert sent(outcome) == ["http://a.example/x"]


def test_what_is_no_web_url_is_counted_and_not_queued() -> None:
    outcome = parsed(
        b"<a href=mailto:x@y><a href=javascript:x()><a href=tel:1><a href='http://[/'>"
        b"<a href='data:text/html,x'><a href=file:///etc/hostname><a href=/ok>"
        b"<meta http-equiv=refresh content='0;url=file:///etc/hostname'>"
        b"<link rel=canonical href='file:///x'>"
    )
    assert sent(outcome) == ["http://a.example/ok"]
    assert outcome.counts["rejected.unsupported_scheme"] == 6
    assert outcome.counts["rejected.invalid_url"] == 1
    assert outcome.record["canonical_url"] == ""


def test_images_and_media_are_assets() -> None:
    record = parsed(
        b"<img src=a.png srcset='b.png 1x, c.png 2x'><video poster=p.jpg src=v.mp4></video>"
        b"<picture><source srcset=d.webp></picture><audio src=/s.ogg></audio><img src=a.png>"
        b"<img src='data:image/gif;base64,R0lG'><object data=o.swf></object>"
    ).record
    assert [url.rpartition("/")[2] for url in record["assets"]] == [
        "a.png", "b.png", "c.png", "v.mp4", "p.jpg", "d.webp", "s.ogg", "o.swf",
    ]  # fmt: skip
    assert record["outlinks"] == []


def test_messages_are_grouped_by_host_and_carry_the_origin() -> None:
    body = b"<a href=/1><a href=/2><a href=http://b.a.example/3><a href=http://other.example/>"
    outcome = parsed(body, spec={"scope": "domain"}, depth=3, seeded_at=77, scope_host="a.example")
    assert [(b["host"], len(b["links"])) for b in outcome.batches] == [
        ("a.example", 2),
        ("b.a.example", 1),
    ]
    first = outcome.batches[0]
    assert (first["crawl"], first["depth"], first["scope_host"]) == ("c", 4, "a.example")
    assert (first["referrer"], first["seeded_at"], first["via"]) == (PAGE, 77, "link")
    assert first["discovered_at"] == NOW_MS
    assert all(link["url_id"] for link in first["links"])
    assert outcome.counts["rejected.out_of_scope"] == 1
    assert outcome.counts["links_found"] == 4
    assert outcome.counts["links_sent"] == 3


def test_rules_refuse_early() -> None:
    body = b"<a href=/in/1><a href=/in/x><a href=/out><a href='/" + b"a/" * 50 + b"'>"
    outcome = parsed(body, spec={"include": ["/in/", "/a/"], "exclude": ["x$"]})
    assert sent(outcome) == ["http://a.example/in/1"]
    assert outcome.counts["rejected.excluded"] == 2
    assert outcome.counts["rejected.trap"] == 1
    deep = parsed(b"<a href=/x>", spec={"max_depth": 2}, depth=2)
    assert deep.counts["rejected.too_deep"] == 1
    stopped = parsed(b"<a href=/x>", spec={"state": "stopped"})
    assert stopped.counts["rejected.crawl_stopped"] == 1
    assert stopped.record["kind"] == "html"


def test_a_page_of_very_many_links_is_capped_and_bounded() -> None:
    body = b"".join(b"<a href=/%d>x</a>" % at for at in range(3_000))
    outcome = parsed(body, spec={"max_links": 1_234})
    assert [len(batch["links"]) for batch in outcome.batches] == [500, 500, 234]
    assert outcome.counts["rejected.too_many_links"] == 3_000 - 1_234
    assert len(outcome.record["outlinks"]) == 1_234
    assert outcome.record["truncated"]
    assert "links_capped" in outcome.record["issues"]


def test_known_links_are_not_sent_again() -> None:
    known: set[bytes] = set()
    parser = crawl_parser(known)
    body = b"<a href=/nav><a href=/one><a href=#top>"
    first = _parse(parser, body)
    again = _parse(parser, body)
    assert sent(first) == sent(again) == ["http://a.example/nav", "http://a.example/one"]
    known.update(first.sent)
    last = _parse(parser, body)
    assert sent(last) == []
    assert last.counts["links_known"] == 2
    assert len(links(last)) == 3


def _parse(parser: CrawlParser, body: bytes, url: str = PAGE) -> Parsed:
    outcome = parser.parse(fetch_result(body, url=url), body, NOW_MS)
    assert isinstance(outcome, Parsed)
    return outcome


def test_the_resolver_remembers_without_mixing_folders_schemes_or_queries() -> None:
    parser = crawl_parser()
    rows = [
        ("http://a.example/d/p", "x", "http://a.example/d/x"),
        ("http://a.example/e/p", "x", "http://a.example/e/x"),
        ("http://a.example/e/p?q", "?z", "http://a.example/e/p?z"),
        ("http://a.example/e/r", "?z", "http://a.example/e/r?z"),
        ("https://a.example/e/r", "//b.example/", "https://b.example/"),
        ("http://a.example/e/r", "//b.example/", "http://b.example/"),
        ("http://a.example/e/r?a/b", "x", "http://a.example/e/x"),
        ("http://a.example/e/r?a", "", "http://a.example/e/r?a"),
        ("http://a.example/e/s", "#x", "http://a.example/e/s"),
        ("http://a.example/e/s", "http:x", "http://a.example/e/x"),
        ("https://a.example/e/s", "HTTP:x", "http://x/"),
        ("http://a.example/e/s", "x #y", "http://a.example/e/x%20"),
        ("http://a.example/e/s", "x\n#y", "http://a.example/e/x"),
        ("http://a.example/e/s?q", " #y<z", "http://a.example/e/s?q"),
        ("http://a.example/e/s", "x&#13;&#10;/y", "http://a.example/e/x/y"),
        ("http://a.example/e/s", "\\y", "http://a.example/y"),
    ]
    for _ in range(2):
        for base, href, url in rows:
            body = f'<a href="{href}">'.encode()
            assert links(_parse(parser, body, base)) == [url]


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0;url=/x", "/x"),
        ("5; URL='a b'", "a b"),
        ("0", None),
        ("3;", None),
        ("1 , url = /y", "/y"),
        (" 0 http://x/", "http://x/"),
        ('0;url="/q', "/q"),
        ("url=/x", None),
        ("", None),
        ("1.5; /z", "/z"),
    ],
)
def test_refresh(content: str, target: str | None) -> None:
    assert refresh_target(content) == target


def test_link_header() -> None:
    value = '<https://x/a>; rel="canonical", </b,c>; title="a,b"; rel=next, <d>; title="rel=x"'
    assert list(link_header(value)) == [("https://x/a", "canonical"), ("/b,c", "next")]
    odd = """</a>; title="; rel=prev"; REL='next', <b>;crossorigin;rel=canonical;rel=next"""
    assert list(link_header(odd)) == [("/a", "next"), ("b", "canonical")]


def test_sitemaps_of_the_host() -> None:
    robots = ["https://a.example/s.xml", "ftp://a.example/x", "http://other.example/s.xml"]
    result: dict[str, Any] = {"sitemaps": robots, "url": "http://a.example/p"}
    off = parsed(b"x", **result)
    assert off.batches == []
    use = parsed(b"x", spec={"sitemaps": "robots", "include": ["/only/"]}, **result)
    assert sent(use, "sitemap") == ["https://a.example/s.xml"]
    assert use.batches[0]["depth"] == 0
    assert use.counts["rejected.unsupported_scheme"] == 1
    assert use.counts["rejected.out_of_scope"] == 1
    also = parsed(b"x", spec={"sitemaps": "discover"}, **result)
    assert sent(also, "sitemap") == ["https://a.example/s.xml", "http://a.example/sitemap.xml"]
    deeper = parsed(b"x", spec={"sitemaps": "discover"}, depth=1, via="link")
    assert deeper.batches == []


def test_redirects_and_not_modified_give_records_without_links() -> None:
    moved = parsed(b"<a href=/x>", status=302, location="http://a.example/y")
    assert (moved.record["kind"], moved.record["location"]) == ("redirect", "http://a.example/y")
    same = parsed(b"", status=304, not_modified=True)
    assert same.record["kind"] == "not_modified"
    assert moved.batches == same.batches == []
    assert moved.counts == same.counts == {"records": 1}


def test_reasons_used_are_in_the_table() -> None:
    assert {Reason.NOFOLLOW, Reason.MALFORMED_LINK, Reason.PARSE_LIMIT} <= set(Reason)


@pytest.mark.parametrize("url", case("inf-04")["input"]["good_urls"])
def test_ordinary_urls_are_sent(url: str) -> None:
    assert sent(parsed(f'<a href="{url}">'.encode())) == [url]


@pytest.mark.parametrize(
    "url", ["http://a.example" + "/a" * 43 + "/", "http://a.example/?q=" + "x" * 9_000]
)
def test_endless_urls_are_refused_with_a_count(url: str) -> None:
    outcome = parsed(f'<a href="{url}">'.encode())
    assert sent(outcome) == []
    assert sum(n for name, n in outcome.counts.items() if name.startswith("rejected.")) == 1


@pytest.mark.parametrize(("left", "right", "wanted"), given("inf-03"))
def test_session_ids_do_not_make_new_links(left: str, right: str, wanted: str) -> None:
    outcome = parsed(f'<a href="{left}"><a href="{right}">'.encode())
    assert len(sent(outcome)) == (1 if wanted == "same" else 2)
    if wanted == "same only by configured name":
        named = parsed(
            f'<a href="{left}"><a href="{right}">'.encode(), spec={"ignore_params": ["sid"]}
        )
        assert len(sent(named)) == 1
