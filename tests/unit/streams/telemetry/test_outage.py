"""What is logged of an outage: when it begins, each minute, when it is over, and all else."""

from __future__ import annotations

import builtins
import importlib.util
import re
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiokafka import errors

from streams.telemetry import outage
from streams.telemetry.outage import Line, Outage, Rules, Symptom

RULES = Rules(every_s=60.0, quiet_s=5.0, forget_s=90.0)
CONNECT = "Unable connect to node with id %s: %s"
FETCH = "Failed fetch messages from %s: %s"
REFUSED = ConnectionRefusedError(111, "refused")


class Play:
    """An outage as it goes on."""

    def __init__(self) -> None:
        self.state: Outage | None = None
        self.lines: list[Line] = []
        self.shown: list[Any] = []

    def said(self, at: float, message: Any, *arguments: Any) -> None:
        symptom = outage.read(message, arguments)
        if symptom is None:
            self.shown.append(message)
            return
        self.state, show, lines = outage.on_symptom(self.state, symptom, at, RULES)
        self.lines += lines
        if show:
            self.shown.append(message)

    def reached(self, *nodes: str) -> None:
        self.state = outage.on_reached(self.state, nodes)

    def time(self, start: float, end: float) -> None:
        at = start
        while at <= end:
            self.state, lines = outage.on_time(self.state, at, RULES)
            self.lines += lines
            at += 1.0

    @property
    def told(self) -> list[str]:
        return [line.what for line in self.lines]


def test_one_line_when_it_goes_one_a_minute_one_when_it_is_back() -> None:
    play = Play()
    play.said(0, FETCH, 1, errors.KafkaConnectionError("closed"))
    for tenth in range(1_500):
        at = tenth / 10
        play.said(at, CONNECT, 1, REFUSED)
        play.said(at, FETCH, 1, errors.NodeNotReadyError("node 1"))
        play.said(at, "Unable to update metadata from %s", [1])
    play.reached("1")
    play.time(150.0, 160.0)
    assert play.told == ["away", "still", "still", "back"]
    assert play.shown == []
    assert play.state is None
    away, first, second, back = play.lines
    assert (away.nodes, away.held, away.error) == (("1",), 0, "KafkaConnectionError: closed")
    assert [round(line.for_s) for line in play.lines] == [0, 60, 120, 150]
    assert 1_790 < first.held < 1_810
    assert 3_590 < second.held < 3_610
    assert (back.held, back.nodes) == (3 * 1_500, ("1",))
    assert first.error == "ConnectionRefusedError: [Errno 111] refused"


def test_a_second_outage_begins_anew() -> None:
    play = Play()
    for start in (0.0, 100.0):
        play.said(start, CONNECT, 1, REFUSED)
        play.reached("1")
        play.time(start + 1, start + 7)
    assert play.told == ["away", "back"] * 2
    assert play.lines[-1].held == 0


def test_a_node_that_comes_and_goes_at_once_is_one_outage() -> None:
    play = Play()
    for second in range(20):
        play.said(second, CONNECT, 1, REFUSED)
        play.reached("1")
        play.time(second + 0.5, second + 0.5)
    assert play.told == ["away"]
    play.time(20, 30)
    assert play.told == ["away", "back"]


def test_a_second_client_that_is_still_out_keeps_it_open() -> None:
    play = Play()
    play.said(0, CONNECT, 1, REFUSED)
    play.reached("1")
    play.said(0.1, CONNECT, 1, REFUSED)
    play.time(1, 30)
    assert play.told == ["away"]
    play.reached("1")
    play.time(31, 32)
    assert play.told == ["away", "back"]


