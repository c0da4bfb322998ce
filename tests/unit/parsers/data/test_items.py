"""Items in markup: microdata, RDFa Lite, microformats."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from parsers.data import microformats as microformats_module
from parsers.data.items import MAX_DEPTH, MAX_NODES
from parsers.validate import check_selectors
from schemas.crawl import CrawlSpec
from tests.unit.parsers.parsing import parsed


def microdata(markup: str, **result: Any) -> list[Any]:
    found = json.loads(parsed(markup.encode(), **result).record["microdata"])
    assert isinstance(found, list)
    return found


def properties(markup: str, **result: Any) -> Any:
    (item,) = microdata(f"<div itemscope>{markup}</div>", **result)
    return item["properties"]


def rdfa(markup: str) -> list[Any]:
    found = json.loads(parsed(markup.encode()).record["rdfa"])
    assert isinstance(found, list)
    return found


def test_microdata() -> None:
    found = microdata(
        """<div itemscope itemtype="https://schema.example/Product" itemid="?1#x">
        <h1 itemprop="name">Chair <b>red</b></h1><img itemprop=image src=i.png>
        <div itemprop="offers" itemscope itemtype=Offer><meta itemprop=price content="9.5">
        <time itemprop="since until" datetime="2020-01-01">then</time></div>
        <data itemprop=sku value=7>seven</data></div><p itemprop=stray>x</p>"""
    )
    offer = {"price": ["9.5"], "since": ["2020-01-01"], "until": ["2020-01-01"]}
    assert found == [
        {
            "type": ["https://schema.example/Product"],
            "id": "http://a.example/d/p?1#x",
            "properties": {
                "name": ["Chair red"],
                "image": ["http://a.example/d/i.png"],
                "offers": [{"type": ["Offer"], "properties": offer}],
                "sku": ["7"],
            },
        }
    ]


@pytest.mark.parametrize(
    ("markup", "wanted"),
    [
        *(
            (f"<{tag} itemprop=x src=' u/\n1.a '>", "http://a.example/d/u/1.a")
            for tag in ("audio", "embed", "iframe", "img", "video", "source", "track")
        ),
        ("<a itemprop=x href='?q=1#f'>text</a>", "http://a.example/d/p?q=1#f"),
        ("<area itemprop=x href=//b.example>", "http://b.example/"),
        ("<link itemprop=x href=https://schema.org/InStock>", "https://schema.org/InStock"),
        ("<object itemprop=x data=o.svg></object>", "http://a.example/d/o.svg"),
        ("<a itemprop=x href=mailto:a@b.example>", "mailto:a@b.example"),
        ("<a itemprop=x href=''>", "http://a.example/d/p"),
        ("<a itemprop=x>text</a>", ""),
        ("<a itemprop=x href='http://[1'>text</a>", ""),
        ("<a itemprop=x content=c>text</a>", "c"),
        ("<a itemprop=x href=u content=c>text</a>", "http://a.example/d/u"),
        ("<meta itemprop=x content=' c '>", "c"),
        ("<meta itemprop=x>", ""),
        ("<data itemprop=x value=' v '>t</data>", "v"),
        ("<meter itemprop=x value=0.5>t</meter>", "0.5"),
        ("<meter itemprop=x>t</meter>", ""),
        ("<time itemprop=x datetime=' 2020 '>t</time>", "2020"),
        ("<time itemprop=x>2021 </time>", "2021"),
        ("<span itemprop=x content=9.5>t</span>", "9.5"),
        ("<input itemprop=x value=v>", ""),
        ("<p itemprop=x>a  b<br>c<b>d</b></p>", "a b cd"),
        ("<ul itemprop=x><li>a<li>b</ul>", "a b"),
        ("<div itemprop=x>a<script>s</script><style>s</style><template>t</template>b</div>", "ab"),
        ("<DIV ITEMPROP=x>a</DIV>", "a"),
    ],
)
def test_values_of_microdata(markup: str, wanted: str) -> None:
    assert properties(markup) == {"x": [wanted]}


def test_urls_of_microdata_are_relative_to_the_base_in_the_encoding_of_the_page() -> None:
    found = properties(
        "<base href=/b/><a itemprop=x href='p\u00e9?q=\u00e9#\u00e9'>", content_type="text/html"
    )
    assert found == {"x": ["http://a.example/b/p%C3%A9?q=%C3%A9#%C3%A9"]}
    body = "<div itemscope><a itemprop=x href='p\u00e9?q=\u00e9'></div>".encode("cp1252")
    record = parsed(body, content_type="text/html; charset=windows-1252").record
    assert "http://a.example/d/p%C3%A9?q=%E9" in record["microdata"]


@pytest.mark.parametrize(
    "markup",
    [
        "<div itemScope='' itemType='t'><b itemProp='n'>x</b></div>",
        "<DIV ITEMSCOPE ITEMTYPE=t><B ITEMPROP=n>x</B></DIV>",
        "<div itemprop=a itemscope itemtype=t><b itemprop='n n'>x</b></div>",
    ],
)
def test_microdata_in_any_case(markup: str) -> None:
    assert microdata(markup) == [{"type": ["t"], "properties": {"n": ["x"]}}]


def test_itemref_adds_what_is_elsewhere_in_the_order_of_the_page() -> None:
    found = microdata(
        """<p id=before itemprop=n>1</p>
        <div itemscope itemref="after before none after" itemtype=a><i itemprop=n>2</i>
        <div itemscope itemtype=b><i itemprop=n>not of a</i></div></div>
        <div id=after><i itemprop=n>3</i><div itemprop=n itemscope itemtype=c itemref=inner></div>
        <div itemscope itemtype=d><i itemprop=n>not of a</i></div></div>
        <i id=inner itemprop=m>4</i><i id=before itemprop=n>second of that id</i>"""
    )
    inner = {"type": ["c"], "properties": {"m": ["4"]}}
    assert [(one["type"], one["properties"]) for one in found] == [
        (["a"], {"n": ["1", "2", "3", inner]}),
        (["b"], {"n": ["not of a"]}),
        (["d"], {"n": ["not of a"]}),
    ]


def test_a_target_inside_of_an_item_belongs_to_both() -> None:
    found = microdata(
        """<div itemscope itemtype=a><div id=x><i itemprop=n>1</i></div></div>
        <div itemscope itemtype=b itemref=x></div>"""
    )
    assert [one["properties"] for one in found] == [{"n": ["1"]}, {"n": ["1"]}]


def test_items_that_hold_themselves_are_cut() -> None:
    found = microdata(
        """<div itemscope itemtype=top itemref=a></div>
        <div id=a itemprop=a itemscope itemref=b></div><div id=b itemprop=b itemscope itemref=a>
        <i itemprop=n>1</i></div>"""
    )
    inner = {"type": [], "properties": {"n": ["1"]}}
    assert found[0]["properties"] == {"a": [{"type": [], "properties": {"b": [inner]}}]}


def _nested(number: int, attributes: str) -> str:
    return f"<div {attributes}>" * number + "x" + "</div>" * number


@pytest.mark.parametrize(
    ("name", "markup"),
    [
        ("microdata", _nested(4_000, "itemscope itemprop=a")),
        ("microdata", "<div itemscope>" + _nested(4_000, "itemprop=a")),
        ("microdata", "<div itemscope>" + "<b itemprop=a>x</b>" * (2 * MAX_NODES)),
        (
            "microdata",
            "<div id=all>" + "<b itemprop=a>x</b>" * 9_000 + "</div>"
            "<div itemscope itemref=all></div>" * 9_000,
        ),
        (
            "microdata",
            "<div itemscope itemref=i0></div>"
            + "".join(
                f"<div id=i{at}><p itemscope itemprop=a itemref=i{at + 1}></p>"
                f"<p itemscope itemprop=b itemref=i{at + 1}></p></div>"
                for at in range(40)
            ),
        ),
        (
            "microdata",
            "<div itemscope>" + f"<p itemprop='{' '.join(map(str, range(60_000)))}'>" * 9,
        ),
        ("rdfa", _nested(4_000, "typeof=t property=a")),
        ("rdfa", "<div typeof=t>" + _nested(4_000, "property=a")),
        ("rdfa", "<div typeof=t>" + "<b property=a>x</b>" * (2 * MAX_NODES)),
        (
            "rdfa",
            "".join(
                f"<p about=#{at} typeof=t><b property=a resource=#{at + 1} typeof=t></b>"
                f"<b property=b resource=#{at + 1} typeof=t></b></p>"
                for at in range(40)
            ),
        ),
    ],
    ids=range(10),
)
def test_what_would_grow_without_bound_is_cut_and_told(name: str, markup: str) -> None:
    """Nested deep or referred to often; what is quadratic runs into the test's time limit."""
    record: Any = parsed(markup.encode()).record
    assert f"{name}_capped" in record["issues"]
    assert len(record[name]) <= 400_000
    json.loads(record[name])


