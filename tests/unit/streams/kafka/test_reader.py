"""Records as JSON lines, each once, also over several runs into one file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError
from streams.kafka.reader import Recent, RecordFile, to_json, unknown_fields


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


def test_recent_forgets_the_oldest() -> None:
    recent = Recent(2)
    assert [recent.first(key) for key in (b"a", b"b", b"a", b"c", b"a")] == [
        True,
        True,
        False,
        True,
        True,
    ]
