from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from parsers.data import extract
from tests.unit.parsers.parsing import parsed

if TYPE_CHECKING:
    from parsers.data.extract import PageView

PAGE = b"""<base href="http://a.example/shop/"><h1> Red   chair </h1>
<p class=price>EUR 1.234,50</p><p class=stock data-left=" 17 ">yes</p>
<time datetime="2020-02-03T10:00+01:00">x</time><a class=more href="more?x=1#y">more</a>
<ul><li><b>A</b><a href=1>one</a></li><li><a href=2>two</a></li></ul>
<div id=raw><i>x</i></div>"""


def _extract(**selectors: dict[str, Any]) -> dict[str, Any]:
    record = parsed(PAGE, spec={"extract": selectors}).record
    found: dict[str, Any] = json.loads(record["extracted"])
    found["!"] = record["issues"]
    return found


def test_values_of_all_types() -> None:
    found = _extract(
        name={"css": "h1"},
        raw_name={"css": "h1", "strip": False},
        price={"css": ".price", "type": "number"},
        currency={"css": ".price", "regex": "([A-Z]{3})"},
        left={"css": ".stock", "attribute": "data-left", "type": "integer"},
        available={"css": ".stock", "type": "boolean"},
        since={"css": "time", "attribute": "datetime", "type": "date"},
        more={"css": "a.more", "attribute": "href", "type": "url"},
        markup={"css": "#raw i", "type": "html"},
    )
    assert found == {
        "name": "Red chair",
        "raw_name": " Red   chair ",
        "price": 1234.5,
        "currency": "EUR",
        "left": 17,
        "available": True,
        "since": "2020-02-03T09:00:00Z",
        "more": "http://a.example/shop/more?x=1",
        "markup": "<i>x</i>",
        "!": [],
    }


def test_lists_and_nested_items() -> None:
    found = _extract(
        urls={"css": "li a", "attribute": "href", "type": "url", "many": True},
        items={
            "css": "li",
            "many": True,
            "fields": {
                "label": {"css": "a"},
                "mark": {"css": "b"},
                "deep": {"css": "a", "fields": {"t": {"css": "*"}}},
            },
        },
        none={"css": "h6", "many": True},
    )
    assert found["urls"] == ["http://a.example/shop/1", "http://a.example/shop/2"]
    assert [(item["label"], item["mark"]) for item in found["items"]] == [
        ("one", "A"),
        ("two", None),
    ]
    assert found["none"] == []
    assert "extract:items.mark" in found["!"]


def test_absent_and_unconvertible_values_are_null_and_noted() -> None:
    found = _extract(
        absent={"css": "h6"},
        nodate={"css": "h1", "type": "date"},
        nomatch={"css": "h1", "regex": "blue"},
        noattribute={"css": "h1", "attribute": "id"},
        numbers={"css": "li a", "type": "number", "many": True},
    )
    issues = found.pop("!")
    assert found.pop("numbers") == []
    assert set(found.values()) == {None}
    assert issues == sorted(
        f"extract:{name}" for name in ("absent", "nodate", "nomatch", "noattribute", "numbers")
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", 1234.5),
        ("1.234,5", 1234.5),
        ("1.234", 1234),
        ("0.234", 0.234),
        ("12,5 %", 12.5),
        ("1 234 567,89", 1234567.89),
        ("1'234.50", 1234.5),
        ("-3", -3),
        ("\u22127.25", -7.25),
        ("1.234.567", 1234567),
        ("v2.", 2),
        ("none", None),
        ("$ 5", 5),
    ],
)
def test_numbers(text: str, value: float | None) -> None:
    assert extract.number(text) == value


class _Point:
    name = "mine"

    def __init__(self, loaded: object) -> None:
        self.loaded = loaded

    def load(self) -> object:
        return self.loaded


def test_plugins_join_the_extracted_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(page: PageView) -> dict[str, Any]:
        assert page.document is not None
        return {"n": len(page.document.select("li")), "url": page.url, "size": len(page.text)}

    extract.plugin.cache_clear()
    monkeypatch.setattr(extract, "entry_points", lambda group: [_Point(mine)] * (group != ""))
    record = parsed(PAGE, spec={"plugins": ["mine"], "extract": {"h": {"css": "h1"}}}).record
    extract.plugin.cache_clear()
    assert json.loads(record["extracted"]) == {
        "h": "Red chair",
        "n": 2,
        "url": "http://a.example/d/p",
        "size": len(PAGE),
    }


@pytest.mark.parametrize("answer", [{"a": object()}, {"a": float("nan")}, None, {1: {2: {3}}}])
def test_a_plugin_may_fail_without_costing_the_page(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    def wrong(page: PageView) -> Any:
        if answer is None:
            raise RuntimeError(page.url)
        return answer

    extract.plugin.cache_clear()
    monkeypatch.setattr(extract, "entry_points", lambda group: [_Point(wrong)] * (group != ""))
    record = parsed(PAGE, spec={"plugins": ["mine", "absent"]}).record
    extract.plugin.cache_clear()
    assert record["title"] == ""
    assert record["extracted"] == "{}"
    assert "plugin_missing:absent" in record["issues"]
    assert {"plugin_failed:mine:RuntimeError", "extracted_invalid"} & set(record["issues"])


def test_plugins_see_bodies_that_are_no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(page: PageView) -> dict[str, Any]:
        return {"size": len(page.body), "text": page.text, "html": page.document is not None}

    extract.plugin.cache_clear()
    monkeypatch.setattr(extract, "entry_points", lambda group: [_Point(sizes)] * (group != ""))
    record = parsed(
        b"%PDF-1.7\xff", content_type="application/pdf", spec={"plugins": ["mine"]}
    ).record
    extract.plugin.cache_clear()
    assert json.loads(record["extracted"]) == {"size": 9, "text": "", "html": False}
