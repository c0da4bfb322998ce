"""The broker's configuration as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.topics import MAX_MESSAGE_BYTES
from streams.broker.config import cause, log4j2_properties, server_properties


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_every_listener_is_on_loopback() -> None:
    found = properties(server_properties(Path("/d"), 9092, 9093))
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:9093"


def test_the_largest_message_fits_and_topics_are_never_made_by_accident() -> None:
    found = properties(server_properties(Path("/d"), 1, 2))
    assert int(found["message.max.bytes"]) > MAX_MESSAGE_BYTES
    assert found["auto.create.topics.enable"] == "false"


def test_internal_topics_need_no_second_broker() -> None:
    found = properties(server_properties(Path("/d"), 1, 2))
    single = {name: value for name, value in found.items() if "replication.factor" in name}
    assert set(single.values()) == {"1"}
    assert {value for name, value in found.items() if name.endswith("min.isr")} == {"1"}


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/a b/c", "/a b/c"),
        ("/caf\u00e9", "/caf\\u00e9"),
        ("/\U0001f600", "/\\ud83d\\ude00"),
        ("/back\\slash", "/back\\\\slash"),
    ],
)
def test_paths_are_escaped_as_java_reads_them(path: str, written: str) -> None:
    assert properties(server_properties(Path(path), 1, 2))["log.dirs"] == written
    log = properties(log4j2_properties(Path(path)))
    assert log["appender.file.fileName"] == written
    assert log["appender.file.filePattern"] == f"{written}.%i"


def test_text_is_what_a_properties_file_can_hold() -> None:
    assert server_properties(Path("/\u00fc"), 1, 2).isascii()
    assert log4j2_properties(Path("/\u00fc")).isascii()


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("java.io.IOException: No space left on device", "the disk is full"),
        ("java.net.BindException: Address already in use", "taken by another process"),
        ("Error reading meta.properties file", "damaged"),
        ("java.lang.OutOfMemoryError: Java heap space", "heap"),
    ],
)
def test_known_log_lines_are_told_in_words(line: str, meaning: str) -> None:
    found = cause(f"INFO all well\nERROR {line}\n")
    assert found is not None
    assert meaning in found


def test_unknown_log_lines_are_left_to_the_reader() -> None:
    assert cause("ERROR something new") is None
