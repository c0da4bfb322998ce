"""Seeds of commands: arguments, files, standard input."""

from __future__ import annotations

import io
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from schemas.crawl import ScopeKind
from streams.cli._seeds import gather_seeds
from streams.cli.run import run


def test_arguments_and_file_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("https://b.example/\n")
    seeds, problems = gather_seeds(["https://a.example/"], str(path))
    assert [seed.host for seed in seeds] == ["a.example", "b.example"]
    assert problems == []


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("https://a.example/\nnope\n"))
    seeds, problems = gather_seeds([], "-")
    assert [seed.host for seed in seeds] == ["a.example"]
    assert problems[0].startswith("standard input, line 2:")


def test_problems_of_both_are_joined(tmp_path: Path) -> None:
    _, problems = gather_seeds(["nope", "ftp://a.example/"], str(tmp_path / "missing"))
    assert len(problems) == 3


def test_bytes_that_are_no_text_are_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "seeds.bin"
    path.write_bytes(b"\xff\xfe\x00")
    _, problems = gather_seeds([], str(path))
    assert len(problems) == 1


def test_scopes_of_the_command_are_those_of_the_spec() -> None:
    hint = get_type_hints(run)["scope"]
    offered = {value for part in get_args(hint) for value in get_args(part)}
    assert offered == set(get_args(ScopeKind))
