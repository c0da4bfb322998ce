"""One form of line for ours and others', at the level asked for."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from streams.settings import load
from streams.telemetry import logs

Configure = Callable[..., io.StringIO]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    """Configures logging onto a buffer; everything is as before afterwards."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in logs._QUIET}

    def apply(**environ: str) -> io.StringIO:
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        logs.configure(load(environ), "fetcher")
        return stream

    yield apply
    structlog.reset_defaults()
    root.handlers[:], level = before
    root.setLevel(level)
    for name, value in levels.items():
        logging.getLogger(name).setLevel(value)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_line_as_json(configure: Configure) -> None:
    stream = configure(CRAWL_LOG_FORMAT="json")
    structlog.get_logger("streams.x").info("fetched", url="https://u:p@a.example/", n=3)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "fetched",
        "level": "info",
        "logger": "streams.x",
        "n": 3,
        "role": "fetcher",
        "url": "https://***@a.example/",
    }


def test_a_library_line_has_the_same_form(configure: Configure) -> None:
    stream = configure(CRAWL_LOG_FORMAT="json")
    logging.getLogger("aiokafka.consumer").warning("lost %s", "broker")
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["role"]) == ("lost broker", "warning", "fetcher")


def test_an_exception_is_one_line_of_json_and_masked(configure: Configure) -> None:
    stream = configure(
        CRAWL_LOG_FORMAT="json", KAFKA_SASL_USERNAME="u", KAFKA_SASL_PASSWORD="hunter22"
    )
    try:
        int("hunter22 at https://x:y@a.example/")
    except ValueError:
        structlog.get_logger("x").exception("failed")
    (line,) = lines(stream)
    assert "*** at https://***@a.example/" in line["exception"]
    assert "hunter22" not in stream.getvalue()


def test_the_console_form(configure: Configure) -> None:
    stream = configure()
    structlog.get_logger("streams.x").warning("slow", host="a.example")
    text = stream.getvalue()
    assert "warning" in text
    assert "slow" in text
    assert "host=a.example" in text
    assert "\x1b[" not in text


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "error"]),
        ("info", ["info", "error"]),
        ("error", ["error"]),
    ],
)
def test_levels(configure: Configure, level: str, shown: list[str]) -> None:
    stream = configure(CRAWL_LOG_FORMAT="json", CRAWL_LOG_LEVEL=level)
    log = structlog.get_logger("x")
    log.debug("d")
    log.info("i")
    log.error("e")
    assert [line["level"] for line in lines(stream)] == shown


def test_chatty_libraries_are_quiet_unless_debugging(configure: Configure) -> None:
    stream = configure(CRAWL_LOG_FORMAT="json")
    logging.getLogger("aiokafka.conn").info("chatter")
    assert lines(stream) == []
    stream = configure(CRAWL_LOG_FORMAT="json", CRAWL_LOG_LEVEL="debug")
    logging.getLogger("aiokafka.conn").info("chatter")
    assert len(lines(stream)) == 1


def test_context_variables_are_on_every_line(configure: Configure) -> None:
    stream = configure(CRAWL_LOG_FORMAT="json")
    with structlog.contextvars.bound_contextvars(crawl="c1"):
        structlog.get_logger("x").info("a")
        logging.getLogger("y").warning("b")
    assert [line["crawl"] for line in lines(stream)] == ["c1", "c1"]


def test_what_json_cannot_hold_is_written_as_text(configure: Configure) -> None:
    stream = configure(CRAWL_LOG_FORMAT="json")
    structlog.get_logger("x").info("odd", value=object)
    assert lines(stream)[0]["value"] == "<class 'object'>"


def test_a_line_for_people_has_no_commands_for_their_terminal(configure: Configure) -> None:
    stream = configure(CRAWL_LOG_FORMAT="console")
    structlog.get_logger("streams.x").info("failed", detail="x\x1b]0;owned\x07\nsecond")
    logging.getLogger("y").warning("said %s", "\x9b2J")
    told = stream.getvalue()
    assert r"detail=x\x1b]0;owned\x07\nsecond" in told
    assert r"said \x9b2J" in told
    assert all(line.isprintable() for line in told.splitlines())


def test_a_message_of_several_lines_stays_so(configure: Configure) -> None:
    stream = configure(CRAWL_LOG_FORMAT="console")
    structlog.get_logger("streams.x").error("topics:\n  one\x1b[2J\n  two")
    told = stream.getvalue()
    assert "topics:\n  one\\x1b[2J\n  two" in told
