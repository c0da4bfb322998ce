from __future__ import annotations

import base64
import json
import subprocess
import webbrowser
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from parsers import cli, session
from schemas.crawl import CrawlSpec
from schemas.errors import ConfigError, TransientInfraError

if TYPE_CHECKING:
    from pathlib import Path

PAGE = b"""<html lang=en><title>T</title><h1>Hello <b>you</b></h1><a href=/x>x</a>
<span class=price>EUR 3,50</span><script type="application/ld+json">{"@type":"A"}</script>"""
SPEC = "crawl: shop\nextract:\n  price: {css: .price, type: number}\n"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    for name in ("CRAWL_AGENT", "CRAWL_CONTACT"):
        monkeypatch.delenv(name, raising=False)
    made = typer.Typer()
    made.command()(cli.parse)
    made.command()(cli.shell)
    return made


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.html"
    file.write_bytes(PAGE)
    return file


def _run(app: typer.Typer, *arguments: str, stdin: bytes | None = None) -> Any:
    return CliRunner().invoke(app, [*arguments], input=stdin)


def test_parse_prints_record_links_and_counts(app: typer.Typer, page: Path) -> None:
    done = _run(app, "parse", str(page), "--url", "http://a.example/d/")
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert said["record"]["title"] == "T"
    assert said["record"]["json_ld"] == [{"@type": "A"}]
    assert len(said["record"]["url_id"]) == 32
    assert said["links"] == [{"url": "http://a.example/x", "via": "link", "depth": 1}]
    assert said["counts"]["links_sent"] == 1


def test_parse_with_a_spec_and_chosen_fields(app: typer.Typer, page: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    done = _run(app, "parse", str(page), "--spec", str(spec), "--only", "crawl, extracted")
    assert json.loads(done.stdout) == {"crawl": "shop", "extracted": {"price": 3.5}}
    assert _run(app, "parse", str(page), "--only", "nope").exit_code == 2


def test_parse_reads_standard_input_and_prints_links(app: typer.Typer) -> None:
    done = _run(
        app,
        "parse",
        "-",
        "--links",
        "--url",
        "http://a.example/",
        stdin=b"<!doctype html><a href=y>",
    )
    assert done.stdout == "http://a.example/y\n"


def test_parse_says_why_there_is_no_record(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "deep.html"
    file.write_bytes(b"<div>" * 10_000)
    done = _run(app, "parse", str(file))
    assert done.exit_code == 1
    assert json.loads(done.stdout)["record"]["reason"] == "parse_limit"


def test_a_missing_file_is_a_config_error(app: typer.Typer) -> None:
    done = _run(app, "parse", "/nowhere/at/all.html")
    assert isinstance(done.exception, ConfigError)


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("css('h1')[0].text", "Hello you"),
        ("css('a')[0].attrs['href'], css('h1')[0].css('b')[0].html", "('/x', '<b>you</b>')"),
        ("record['title']", "T"),
        ("links", "['http://localhost/x']"),
        ("page", "<Page 200 http://localhost/>"),
        ("css('h1')", "[<h1 'Hello you'>]"),
        ("import sys; print(len(css('a')))", "1"),
        ("page.counts['records'], page.status", "(1, 200)"),
    ],
)
def test_shell_evaluates(app: typer.Typer, page: Path, command: str, printed: str) -> None:
    done = _run(app, "shell", str(page), "-c", command)
    assert done.stdout == printed + "\n"


def test_shell_is_a_console(app: typer.Typer, page: Path) -> None:
    done = _run(app, "shell", str(page), stdin=b"css('h1')[0].tag\nfetch('nowhere.html')\n1 +\n")
    assert done.exit_code == 0
    assert "'h1'" in done.stdout


def _fetched(monkeypatch: pytest.MonkeyPatch, stdout: bytes) -> list[list[str]]:
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0 if stdout else 1, stdout)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_a_url_is_fetched_by_the_fetcher(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "url": "http://a.example/b",
        "status": 200,
        "headers": [["Content-Type", "text/html; charset=koi8-r"]],
        "body_base64": base64.b64encode("<title>Привет</title>".encode("koi8-r")).decode(),
        "error": None,
    }
    calls = _fetched(monkeypatch, json.dumps(said).encode())
    page = session.load("http://a.example/a", CrawlSpec(crawl="c"))
    assert calls[0][-4:] == ["fetch", "--json", "--body", "http://a.example/a"]
    assert (page.url, page.record["title"]) == ("http://a.example/b", "Привет")
    assert page.record["charset"] == "koi8-r"


@pytest.mark.parametrize("stdout", [b"", b'{"url": "http://a.example/", "error": "dns_not_found"}'])
def test_a_page_that_is_not_fetched(monkeypatch: pytest.MonkeyPatch, stdout: bytes) -> None:
    _fetched(monkeypatch, stdout)
    with pytest.raises(TransientInfraError, match=r"http://a\.example/"):
        session.load("http://a.example/", CrawlSpec(crawl="c"))


def test_view_writes_a_page_with_a_base(monkeypatch: pytest.MonkeyPatch, page: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    shown = session.load(str(page), CrawlSpec(crawl="c"), url='http://a.example/"x').view()
    try:
        text = shown.read_text(encoding="utf-8")
    finally:
        shown.unlink()
    assert '<base href="http://a.example/%22x">' in text
    assert opened == [shown.as_uri()]
