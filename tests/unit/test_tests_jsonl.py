from __future__ import annotations

from typing import TYPE_CHECKING

from tests.jsonl import written_rows

if TYPE_CHECKING:
    from pathlib import Path


def test_a_line_counts_when_its_end_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert written_rows(path) == []
    path.write_bytes(b'{"id": 1}\n{"id": "\xc3')
    assert written_rows(path) == [{"id": 1}]
    path.write_bytes(b'{"id": 1}\n{"id": "\xc3\xa4"}\n')
    assert written_rows(path) == [{"id": 1}, {"id": "ä"}]
