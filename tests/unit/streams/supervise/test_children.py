"""Command lines, environment and log files of workers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from streams.settings import env_name, load
from streams.supervise import children
from streams.supervise.__main__ import parse_counts


def test_command_lines() -> None:
    assert children.command("fetcher") == [sys.executable, "-m", "fetchers"]
    assert children.command("parser") == [sys.executable, "-m", "parsers"]
    dedup = children.command("dedup")
    assert dedup[:3] == [sys.executable, "-m", "faust"]
    assert dedup[-3:] == ["-A", "streams", "worker"]


def test_a_child_reads_the_settings_we_have(tmp_path: Path) -> None:
    ours = load(
        {},
        agent="bot",
        contact="https://bot.example/",
        allow_networks="10.0.0.0/8,fd00::/8",
        retry_tiers_s="1,2,3,4,5.5",
        verify_tls=False,
        window=7,
        data_dir=tmp_path,
        metrics_port=0,
        blob_url="s3://bucket/x",
    )
    theirs = load(children.environment(ours, "127.0.0.1:9092", base={}))
    assert theirs == ours.model_copy(update={"bootstrap_servers": "127.0.0.1:9092"})


def test_all_defaults_survive_too(tmp_path: Path) -> None:
    ours = load({}, data_dir=tmp_path)
    theirs = load(children.environment(ours, "h:1", base={}))
    assert theirs == ours.model_copy(update={"bootstrap_servers": "h:1"})


def test_our_environment_does_not_override_what_the_child_shall_see(tmp_path: Path) -> None:
    base = {"CRAWL_WINDOW": "99", "KAFKA_BOOTSTRAP_SERVERS": "other:1", "PATH": "/bin"}
    env = children.environment(load({}, data_dir=tmp_path), "h:1", base)
    assert "CRAWL_WINDOW" not in env
    assert env["KAFKA_BOOTSTRAP_SERVERS"] == "h:1"
    assert env["PATH"] == "/bin"


def test_paths_do_not_depend_on_the_child_s_folder() -> None:
    env = children.environment(load({}, data_dir=Path("x")), "h:1", base={})
    assert Path(env[env_name("data_dir")]).is_absolute()


def test_secrets_travel(tmp_path: Path) -> None:
    ours = load(
        {"KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p", "CRAWL_DATA_DIR": str(tmp_path)}
    )
    assert children.environment(ours, "h:1", base={})["KAFKA_SASL_PASSWORD"] == "p"


def test_output_is_appended_and_a_large_log_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "logs" / "x-0.log"
    for word in ("one", "two"):
        assert children.spawn(["/bin/echo", word], {}, log).wait() == 0
    assert log.read_text() == "one\ntwo\n"
    monkeypatch.setattr(children, "_LOG_KEEP_BYTES", 3)
    assert children.spawn(["/bin/echo", "three"], {}, log).wait() == 0
    assert log.read_text() == "three\n"
    assert (tmp_path / "logs" / "x-0.log.1").read_text() == "one\ntwo\n"


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert children.tail(log) == ""
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(5000)) + b"\xff\n")
    assert children.tail(log, lines=2) == "line 4999\n\N{REPLACEMENT CHARACTER}"


def test_counts_of_the_background_supervisor() -> None:
    assert parse_counts(["dedup=1", "fetcher=20"]) == {"dedup": 1, "fetcher": 20}


@pytest.mark.parametrize("argument", ["fetcher", "fetcher=-1", "fetcher=x", "broker=1", "=1"])
def test_counts_that_are_none(argument: str) -> None:
    with pytest.raises(ConfigError, match=argument):
        parse_counts([argument])
