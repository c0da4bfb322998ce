from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.data.lenient import (
    COMMAS,
    COMMENTS,
    ENTITIES,
    MAX_REPAIRS,
    MAX_VALUES,
    MISSING,
    NUMBERS,
    QUOTES,
    REPAIRS,
    SEVERAL,
    STRINGS,
    WRAPPER,
    read,
)

MEGA = 1_000_000


@pytest.mark.parametrize(
    ("text", "values", "repairs"),
    [
        ('{"a": "http://x.example/*y*/", "b": "<!-- -->"}', None, set()),
        ('{"a": 1, // one\n"b": "http://x//y" // two\r"c": 3}', [], set()),
        ('{"a": 1, // one\n"b": "http://x//y"}', [{"a": 1, "b": "http://x//y"}], {COMMENTS}),
        ('/* x */{"a": /* "b": 2, */ 1, /**/ "c": 3} // end', [{"a": 1, "c": 3}], {COMMENTS}),
        ('{"a": 1 /* never closed', [], set()),
        ('{"a": 1} /* never closed', [{"a": 1}], {COMMENTS}),
        ('{"a": [1, 2, ], "b": {"c": 1,},}', [{"a": [1, 2], "b": {"c": 1}}], {COMMAS}),
        ('{"a": 1, /* x */ }', [{"a": 1}], {COMMAS, COMMENTS}),
        ('{"a": 1,, "b": 2,}', [{"a": 1, "b": 2}], {COMMAS}),
        ('{"a": 1},', [{"a": 1}], {COMMAS}),
        ('//<![CDATA[\n{"a": 1}\n//]]>', [{"a": 1}], {WRAPPER}),
        ('//<![CDATA[ {"a": 1} //]]>', [{"a": 1}], {WRAPPER}),
        ('/*<![CDATA[*/{"a": [[1]]}/*]]>*/', [{"a": [[1]]}], {WRAPPER}),
        ('/* <![CDATA[ */ {"a": 1} /* ]]> */', [{"a": 1}], {WRAPPER}),
        ("<![CDATA[[[1]]]]>", [[[1]]], {WRAPPER}),
        ('<!--\n{"a": 1}\n//-->', [{"a": 1}], {WRAPPER}),
        ('<!-- by a theme -->{"a": 1}<!-- end -->', [{"a": 1}], {COMMENTS}),
        ('<p>{<br />\n"a": 1}</p>', [{"a": 1}], {WRAPPER}),
        ('\ufeff\u200b{"a":\u00a01};', [{"a": 1}], {WRAPPER}),
        ('{"a": "x\r\ny\tz\x01"}', [{"a": "x\r\ny\tz\x01"}], {STRINGS}),
        (
            r'{"a": "it\'s \x41 \q \u12", "b": "\u00e9\n"}',
            [{"a": "it's A q u12", "b": "é\n"}],
            {STRINGS},
        ),
        ('{"a": "one \\\n two"}', [{"a": "one  two"}], {STRINGS}),
        ("{'a': 'say \"b\" // x', c: 'it\\'s'}", [{"a": 'say "b" // x', "c": "it's"}], None),
        ('{\u201ca\u201d: \u201cb "c"\u201d}', [{"a": 'b "c"'}], {QUOTES}),
        ("{&quot;a&quot;: &quot;b &amp;amp; c&quot;}", [{"a": "b &amp; c"}], {ENTITIES}),
        ("{&#34;a&#34;: [1,],}", [{"a": [1]}], {ENTITIES, COMMAS}),
        ('{"a": "&quot;b&quot;"}', [{"a": "&quot;b&quot;"}], set()),
        ('{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}], {SEVERAL}),
        ('{"a": 1},\n[{"b": 2}]', [{"a": 1}, [{"b": 2}]], {SEVERAL}),
        ('{"a": 1};\n{"b": 2};', [{"a": 1}, {"b": 2}], {SEVERAL, WRAPPER}),
        ('{"a": NaN, "b": -Infinity, "c": undefined}', [dict.fromkeys("abc")], {NUMBERS}),
        (
            '{"a": 1e999, "b": [+1, .5, 5., -01.5]}',
            [{"a": None, "b": [1, 0.5, 5, -1.5]}],
            {NUMBERS},
        ),
        ('{"code": 01234}', [{"code": "01234"}], {NUMBERS}),
        ('{"a": , "b": [1], "c":}', [{"a": None, "b": [1], "c": None}], {MISSING}),
        ("", [], set()),
        (" // nothing\n", [], set()),
    ],
)
def test_what_pages_write(text: str, values: list[Any] | None, repairs: set[str] | None) -> None:
    found = read(text)
    if values is None:
        values = [json.loads(text)]
    assert found.values == values
    if repairs is not None:
        assert found.repairs == repairs
    assert found.broken is (values == [] and "{" in text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": "she said "b""}', []),
        ('{"a": {"b": 1}', []),
        ('{"a": 1}}', [{"a": 1}]),
        ('{"a": 1}\n{"b": oops}', [{"a": 1}]),
        ('{"a": 1 "b": 2}', []),
        ("var x = {};", []),
        ("{a b: 1}", []),
        ('{"a": 0x10}', []),
        ('{"a": "b', []),
        ("{'a': 'b", []),
        ("[" * 10_000, []),
        ("[/**/" * 10_000, []),
        ("9" * 10_000, []),
        ("[" + "9" * 10_000 + ",]", []),
    ],
)
def test_nothing_is_guessed_and_nothing_lost_in_silence(text: str, values: list[Any]) -> None:
    found = read(text)
    assert found.broken
    assert found.values == values


