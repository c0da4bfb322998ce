from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import decode, encode
from schemas.crawl import CrawlSpec, from_record, parse_spec, to_record
from schemas.errors import ConfigError
from schemas.records import CrawlSpecRecord

FULL: dict[str, Any] = {
    "crawl": "my-crawl_1.x",
    "state": "stopped",
    "scope": "domain",
    "include": ["/docs/"],
    "exclude": [r"\.pdf$", "é"],
    "max_depth": 3,
    "max_pages": 1000,
    "max_links": 10,
    "ignore_params": ["sid"],
    "calendar_budget": 7,
    "trap_budget": 50,
    "delay_s": 0.25,
    "per_host": 4,
    "adaptive_factor": 0.0,
    "user_agent": "acmebot",
    "accept": ["text/html", "image/*"],
    "cookies": True,
    "max_body_bytes": 1024,
    "sitemaps": "discover",
    "main_text": True,
    "microformats": True,
    "store_outlinks": False,
    "simhash": False,
    "extract": {
        "price": {"css": ".price", "type": "number", "regex": "([0-9]+)"},
        "rows": {"css": "tr", "many": True, "fields": {"name": {"css": "td", "strip": False}}},
    },
    "plugins": ["acme"],
}


def record(spec: str, **changes: Any) -> CrawlSpecRecord:
    base: CrawlSpecRecord = {
        "crawl": "c",
        "revision": 1,
        "created_at": 0,
        "state": "running",
        "spec": spec,
    }
    return {**base, **changes}  # type: ignore[typeddict-item]  # keys are checked by use


def test_every_key_is_in_the_full_example() -> None:
    assert set(FULL) == set(CrawlSpec.model_fields)
    defaults = CrawlSpec(crawl="c").model_dump(mode="json")
    assert [key for key, value in FULL.items() if defaults[key] == value] == []


def test_defaults_are_a_polite_crawl_of_one_host() -> None:
    spec = parse_spec({"crawl": "c"})
    assert (spec.scope, spec.delay_s, spec.per_host, spec.sitemaps) == ("host", 1.0, 1, "off")
    assert spec.max_pages is None
    assert spec.max_depth is None
    assert not spec.cookies
    assert spec.user_agent is None


@pytest.mark.parametrize("data", [{"crawl": "c"}, FULL], ids=["defaults", "full"])
def test_round_trip_through_the_record_and_its_bytes(data: dict[str, Any]) -> None:
    spec = parse_spec(data)
    message = to_record(spec, revision=4, now_ms=1_700_000_000_000)
    assert message["revision"] == 4
    assert message["created_at"] == 1_700_000_000_000
    assert from_record(message) == spec
    assert from_record(decode("crawl-spec", encode("crawl-spec", message))) == spec
    assert spec == parse_spec(spec.model_dump(mode="json"))


def test_the_record_holds_only_what_differs_from_the_defaults() -> None:
    message = to_record(
        parse_spec({"crawl": "c", "max_depth": 2, "delay_s": 1.0}), revision=1, now_ms=0
    )
    assert json.loads(message["spec"]) == {"max_depth": 2}
    assert (message["crawl"], message["state"]) == ("c", "running")


def test_the_record_names_crawl_and_state_not_the_body() -> None:
    spec = from_record(record('{"crawl": "other", "state": "stopped"}'))
    assert (spec.crawl, spec.state) == ("c", "running")


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_spec(
            {
                "crawl": "a b",
                "scope": "galaxy",
                "include": ["(", "ok", "["],
                "max_pages": 0,
                "delay_s": float("nan"),
                "bogus": 1,
                "extract": {"t": {"css": "", "oops": 1, "regex": "("}},
                "accept": ["text/html\r\nX: y"],
                "user_agent": "a bot/1.0",
            }
        )
    text = str(caught.value)
    for place in (
        *("crawl", "scope", "include", "max_pages", "delay_s", "bogus", "extract.t.css"),
        *("extract.t.oops", "extract.t.regex", "accept.0", "user_agent"),
    ):
        assert f"\n  {place}: " in text
    assert "'('" in text
    assert "'['" in text
    assert len(text.splitlines()) == 12


