"""The house is as ARCHITECTURE.md says: rooms, who decides what, and no file that grew too long."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("streams", "fetchers", "parsers")
MAX_LINES = 450
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| ")
]
ROOMS = [row[0].strip("`") for row in ROWS if len(row) == 3 and "/" in row[0]]
DECIDED = [row for row in ROWS if len(row) == 2 and row[1].startswith("`")]


def test_every_room_is_in_the_table_and_says_what_it_is() -> None:
    found = {
        str(init.parent.relative_to(ROOT))
        for package in PACKAGES
        for init in (ROOT / package).glob("*/__init__.py")
    }
    assert set(ROOMS) == found
    for room in found:
        doc = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text("utf-8")))
        assert doc, room


@pytest.mark.parametrize("row", DECIDED, ids=lambda row: str(row[0]))
def test_it_is_decided_there(row: list[str]) -> None:
    path, name = re.fullmatch(r"`([^`]+)` `([^`]+)`", row[1]).groups()  # type: ignore[union-attr]
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    names = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.AnnAssign(target=ast.Name(id=target)):
                names.add(target)
            case ast.Assign(targets=[ast.Name(id=target)]):
                names.add(target)
    assert name in names


def test_twenty_questions_at_least() -> None:
    assert len(DECIDED) >= 20
    assert len({row[0] for row in DECIDED}) == len(DECIDED)


def test_no_file_grew_too_long() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    lengths = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for name in listed
        if (ROOT / name).exists()
    }
    assert len(lengths) > 200
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}
