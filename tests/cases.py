"""The case list in `tests/data/cases.jsonl`: small inputs that broke other crawlers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "data" / "cases.jsonl"


@cache
def _all() -> dict[str, dict[str, Any]]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return {entry["id"]: entry for entry in map(json.loads, lines)}


def case(case_id: str) -> dict[str, Any]:
    """One case by its id; KeyError when there is none."""
    return _all()[case_id]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    """All cases of one kind, e.g. `robots`, by id."""
    return {name: entry for name, entry in _all().items() if entry["kind"] == kind}


def ids(prefix: str) -> frozenset[str]:
    """Ids of all cases of a kind, e.g. `url-`."""
    return frozenset(name for name in _all() if name.startswith(prefix))


def given(case_id: str, key: str = "rows") -> list[Any]:
    """The list under `input` of a case, for `pytest.mark.parametrize`."""
    rows = case(case_id)["input"][key]
    assert isinstance(rows, list)
    return rows