def test_one_problem_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"\Acrawl spec: max_depht: Extra inputs[^\n]*\Z"):
        parse_spec({"crawl": "c", "max_depht": 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("crawl", ""),
        ("crawl", "x" * 65),
        ("crawl", "a/b"),
        ("crawl", "a\n"),
        ("crawl", ".."),
        ("crawl", "é"),
        ("crawl", "\ud800"),
        ("state", "paused"),
        ("max_depth", -1),
        ("max_pages", 1.5),
        ("max_links", -1),
        ("calendar_budget", 0),
        ("trap_budget", 0),
        ("delay_s", -0.1),
        ("delay_s", float("inf")),
        ("per_host", 0),
        ("per_host", 257),
        ("adaptive_factor", -1),
        ("user_agent", ""),
        ("user_agent", "bot\r\nEvil: 1"),
        ("user_agent", "bot\n"),
        ("accept", ["html"]),
        ("accept", "text/html"),
        ("max_body_bytes", 0),
        ("sitemaps", "yes"),
        ("extract", {"x": {}}),
        ("extract", {"x": {"css": "a", "type": "money"}}),
        ("extract", {"x": {"css": "a", "fields": {"y": {"css": "b", "bogus": 1}}}}),
    ],
)
def test_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"crawl spec: {key}"):
        parse_spec({"crawl": "c", key: value})


@pytest.mark.parametrize("crawl", ["a", "default", "x" * 64, "A.b_c-9", ".a"])
def test_ids(crawl: str) -> None:
    assert parse_spec({"crawl": crawl}).crawl == crawl


def nested(depth: int) -> str:
    return (
        '{"extract":{"x":'
        + '{"css":"a","fields":{"f":' * depth
        + '{"css":"a"}'
        + "}}" * depth
        + "}}"
    )


@pytest.mark.parametrize(
    "spec",
    [
        *("", "{", "[]", "null", "1", '"x"', '{"max_pages":0}', '{"x":1}', "[" * 100_000),
        nested(1_000),
        nested(50_000),
    ],
    ids=lambda spec: spec[:12],
)
def test_a_broken_record_is_a_config_error_that_names_the_crawl_or_the_key(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"crawl c: |crawl spec: (max_pages|x|extract)"):
        from_record(record(spec))


@settings(max_examples=25, deadline=None, database=None)
@given(
    st.dictionaries(
        st.sampled_from([*FULL, "bogus", ""]),
        st.sampled_from(
            [
                *(None, True, 0, 1, -1, 2**70, 0.5, float("nan"), "", "c", "any", "text/*", "é"),
                *([], ["x"], ["("], ["text/*"], [1], {}, {"a": {"css": "b"}}, {"a": {}}, {"": ""}),
            ]
        ),
        max_size=4,
    )
)
def test_any_object_is_a_spec_or_a_config_error_and_specs_survive(data: dict[str, Any]) -> None:
    try:
        spec = parse_spec({"crawl": "c", **data})
    except ConfigError:
        return
    assert from_record(to_record(spec, revision=1, now_ms=0)) == spec


# ---- config_hash


def test_the_config_hash_is_stable_across_releases() -> None:
    assert parse_spec({"crawl": "c"}).config_hash == "44136fa355b3678a"
    before = {**FULL, "simhash": True, "microformats": False}
    assert parse_spec(before).config_hash == "72d29f6aad2ae431"


@pytest.mark.parametrize(
    ("key", "counts"),
    [
        *(
            (key, True)
            for key in (
                "max_links",
                "main_text",
                "microformats",
                "store_outlinks",
                "simhash",
                "extract",
                "plugins",
            )
        ),
        *((key, False) for key in ("crawl", "state", "scope", "max_pages", "delay_s", "cookies")),
    ],
)
def test_the_config_hash_has_what_decides_a_records_content(key: str, *, counts: bool) -> None:
    plain = parse_spec({"crawl": "c"})
    changed = parse_spec({"crawl": "c", key: FULL[key]})
    assert (changed.config_hash != plain.config_hash) is counts


def test_the_config_hash_does_not_depend_on_how_defaults_are_spelt() -> None:
    short = {"css": "a"}
    long: dict[str, Any] = {
        "css": "a",
        "attribute": None,
        "type": "text",
        "many": False,
        "fields": {},
    }
    one = parse_spec({"crawl": "c", "extract": {"x": short, "y": short}})
    other = parse_spec({"extract": {"y": long, "x": long}, "crawl": "c"})
    assert one.config_hash == other.config_hash