GARBAGE = {
    **{name: name * (MEGA // len(name)) for name in ("[", "{", "/*", '"', "'", "/", ",", ";", "]")},
    **{name: name * (MEGA // len(name)) for name in ("<!--", "<![CDATA[", "&quot;", "&", "-", "a")},
    **{name: name * (MEGA // len(name)) for name in ('{"a":', '{"a":"x\n', '{"a":1}', "/ ", "[]")},
    **{name: name * (MEGA // len(name)) for name in ("<p", "<br ", "// ", "--", "\\u", "''", "a:")},
    "backslashes": '"' + "\\" * MEGA,
    "open string": '{"a":"' + "x" * MEGA,
    "open comment": "/*" + "*" * MEGA,
    "spaces": "{" + " " * MEGA + "x",
    "comments": '{"a":1}' + "/**/" * (MEGA // 4),
    "digits": "1" * MEGA,
    "commas": "[" + "1,," * (MEGA // 3),
    "random": "".join(random.Random(1).choices("{}[]\",:\\/*<!->& \n1a;'\u201c", k=MEGA)),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_megabyte_of_garbage_ends(name: str) -> None:
    """What is quadratic in a megabyte runs into the time limit of the test."""
    found = read(GARBAGE[name])
    assert len(found.values) <= MAX_VALUES
    assert found.repairs <= set(REPAIRS)


def test_values_and_repairs_are_bounded_and_say_so() -> None:
    many = read("{}" * (MAX_VALUES + 1))
    assert (len(many.values), many.broken) == (MAX_VALUES, True)
    assert not read("{}" * MAX_VALUES).broken
    assert read("[" + "'',\n" * (MAX_REPAIRS + 1) + "0]").broken
    assert len(read("[" + "'',\n" * (MAX_REPAIRS // 3) + "0]").values[0]) == MAX_REPAIRS // 3 + 1


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
_NOISE = ('/* , " ] */', "// } '\n", "\n", "<!-- x, -->", "\ufeff", "//<![CDATA[\n", "//]]>\n")


@settings(max_examples=300, deadline=None)
@given(_JSON, st.randoms(use_true_random=False), st.booleans())
def test_json_with_noise_between_its_tokens_is_the_same_json(
    value: Any, rng: random.Random, noisy: bool
) -> None:
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    assert read(text) == ([json.loads(text)], frozenset(), False)
    pieces = _noisy(value, rng) if noisy else [text]
    found = read("".join(pieces))
    assert (found.values, found.broken) == ([value], False)


def _noisy(value: Any, rng: random.Random) -> list[str]:
    def noise() -> str:
        return rng.choice(_NOISE) if rng.random() < 0.3 else ""

    def comma() -> str:
        return "," if rng.random() < 0.3 else ""

    if isinstance(value, dict):
        inner = []
        for at, (key, one) in enumerate(value.items()):
            inner += ["," if at else "", noise(), json.dumps(key), noise(), ":", *_noisy(one, rng)]
        return [noise(), "{", *inner, comma() if value else "", noise(), "}", noise()]
    if isinstance(value, list):
        inner = []
        for at, one in enumerate(value):
            inner += ["," if at else "", *_noisy(one, rng)]
        return [noise(), "[", *inner, comma() if value else "", noise(), "]", noise()]
    return [noise(), json.dumps(value), noise()]


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


@settings(max_examples=500, deadline=None)
@given(st.text("{}[]\",:\\/*<!->& \n1a;'\u201ctrue.eE+", max_size=80))
def test_anything_is_read_or_told(text: str) -> None:
    found = read(text)
    try:
        assert found.values == [json.loads(text, parse_float=_finite)]
        assert not found.broken
    except ValueError:
        assert (
            found.values or found.broken or not any(char.isalnum() for char in text) or "/" in text
        )