def test_items_nested_as_deep_as_pages_do_are_whole() -> None:
    record = parsed(_nested(MAX_DEPTH, "itemscope itemprop=a").encode()).record
    assert record["issues"] == []
    assert record["microdata"].count('"type"') == MAX_DEPTH


def test_long_values_are_cut_and_long_urls_left_out() -> None:
    text, href = "x" * 150_000, "y" * 150_000
    markup = f"<div itemscope><p itemprop=a>{text}</p><a itemprop=b href={href}>"
    record = parsed(markup.encode()).record
    (item,) = json.loads(record["microdata"])
    assert [len(item["properties"][name][0]) for name in "ab"] == [100_000, 0]
    assert record["issues"] == ["microdata_capped"]


def test_rdfa() -> None:
    found = rdfa(
        """<body vocab="https://schema.org/" prefix="ex: https://ex.example/ns#">
        <div resource="#p" typeof="Product ex:Oak"><h1 property="name">Oak <b>chair</b></h1>
        <img property=image src=" i.png "><a property="url ex:more" href="/oak">x</a>
        <div property=offers typeof=Offer><meta property=price content=" 9.5 ">
        <time property=validFrom datetime=2020-01-01>then</time></div>
        <span property="ex:colour foaf:name">brown</span>
        <p property=maker resource=/m>M</p></div>"""
    )
    offer = {"price": ["9.5"], "validFrom": ["2020-01-01"]}
    assert found == [
        {
            "type": ["https://schema.org/Product", "https://ex.example/ns#Oak"],
            "id": "http://a.example/d/p#p",
            "properties": {
                "name": ["Oak chair"],
                "image": ["http://a.example/d/i.png"],
                "url": ["http://a.example/oak"],
                "https://ex.example/ns#more": ["http://a.example/oak"],
                "offers": [{"type": ["https://schema.org/Offer"], "properties": offer}],
                "https://ex.example/ns#colour": ["brown"],
                "http://xmlns.com/foaf/0.1/name": ["brown"],
                "maker": ["http://a.example/m"],
            },
        }
    ]


