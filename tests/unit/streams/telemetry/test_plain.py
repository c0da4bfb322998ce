from __future__ import annotations

import io

import pytest
from rich.console import Console

from fetchers.check import show
from streams.run.lines import brief
from streams.telemetry.plain import plain

TITLE = "\x1b]0;owned\x07"
CLEAR = "\x9b2J"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Größe, 大きさ, \U0001f426", "Größe, 大きさ, \U0001f426"),
        (TITLE, r"\x1b]0;owned\x07"),
        (CLEAR, r"\x9b2J"),
        ("a\r\nb\tc\x00\x7f", r"a\r\nb\tc\x00\x7f"),
        ("moc.elpmaxe\u202e", r"moc.elpmaxe\u202e"),
        ("a\u2028b", r"a\u2028b"),
        ("", ""),
    ],
)
def test_commands_are_seen_and_not_obeyed(text: str, seen: str) -> None:
    assert plain(text) == seen


def test_a_line_for_people_has_none() -> None:
    record = {
        "status": 200, "kind": "html", "url": "http://a.example/", "title": f"a{TITLE}{CLEAR}\nb",
        "location": "", "content_type": "text/html",
    }  # fmt: skip
    assert brief(record).isprintable()


def test_a_report_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(
        "fetchers.check.Console", lambda **rest: Console(file=out, width=200, **rest)
    )
    hop = {
        "url": "http://a.example/", "addresses": ["127.0.0.1"], "delay_s": 0.0,
        "outcome": "transfer_coding", "detail": f"x{TITLE}",
        "headers": [("server", f"x{CLEAR}"), ("location", f"/{TITLE}")],
    }  # fmt: skip
    show({"hops": [hop]}, headers=True)
    assert all(row.isprintable() for row in out.getvalue().splitlines())
    assert r"server: x\x9b2J" in out.getvalue()
