"""Records as JSON lines, each once, also over several runs into one file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from streams.run.lines import line, to_json, unknown_fields
from streams.run.output import RecordFile


def record(number: int, **over: Any) -> dict[str, Any]:
    return {
        "crawl": "c",
        "url_id": number.to_bytes(16, "big"),
        "fetch_id": bytes(16),
        "title": "Größe",
        "json_ld": '[{"a": 1}]',
        "microdata": "[]",
        "extracted": "{broken",
        "fetched_at": 1_234,
        "published_at": None,
    } | over


def test_bytes_are_hexadecimal_and_json_text_is_json() -> None:
    found = to_json(record(1))
    assert found["url_id"] == "00" * 15 + "01"
    assert found["json_ld"] == [{"a": 1}]
    assert found["extracted"] == "{broken"
    assert (found["fetched_at"], found["published_at"], found["title"]) == (1_234, None, "Größe")


def test_fields_choose_and_order() -> None:
    assert list(to_json(record(1), ["title", "crawl"])) == ["title", "crawl"]
    assert unknown_fields(["title", "zzz", "aaa"], record(1)) == ["aaa", "zzz"]


def test_each_id_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    out = RecordFile(path)
    assert [out.add(record(n)) for n in (1, 2, 1)] == [True, True, False]
    out.close()
    assert [json.loads(row)["url_id"][-1] for row in path.read_text().splitlines()] == ["1", "2"]


def test_a_visit_at_the_end_of_a_chain_is_a_record_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    page = record(1, redirects=["http://a.example/", "http://a.example/?c=1"])
    first = RecordFile(path)
    rows = [record(1, redirects=[]), page, page, record(1, redirects=[])]
    assert [first.add(row) for row in rows] == [True, True, False, False]
    first.close()
    again = RecordFile(path)
    assert [again.add(row) for row in rows] == [False] * 4
    again.close()
    assert len(path.read_text().splitlines()) == 2


def test_a_file_is_continued_and_a_half_line_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    first = RecordFile(path)
    first.add(record(1))
    first.add(record(2))
    first.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    second = RecordFile(path)
    assert [second.add(record(n)) for n in (1, 2, 3)] == [False, True, True]
    second.close()
    rows = [json.loads(row)["url_id"][-1] for row in path.read_text().splitlines()]
    assert rows == ["1", "2", "3"]


def test_fresh_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("something else\n")
    out = RecordFile(path, fresh=True)
    out.add(record(1))
    out.close()
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize("text", ["something else\n", '{"url": 1}\n', "[]\n", '{"url_id": "zz"}\n'])
def test_another_file_is_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match="line 1"):
        RecordFile(path)
    assert path.read_text() == text


def test_a_stream_gets_lines_and_stays_open() -> None:
    stream = io.StringIO()
    out = RecordFile(None, stream)
    out.add(record(1))
    out.close()
    assert json.loads(stream.getvalue())["title"] == "Größe"
    assert "Größe" in stream.getvalue()


def test_without_output_records_are_only_counted() -> None:
    out = RecordFile(None)
    assert out.add(record(1))
    assert len(out) == 1


JSON_TEXT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4
    ),
    max_leaves=10,
).map(lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")))  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def as_before(made: dict[str, Any]) -> bytes:
    """The line as it always was: by the standard library."""
    text = json.dumps(to_json(made), ensure_ascii=False, separators=(",", ":"))
    return text.encode() + b"\n"


@given(
    st.fixed_dictionaries(
        {
            "url_id": st.binary(min_size=16, max_size=16),
            "fetch_id": st.binary(),
            "title": TEXT,
            "fetched_at": st.integers(-(2**63), 2**63 - 1),
            "published_at": st.none() | st.integers(0, 2**63 - 1),
            "truncated": st.booleans(),
            "headers": st.lists(st.fixed_dictionaries({"name": TEXT, "value": TEXT})),
            "meta": st.dictionaries(TEXT, TEXT),
            "json_ld": JSON_TEXT | TEXT.map("<".__add__),
            "microdata": JSON_TEXT,
            "extracted": JSON_TEXT,
        }
    )
)
def test_a_line_is_byte_for_byte_the_standard_librarys(made: dict[str, Any]) -> None:
    assert line(made) == as_before(made)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":123456789012345678901234567890,"b":1e+16,"c":1.0,"d":-0.0}',
        '["\\u0000\\b\\f\\n\\u001f\x7f\u2028"]',
        '{"a":1,"a":2}',
    ],
)
def test_what_is_json_is_taken_over_as_it_is(text: str) -> None:
    made = record(1, extracted=text)
    assert f'"extracted":{text}'.encode() in line(made)
    assert json.loads(line(made)) == json.loads(as_before(made))


@pytest.mark.parametrize(
    "text",
    ['["\\ud800"]', '{"\\udfff":1}', "[NaN]", "[-Infinity]", "[1e999]", "[" * 100_000, "{broken"],
)
def test_what_no_file_can_hold_stays_text(tmp_path: Path, text: str) -> None:
    """Half a surrogate pair ended the run; a number that is none made a line that is no JSON."""
    made = record(1, json_ld=text)
    out = RecordFile(tmp_path / "x.jsonl")
    assert out.add(made)
    out.close()
    (row,) = (tmp_path / "x.jsonl").read_bytes().splitlines()
    assert orjson.loads(row)["json_ld"] == text
    assert to_json(made)["json_ld"] == text


@pytest.mark.parametrize("text", ["[1,\n 2]", "[1,\r\n2]", "[\n]"])
def test_a_line_is_one_line(text: str) -> None:
    found = line(record(1, json_ld=text))
    assert found.count(b"\n") == 1
    assert b"\r" not in found
    assert json.loads(found)["json_ld"] == json.loads(text)


def test_a_file_of_an_earlier_release_is_continued(tmp_path: Path) -> None:
    """It may hold what JSON has not: a number that is none, half a surrogate pair."""
    path = tmp_path / "x.jsonl"
    rows = [f'{{"url_id": "{1:032x}", "json_ld": [NaN]}}', f'{{"url_id":"{2:032x}","x":"\\ud800"}}']
    path.write_text("\n".join([*rows, ""]))
    out = RecordFile(path)
    assert [out.add(record(n)) for n in (1, 2, 3)] == [False, False, True]
    out.close()
    assert path.read_text().splitlines()[:2] == rows


def test_what_a_record_cannot_hold_is_an_error() -> None:
    with pytest.raises(TypeError, match="object"):
        line(record(1, title=object()))
