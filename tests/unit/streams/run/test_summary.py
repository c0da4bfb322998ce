"""Counters folded into one set of numbers, the report, and the exit code."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from streams.run.display import LineDisplay, RateMeter, View, line, panel
from streams.run.summary import Summary, duration, size
from streams.standing.counts import Counts, fold

STAGES = {
    "dedup": {
        "admitted": 20,
        "duplicates": 7,
        "rejected.out_of_scope": 2,
        "trapped.b.example": 3,
        "trapped.a.example": 5,
    },
    "fetcher": {
        "pages": 10,
        "fetched": 12,
        "redirects": 2,
        "retries": 3,
        "bytes": 2_048,
        "failed.http_4xx": 3,
        "failed.incomplete": 1,
        "disregarded.robots_denied": 2,
        "rejected.budget_spent": 2,
        "rejected.out_of_scope": 1,
    },
    "parser": {
        "records": 12,
        "links_found": 90,
        "rejected.out_of_scope": 4,
        "failed.parse_error": 0,
    },
}


def summary(**over: Any) -> Summary:
    values: dict[str, Any] = {
        "crawl": "c",
        "ending": "drained",
        "counts": fold(STAGES),
        "written": 12,
        "waiting": 0,
        "crawl_s": 4.0,
        "elapsed_s": 9.0,
        "logs": "logs",
    }
    return Summary(**(values | over))


def test_fold_sums_reasons_over_stages_largest_first() -> None:
    counts = fold(STAGES)
    assert (counts.pages, counts.redirects, counts.records, counts.duplicates) == (10, 2, 12, 7)
    assert list(counts.failed.items()) == [("http_4xx", 3), ("incomplete", 1)]
    assert counts.rejected == {"out_of_scope": 7, "budget_spent": 2}
    assert list(counts.trapped.items()) == [("a.example", 5), ("b.example", 3)]
    assert counts.disregarded == {"robots_denied": 2}


def test_ended_balances_admitted() -> None:
    counts = fold(STAGES)
    assert counts.ended == 10 + 2 + 4 + 2 + 2 == counts.admitted


def test_no_counters_fold_to_zeros() -> None:
    assert fold({}) == Counts()


@pytest.mark.parametrize(
    ("over", "code"),
    [
        ({}, 0),
        ({"ending": "budget"}, 0),
        ({"ending": "interrupted"}, 130),
        ({"ending": "failed"}, 1),
        ({"problems": ("a fetcher died",)}, 1),
        ({"counts": Counts()}, 1),
        ({"counts": Counts(not_modified=1)}, 0),
    ],
)
def test_exit_code(over: dict[str, Any], code: int) -> None:
    assert summary(**over).exit_code == code


def test_report_names_what_matters() -> None:
    text = "\n".join(summary(waiting=4, problems=("a fetcher died",)).lines())
    assert "10 in 4.0 s (2.5/s)" in text
    assert "http_4xx 3" in text
    assert "4 attempts are due later" in text
    assert "--resume c" in text
    assert "problem: a fetcher died" in text
    assert "not modified" not in text


def test_report_of_nothing_says_so() -> None:
    assert summary(counts=Counts()).lines()[-1].endswith("no page was fetched")


def test_json_is_json() -> None:
    data = json.loads(json.dumps(summary().as_json()))
    assert (data["ok"], data["pages_per_s"], data["counts"]["failed"]["http_4xx"]) == (True, 2.5, 3)


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1_536, "1.5 KiB"), (1 << 41, "2.0 TiB")])
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(5.9, "5 s"), (65, "1:05 min"), (3_720, "1:02 h")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_rate_is_of_the_last_seconds() -> None:
    meter = RateMeter(10.0)
    assert meter.add(0.0, 0) == 0
    assert meter.add(5.0, 100) == 20
    assert meter.add(20.0, 100) == 0


def _view(**over: Any) -> View:
    base = View("c", "crawling", 3.0, fold(STAGES), 12, {"urls": 4}, 100, 7.4)
    return base._replace(**over)


def _drawn(view: View) -> str:
    """A panel as a note draws it: without markup."""
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as capture:
        console.print(panel(view, 2.0), markup=False, highlight=False)
    return capture.get()


def test_line_and_panel_show_the_moment() -> None:
    text = line(_view(), 2.0)
    assert text.startswith("c: crawling, 10 pages, 2.0/s, 12 records, 4 queued, 4 failed")
    assert text.endswith("next retry in 7 s")
    shown = _drawn(_view())
    assert "10 of 100   2.0/s   3 s" in shown
    assert "4 failed   3 retries   2 disregarded" in shown
    assert "urls 4" in shown
    assert "in 7 s" in shown
    bare = _drawn(_view(budget=None, queue={}, next_due_s=None))
    assert "empty" in bare
    assert "next retry" not in bare


def test_lines_come_every_few_seconds_and_at_new_phases(capsys: pytest.CaptureFixture[str]) -> None:
    with LineDisplay() as display:
        for at, phase in ((0.0, "a"), (1.0, "a"), (2.0, "b"), (3.0, "b"), (7.5, "b")):
            display.update(_view(elapsed_s=at, phase=phase))
    assert len(capsys.readouterr().err.splitlines()) == 3