def test_which_nodes_are_away() -> None:
    play = Play()
    play.said(0, CONNECT, 2, REFUSED)
    play.said(1, CONNECT, 3, REFUSED)
    play.said(2, CONNECT, 2, REFUSED)
    play.said(2, CONNECT, 3, REFUSED)
    assert [line.nodes for line in play.lines] == [("2",), ("2", "3")]
    play.reached("2")
    play.said(70, CONNECT, 3, REFUSED)
    assert play.lines[-1].nodes == ("3",)
    play.reached("3")
    play.time(71, 80)
    assert (play.told, play.lines[-1].nodes) == (["away", "away", "still", "back"], ("2", "3"))


def test_connections_to_other_nodes_end_nothing() -> None:
    play = Play()
    play.said(0, CONNECT, 2, REFUSED)
    play.reached("1", "3")
    play.time(1, 50)
    assert play.told == ["away"]


def test_a_node_whose_partitions_have_moved_is_given_up() -> None:
    play = Play()
    play.said(0, CONNECT, 2, REFUSED)
    play.time(1, 120)
    assert play.told == ["away", "still", "back"]
    assert play.lines[-1].given_up == ("2",)


def test_a_node_that_hangs_fails_seldom_and_is_not_given_up() -> None:
    play = Play()
    for at in range(0, 300, 31):
        play.said(at, CONNECT, 1, TimeoutError())
        play.time(at, at + 30)
    assert set(play.told) == {"away", "still"}
    assert len(play.lines) < 8


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (errors.AuthenticationFailedError("no"), "AuthenticationFailedError"),
        (errors.SaslAuthenticationFailed("no"), "SaslAuthenticationFailed"),
        (ssl.SSLCertVerificationError("expired"), "SSLCertVerificationError"),
        (socket.gaierror(-2, "no such name"), "gaierror"),
    ],
)
def test_another_cause_is_shown_once(error: Exception, name: str) -> None:
    play = Play()
    play.said(0, CONNECT, 1, REFUSED)
    for at in range(1, 50):
        play.said(at, CONNECT, 1, error)
    assert play.shown == [CONNECT]
    assert play.state is not None
    assert play.state.error.startswith(name)
    alone = Play()
    for at in range(1, 50):
        alone.said(at, CONNECT, 1, error)
    assert (alone.told, alone.shown) == (["away"], [])
    assert alone.lines[0].error.startswith(name)


@pytest.mark.parametrize(
    "message",
    [
        "Heartbeat failed for group %s: generation id is not  current.",
        "Heartbeat failed for group %s because it is rebalancing",
        "Heartbeat failed: local member_id was not recognized; resetting and re-joining group",
        "OffsetCommit failed for group %s due to group error (%s), will rejoin",
        "Topic %s is not authorized for this client",
        "Unexpected error in coordinator routine",
        {"event": "the worker ends", "why": "delivery failed"},
        {"event": "poison message parked"},
    ],
)
def test_what_is_no_symptom_is_always_shown(message: Any) -> None:
    play = Play()
    play.said(0, CONNECT, 1, REFUSED)
    for at in range(1, 4):
        play.said(at, message, "g", "e")
    assert play.shown == [message] * 3


def test_our_own_repeated_lines_are_shown_once_in_an_outage_and_always_without() -> None:
    event = {"event": "commit failed; it is tried again", "error": "no answer in 15 s"}
    play = Play()
    play.said(0, event)
    play.said(1, event)
    assert len(play.shown) == 2
    play.said(2, CONNECT, 1, REFUSED)
    play.said(3, event)
    play.said(20, event)
    assert len(play.shown) == 3
    assert play.state is not None
    assert play.state.held == 1


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("Heartbeat session expired - marking coordinator dead", ()),
        ("Marking the coordinator dead (node %s)for group %s.", (1, "g")),
        (
            "Got error produce response on topic-partition %s, retrying. Error: %s",
            ("t", errors.NotLeaderForPartitionError),
        ),
    ],
)
def test_what_may_have_other_causes_is_shown_without_an_outage(
    message: str, arguments: tuple[Any, ...]
) -> None:
    play = Play()
    play.said(0, message, *arguments)
    assert (play.shown, play.lines) == ([message], [])
    play.said(1, CONNECT, 1, REFUSED)
    play.said(2, message, *arguments)
    assert play.shown == [message]


