"""The filter in the process's logging: what reaches the log while Kafka is away."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any, NamedTuple

import pytest

from streams.telemetry import logs, outage_filter
from streams.telemetry.outage import Line
from streams.telemetry.outage_filter import OutageFilter, facts, words
from tests.unit.streams.telemetry.test_logs_configure import Configure, configure

__all__ = ["configure"]

CONNECT = "Unable connect to node with id %s: %s"
REFUSED = ConnectionRefusedError(111, "refused")


class Logging(NamedTuple):
    """The filter, and how its log and its clock are had."""

    watch: OutageFilter
    configure: Configure
    clock: list[float]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, configure: Configure) -> Logging:
    """Logging with a filter of its own, a clock that stands still and no thread."""
    clock = [1_000.0]
    watch = OutageFilter()
    monkeypatch.setattr(logs, "OUTAGE", watch)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    return Logging(watch, configure, clock)


def test_held_back_counted_and_told(made: Logging) -> None:
    stream = made.configure(CRAWL_LOG_FORMAT="json")
    made.watch.reached((), {"1": "a.example:9092", "2": "b.example:9092"})
    kafka = logging.getLogger("aiokafka")
    for _ in range(10):
        kafka.error(CONNECT, 2, REFUSED)
    kafka.error("Topic %s is not authorized for this client", "t")
    made.clock[0] += 61
    kafka.error(CONNECT, 2, REFUSED)
    made.watch.reached(("2",), {})
    made.clock[0] += 6
    assert not made.watch.pass_time()
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(row["event"], row["level"]) for row in rows] == [
        ("a part of Kafka cannot be reached", "error"),
        ("Topic t is not authorized for this client", "error"),
        ("a part of Kafka still cannot be reached", "error"),
        ("Kafka is reached again", "warning"),
    ]
    assert (rows[0]["nodes"], rows[0]["of"]) == ("2 (b.example:9092)", 2)
    assert (rows[2]["held_back"], rows[2]["for_s"]) == (10, 61.0)
    assert rows[3]["held_back"] == 10
    assert rows[2]["since"] == rows[3]["since"]
    assert rows[0]["role"] == "fetcher"


def test_a_bootstrap_server_is_the_node_with_its_address(made: Logging) -> None:
    stream = made.configure(CRAWL_LOG_FORMAT="json")
    made.watch.reached(("1",), {"1": "a.example:9092"})
    kafka = logging.getLogger("aiokafka")
    kafka.error(CONNECT, 1, REFUSED)
    kafka.error('Unable connect to "%s:%s": %s', "a.example", 9092, REFUSED)
    made.watch.reached(("1",), {"1": "a.example:9092"})
    made.clock[0] += 6
    assert not made.watch.pass_time()
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(row["nodes"], row["of"]) for row in rows] == [("1 (a.example:9092)", 1)] * 2


def test_a_server_that_failed_before_any_node_was_known_is_its_node(made: Logging) -> None:
    made.configure()
    logging.getLogger("aiokafka").error('Unable connect to "%s:%s": %s', "a.example", 1, REFUSED)
    made.watch.reached(("7",), {"7": "a.example:1"})
    made.clock[0] += 6
    assert not made.watch.pass_time()


def test_the_end_of_the_process_says_what_was_held(made: Logging) -> None:
    stream = made.configure(CRAWL_LOG_FORMAT="json")
    kafka = logging.getLogger("aiokafka")
    kafka.error(CONNECT, 1, REFUSED)
    made.clock[0] += 1
    kafka.error(CONNECT, 1, REFUSED)
    made.watch.tell()
    made.watch.tell()
    (_, row) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (row["event"], row["held_back"]) == ("Kafka still cannot be reached", 1)


def test_a_critical_line_has_the_state_before_it(made: Logging) -> None:
    """After it a process may end at once, without any exit handler."""
    stream = made.configure(CRAWL_LOG_FORMAT="json")
    kafka = logging.getLogger("aiokafka")
    kafka.error(CONNECT, 1, REFUSED)
    made.clock[0] += 1
    kafka.error(CONNECT, 1, REFUSED)
    logging.getLogger("streams.process.exits").critical("commit failed")
    rows = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert rows == [
        "Kafka cannot be reached",
        "Kafka still cannot be reached",
        "commit failed",
    ]


def test_one_thread_for_one_outage(made: Logging, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(threading.Thread, "start", lambda _: started.append(1))
    made.configure()
    kafka = logging.getLogger("aiokafka")
    for _ in range(3):
        kafka.error(CONNECT, 1, REFUSED)
    assert len(started) == 1
    made.watch.reached(("1",), {})
    made.clock[0] += 6
    made.watch.pass_time()
    kafka.error(CONNECT, 1, REFUSED)
    assert len(started) == 2


def test_all_roles_log_through_the_one_filter() -> None:
    assert outage_filter.OUTAGE is logs.OUTAGE


@pytest.mark.parametrize(
    ("line", "known", "event"),
    [
        (Line("away", ("1",), 0, 0, ""), {"1": "a"}, "Kafka cannot be reached"),
        (Line("away", ("1",), 0, 0, ""), {"1": "a", "2": "b"}, "a part of Kafka cannot be reached"),
        (Line("away", ("1", "2"), 0, 0, ""), {"1": "a", "2": "b"}, "Kafka cannot be reached"),
        (Line("away", (), 0, 0, ""), {"1": "a"}, "Kafka cannot be reached"),
        (Line("still", ("1",), 0, 9, ""), {"1": "a"}, "Kafka still cannot be reached"),
        (Line("still", (), 0, 9, ""), {}, "Kafka is reached again, but does not serve yet"),
        (
            Line("back", ("2",), 0, 9, "", ("2",)),
            {},
            "nodes of Kafka that could not be reached are not asked any more",
        ),
        (Line("back", ("1", "2"), 0, 9, "", ("2",)), {}, "Kafka is reached again"),
    ],
)
def test_words(line: Line, known: dict[str, str], event: str) -> None:
    assert words(line, known) == event


def test_facts_name_nodes_that_are_not_asked_any_more() -> None:
    found = facts(Line("back", ("1", "2"), 3.21, 9, "E: x", ("2",)), {"1": "a:1"}, "noon")
    assert found == {
        "nodes": "1 (a:1), 2",
        "of": 2,
        "not_asked_any_more": "2",
        "since": "noon",
        "for_s": 3.2,
        "held_back": 9,
        "last_error": "E: x",
    }
