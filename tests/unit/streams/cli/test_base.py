"""The command line's frame: help, errors, commands of other packages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from schemas.errors import ConfigError, CrawlError, TransientInfraError
from streams import cli


def raising(error: BaseException) -> Callable[[], Callable[[], None]]:
    def call() -> None:
        raise error

    return lambda: call


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("wrong"), 2),
        (TransientInfraError("wrong"), 75),
        (CrawlError("wrong"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
    ],
)
def test_exit_codes(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "make_app", raising(error))
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == code
    if isinstance(error, CrawlError):
        assert capsys.readouterr().err == "wrong\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "make_app", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_the_help_names_the_commands_and_how_to_begin() -> None:
    result = CliRunner().invoke(cli.make_app(), ["--help"])
    assert result.exit_code == 0
    for word in ("broker", "topics", "up", "down", "version", "crawl run --sample"):
        assert word in result.output


@pytest.mark.parametrize(
    "command",
    ["broker start", "broker stop", "broker status", "broker prepare", "topics create",
     "topics check", "up", "down"],
)  # fmt: skip
def test_every_command_shows_an_example(command: str) -> None:
    result = CliRunner().invoke(cli.make_app(), [*command.split(), "--help"])
    assert result.exit_code == 0
    assert "Example: " in result.output
    assert f"crawl {command}" in result.output or "crawl broker status --address" in result.output


def test_the_help_loads_neither_kafka_nor_settings() -> None:
    script = (
        "import sys\n"
        "from streams.cli import make_app\n"
        "make_app()\n"
        "heavy = {'aiokafka', 'faust', 'pydantic', 'httpx', 'aiohttp', 'structlog', 'jgo'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "[]\n"


def test_a_command_of_another_package_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("cwd", "os:getcwd", cli._GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group: [entry])
    assert CliRunner().invoke(cli.make_app(), ["cwd"]).exit_code == 0


@pytest.mark.parametrize("target", ["no_such_module:f", "os:no_such_function"])
def test_one_that_cannot_be_loaded_says_so_and_breaks_nothing_else(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "entry_points", lambda group: [EntryPoint("bad", target, group)])
    app = cli.make_app()
    assert CliRunner().invoke(app, ["version"]).exit_code == 0
    with pytest.raises(SystemExit) as raised:
        app(["bad"])
    assert raised.value.code == 1
    assert "crawl bad cannot be loaded: " in capsys.readouterr().err


def test_version_names_kafka() -> None:
    result = CliRunner().invoke(cli.make_app(), ["version"])
    assert "embedded Kafka 4.3.1" in result.output


def test_modules_register_themselves() -> None:
    app = cli.make_app()
    assert isinstance(app, typer.Typer)
    names = {command.name or command.callback.__name__ for command in app.registered_commands
             if command.callback}  # fmt: skip
    assert {"up", "down", "version"} <= names