def test_too_few_replicas_are_told_while_a_node_is_away() -> None:
    form = "Got error produce response on topic-partition %s, retrying. Error: %s"
    play = Play()
    play.said(0, CONNECT, 3, REFUSED)
    for at in range(1, 10):
        play.said(at, form, "t", errors.NotEnoughReplicasError)
    assert play.shown == [form]


def test_a_failure_without_a_node_is_over_when_it_is_quiet() -> None:
    play = Play()
    form = "Group Coordinator Request failed: %s"
    for at in range(10):
        play.said(at, form, errors.GroupCoordinatorNotAvailableError())
    play.time(10, 20)
    assert (play.told, play.shown) == (["away", "back"], [])


def test_a_broker_that_answers_and_does_not_serve_is_told_each_minute() -> None:
    play = Play()
    play.said(0, CONNECT, 1, REFUSED)
    play.reached("1")
    for at in range(1, 130):
        play.said(at, "Got error produce response: %s", errors.NotLeaderForPartitionError())
        play.time(at, at)
    assert play.told == ["away", "still", "still"]
    assert (play.lines[-1].nodes, play.lines[-1].error[:12]) == ((), "NotLeaderFor")


def test_silence_after_a_connection_is_not_told_as_trouble() -> None:
    play = Play()
    play.said(0, CONNECT, 1, REFUSED)
    play.reached("1")
    quick = RULES._replace(every_s=2.0)
    for second in range(1, 5):
        play.state, lines = outage.on_time(play.state, second, quick)
        play.lines += lines
    assert play.told == ["away"]


def test_the_bootstrap_servers_have_addresses_for_names() -> None:
    play = Play()
    play.said(0, 'Unable connect to "%s:%s": %s', "b.example", 9092, REFUSED)
    assert play.lines[0].nodes == ("b.example:9092",)
    play.reached("b.example:9092")
    play.time(1, 10)
    assert play.told == ["away", "back"]


def test_what_was_counted_is_told_on_demand_and_only_once() -> None:
    play = Play()
    play.said(0, CONNECT, 1, REFUSED)
    assert outage.on_demand(play.state, 1.0).lines == ()
    play.said(1, CONNECT, 1, REFUSED)
    state, (line,) = outage.on_demand(play.state, 3.0)
    assert (line.what, line.held, line.for_s) == ("still", 1, 3.0)
    assert outage.on_demand(state, 4.0) == (state, ())
    assert outage.on_demand(None, 3.0) == (None, ())


def test_a_known_message_with_other_arguments_is_no_symptom() -> None:
    assert outage.read(CONNECT, (1,)) is None
    assert outage.read(CONNECT, {"a": 1}) is None
    assert outage.read(17, ()) is None
    assert outage.read(CONNECT, (1, REFUSED)) == Symptom(
        opens=True,
        node="1",
        error="ConnectionRefusedError",
        text="ConnectionRefusedError: [Errno 111] refused",
    )


def test_the_messages_are_those_of_the_installed_aiokafka() -> None:
    """One that it words anew would be shown again, ten times a second."""
    spec = importlib.util.find_spec("aiokafka")
    assert spec is not None
    assert spec.origin is not None
    source = "".join(path.read_text() for path in Path(spec.origin).parent.rglob("*.py"))
    joined = re.sub(r"""(?x) ["'] \s* \n \s* ["'] """, "", source)
    assert [form for form in outage.FORMS if form not in joined] == []


def test_the_errors_are_those_of_the_installed_aiokafka() -> None:
    unknown = [
        name
        for name in outage.FOLLOWING
        if not isinstance(getattr(errors, name, getattr(builtins, name, None)), type)
    ]
    assert unknown == []