def test_rdfa_of_one_name_is_one_item_and_may_hold_itself() -> None:
    found = rdfa(
        """<body vocab=v:><p about=/a typeof=A><b property=n>1</b></p>
        <p about=/a><b property=n>2</b><i property=same resource=/a typeof=B></i></p>
        <p resource=_:x typeof=C></p><div resource=_:x><b property=n>3</b></div>"""
    )
    assert found == [
        {
            "type": ["v:A", "v:B"],
            "id": "http://a.example/a",
            "properties": {"v:n": ["1", "2"], "v:same": ["http://a.example/a"]},
        },
        {"type": ["v:C"], "properties": {"v:n": ["3"]}},
    ]


@pytest.mark.parametrize(
    "markup",
    [
        "<meta property=og:title content=x>",
        "<script>typeof x; typeof=1</script><meta property=og:title content=x>",
        "<script>a = '<b typeof=x>'</script><p vocab=v: property=n>typeof</p>",
    ],
)
def test_pages_without_typed_items_have_no_rdfa(markup: str) -> None:
    assert rdfa(markup) == []


def test_what_noindex_forbids_is_not_kept() -> None:
    record: Any = parsed(
        b"""<meta name=robots content=noindex><meta property=og:title content=x>
        <div itemscope itemprop=n>x</div><div typeof=T></div><div class=h-card>x</div>""",
        spec={"microformats": True},
    ).record
    assert {record[name] for name in ("microdata", "rdfa", "opengraph", "microformats")} == {"[]"}


CARD = b"<base href=/b/><a class=h-card href=ann>Ann <script>x()</script></a>"


def test_microformats_are_read_when_asked_for() -> None:
    card = {"name": ["Ann"], "url": ["http://a.example/b/ann"]}
    record = parsed(CARD, spec={"microformats": True}).record
    assert json.loads(record["microformats"]) == [{"type": ["h-card"], "properties": card}]
    assert parsed(CARD).record["microformats"] == "[]"


def test_styles_are_no_microformats(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise AssertionError("a page without microformats was read")

    monkeypatch.setattr(microformats_module, "_parse", refuse)
    for markup in (b"<p class='h-full h-4'>x", b"<p id=h-card>h-card .vcard"):
        record = parsed(markup, spec={"microformats": True}).record
        assert (record["microformats"], record["issues"]) == ("[]", [])


def test_microformats_that_cannot_be_read_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"microformats": True}
    deep = b"<div class=h-card>" * 3_000
    assert parsed(deep, spec=spec).record["issues"] == ["microformats_failed"]
    long = b"<p class=h-card>" + b"x" * 2_000_001
    assert "microformats_failed" in parsed(long, spec=spec).record["issues"]
    monkeypatch.setitem(sys.modules, "mf2py", None)
    monkeypatch.setattr(microformats_module, "find_spec", lambda _: None)
    assert parsed(CARD, spec=spec).record["issues"] == ["microformats_missing"]
    (wrong,) = check_selectors(CrawlSpec(crawl="c", microformats=True))
    assert "crawlstream[microformats]" in wrong
    assert check_selectors(CrawlSpec(crawl="c")) == []
