from __future__ import annotations

import json
import random
import statistics
from itertools import combinations
from zlib import crc32

import pytest

from parsers.data.simhash import distance, simhash
from parsers.data.structured import dump_list, dumps, json_ld
from parsers.text.dates import iso, parse_ms, past_ms
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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2020-02-03", "2020-02-03T00:00:00Z"),
        ("2020-02-03T04:05:06Z", "2020-02-03T04:05:06Z"),
        ("2020-02-03 04:05", "2020-02-03T04:05:00Z"),
        ("2020-02-03T04:05:06.789+02:00", "2020-02-03T02:05:06Z"),
        ("20200203T040506-0130", "2020-02-03T05:35:06Z"),
        ("2020-02", "2020-02-01T00:00:00Z"),
        ("2020", "2020-01-01T00:00:00Z"),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "2015-10-21T07:28:00Z"),
        ("21 Oct 2015 07:28 +0200", "2015-10-21T05:28:00Z"),
        ("3 March 2021", "2021-03-03T00:00:00Z"),
        ("Published on March 3rd, 2021 by me", "2021-03-03T00:00:00Z"),
        ("3. Dec. 2021", "2021-12-03T00:00:00Z"),
        ("03.12.2021", "2021-12-03T00:00:00Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("0000-00-00", None),
        ("2020-13-01", None),
        ("2016-03-01T01:02:03Z 2015-01-01", None),
        ("soon", None),
        ("", None),
        ("3 Foo 2021", None),
        ("99999999999999999999", None),
        ("12:99 x", None),
    ],
)
def test_dates(text: str, wanted: str | None) -> None:
    found = parse_ms(text)
    assert (None if found is None else iso(found)) == wanted


def test_dates_before_the_web_or_in_the_future_are_unknown() -> None:
    assert past_ms("1970-01-01", 1_700_000_000_000) is None
    assert past_ms("2030-01-01", 1_700_000_000_000) is None
    assert past_ms("2023-11-14T22:13:21Z", 1_700_000_000_000) == 1_700_000_001_000


def test_simhash_is_stable_and_near_for_near_texts() -> None:
    words = [f"word{at}" for at in range(400)]
    text = " ".join(words)
    other = " ".join([*words[:200], "changed", *words[201:]])
    assert simhash(text) == simhash(text.upper().replace(" ", "\n"))
    assert distance(simhash(text), simhash(other)) <= 6
    assert distance(simhash(text), simhash(" ".join(reversed(words)))) > 12
    assert simhash("two words") == 0
    assert simhash("a fixed text of six words") == simhash("a fixed text of six words")
    assert -(1 << 63) <= simhash(text) < 1 << 63


@pytest.mark.parametrize("words", [3, 12, 1_023, 1_024, 1_025, 20_000, 20_100])
def test_simhash_equals_the_plain_definition(words: int) -> None:
    def hash64(word: str) -> int:
        return crc32(word.encode()) * 0x9E3779B1

    def rotate(number: int, by: int) -> int:
        return ((number << by) | (number >> (64 - by))) & ((1 << 64) - 1)

    made = [f"{'wörd' if at % 3 else 'x'}{at * at % 977}" for at in range(words)]
    hashes = [hash64(word) for word in made[:20_000]]
    grams = [
        a ^ rotate(b, 21) ^ rotate(c, 42)
        for a, b, c in zip(hashes, hashes[1:], hashes[2:], strict=False)
    ]
    value = 0
    for lane in range(64):
        ones = sum((gram >> lane) & 1 for gram in grams)
        value |= (ones > len(grams) / 2) << lane
    assert simhash(" ".join(made)) & ((1 << 64) - 1) == value


def test_simhashes_of_unrelated_texts_differ_in_half_of_the_bits() -> None:
    rng = random.Random(5)
    texts = [
        simhash(" ".join(f"{rng.choice('abcdefgh')}{rng.randrange(3_000)}" for _ in range(300)))
        for _ in range(120)
    ]
    apart = [distance(one, other) for one, other in combinations(texts, 2)]
    assert 31 < statistics.mean(apart) < 33
    assert statistics.stdev(apart) < 4.5
    for bit in range(64):
        ones = sum((value >> bit) & 1 for value in texts)
        assert 30 < ones < 90
