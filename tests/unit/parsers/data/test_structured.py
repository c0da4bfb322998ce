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
    assert found.issues == []


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


def test_microdata() -> None:
    record = parsed(
        b"""<div itemscope itemtype="https://schema.example/Product" itemid="urn:1">
        <h1 itemprop="name">Chair <b>red</b></h1><img itemprop=image src=i.png>
        <div itemprop="offers" itemscope itemtype=Offer><meta itemprop=price content="9.5">
        <time itemprop="since until" datetime="2020-01-01">then</time></div>
        <data itemprop=sku value=7>seven</data></div><p itemprop=stray>x</p>"""
    ).record
    assert json.loads(record["microdata"]) == [
        {
            "type": ["https://schema.example/Product"],
            "id": "urn:1",
            "properties": {
                "name": ["Chair red"],
                "image": ["i.png"],
                "offers": [
                    {
                        "type": ["Offer"],
                        "properties": {
                            "price": ["9.5"],
                            "since": ["2020-01-01"],
                            "until": ["2020-01-01"],
                        },
                    }
                ],
                "sku": ["7"],
            },
        }
    ]
