from __future__ import annotations

import json

import pytest

from parsers.data.structured import dump_list, dumps, json_ld
from tests.cases import given
from tests.unit.parsers.parsing import parsed


@pytest.mark.parametrize(("script", "wanted"), given("sdt-01"))
def test_json_ld_as_pages_write_it(script: str, wanted: object) -> None:
    found = json_ld([script])
    if isinstance(wanted, dict):
        assert found.items == [wanted]
    else:
        assert len(found.items) == {"two items": 2, "one item": 1, "no item": 0}[str(wanted)]
    try:
        strict = not script or json.loads(script) is not ...
    except ValueError:
        strict = False
    assert bool(found.issues) is not strict
    assert all(issue.startswith("json_ld_repaired_") for issue in found.issues)


@pytest.mark.parametrize(
    "script", [*given("sdt-03")[:2], "[" * 10_000, '{"a":' * 10_000, "1" * 5_000]
)
def test_what_is_published_is_json_that_utf8_carries(script: str) -> None:
    body = f'<script type="application/ld+json">{script}</script>'.encode()
    record = parsed(body).record
    json.loads(record["json_ld"], parse_constant=pytest.fail)
    record["json_ld"].encode("utf-8")
    if script.startswith(("[[", '{"a":{')) or script[0] == "1":
        assert record["json_ld"] == "[]"
        if script[0] != "1":
            assert record["issues"] == ["json_ld_invalid"]
    else:
        assert '"a":' in record["json_ld"]


def test_nan_becomes_null_and_surrogates_are_replaced() -> None:
    found = json_ld(['{"a": NaN, "b": 1e999, "c": -Infinity}', '{"a":"\\ud800"}'])
    assert found.items[0] == {"a": None, "b": None, "c": None}
    assert dumps(found.items[1]) == '{"a":"\ufffd"}'


def test_json_ld_is_capped_by_items() -> None:
    text, cut = dump_list([{"a": "x" * 300_000}, {"a": "y" * 300_000}])
    assert cut
    assert len(json.loads(text)) == 1


def test_dates_and_authors_from_json_ld() -> None:
    record = parsed(
        b"""<script type="application/ld+json; charset=utf-8">
        {"@graph": [{"@type": "WebPage"}, {"@type": "Article", "datePublished": "2021-05-06",
        "dateModified": "2999-01-01", "author": [{"name": "A B"}, "C"]}]}</script>
        <meta name=author content=other><meta name=last-modified content='2022-01-01'>"""
    ).record
    assert record["author"] == "A B, C"
    assert record["published_at"] == 1_620_259_200_000
    assert record["modified_at"] == 1_640_995_200_000


def test_last_modified_header_is_the_last_resort() -> None:
    headers = [("last-modified", "Wed, 21 Oct 2015 05:28:00 GMT")]
    assert parsed(b"x", headers=headers).record["modified_at"] == 1_445_405_280_000


def test_opengraph_keeps_order_and_what_repeats() -> None:
    record = parsed(
        b"""<base href=/b/><meta property=og:image content=' i/1.jpg '>
        <meta property=og:image:width content=600><meta property=og:image content=//c.example/2.jpg>
        <meta property="article:tag product:tag" content="a  b"><meta property=og:title content=''>
        <meta name=og:site_name content=S><meta property=dc:title content=D>"""
    ).record
    assert json.loads(record["opengraph"]) == [
        ["og:image", "http://a.example/b/i/1.jpg"],
        ["og:image:width", "600"],
        ["og:image", "http://c.example/2.jpg"],
        ["article:tag", "a b"],
        ["product:tag", "a b"],
        ["og:site_name", "S"],
    ]
    assert record["meta"]["og:image"] == "i/1.jpg"
    assert record["meta"]["dc:title"] == "D"


def test_a_meta_element_that_has_two_names_has_both() -> None:
    record = parsed(
        b"""<meta name=twitter:title property=og:title itemprop="headline og:title" content=T>
        <meta name=robots property=og:x content=noindex>"""
    ).record
    assert record["noindex"]
    record = parsed(b"<meta name=a property='og:title b' itemprop=c content=T>").record
    assert record["meta"] == {"a": "T", "og:title": "T", "b": "T", "c": "T"}
    assert record["opengraph"] == '[["og:title","T"]]'


def test_lists_in_lists_and_single_graphs_are_opened() -> None:
    found = json_ld(['[[{"a":1}],{"@graph":{"b":2}},3]', '{"@graph":[{"c":3},4]}'])
    assert found.items == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_what_could_not_be_read_is_told_and_the_rest_is_kept() -> None:
    found = json_ld(['{"a":1}', '{"b":"x "y" z"}', '{"c":3} {"d":'])
    assert found.items == [{"a": 1}, {"c": 3}]
    assert found.issues == ["json_ld_invalid"]
