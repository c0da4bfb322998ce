"""While Kafka is away: what is logged of it, and what is only counted. Pure.

aiokafka tells each failed attempt of each of its loops, some hundred lines a second in a busy
worker. Of one outage these are wanted: a line when it begins, one a minute while it lasts, one when
it is over, and whatever else happens meanwhile. So there is a list of the messages that are
symptoms (`FORMS`); a message that is not on it is none of this module's business and is shown.

* The first symptom that tells of a connection that fails opens an outage. Its line names the node
  and the error.
* From then on symptoms are counted. Shown as they are: the first of each error that does not
  follow from a missing connection (a refused password, an expired certificate, a name that does
  not resolve any more), and the first of each message of our own.
* A node that fails for the first time in this outage is told at once, later ones of it are not.
* The outage is over when every node that failed has been connected to again, and no symptom has
  come for `quiet_s`: many clients of one process come back one after the other. aiokafka logs
  nothing at that point; whoever makes connections says so (`reached`). A node that nobody tries any
  more, because its partitions have moved, is given up after `forget_s`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple


class Form(NamedTuple):
    """A message of a library: where its arguments are that matter here."""

    node: int | None = None
    error: int | None = None
    connects: bool = False
    """It says that a connection was not made: whatever the error, an outage begins."""
    host_port: bool = False
    """Node and the argument after it are host and port."""


FORMS: Final[Mapping[str, Form]] = {
    'Unable connect to "%s:%s": %s': Form(0, 2, connects=True, host_port=True),
    'Unable to request metadata from "%s:%s": %s': Form(0, 2, host_port=True),
    "Unable connect to node with id %s: %s": Form(0, 1, connects=True),
    "Unable to request metadata from node with id %s: %r": Form(0, 1),
    "Unable to update metadata from %s": Form(),
    "Failed fetch messages from %s: %s": Form(0, 1),
    "Failed fetch offsets from %s: %s": Form(0, 1),
    "Attempt to fetch offsets for partition %s failed due to: %s": Form(error=1),
    "Error sending %s to node %s [%s] -- marking coordinator dead": Form(1, 2),
    "Marking the coordinator dead (node %s)for group %s.": Form(),
    "Group Coordinator Request failed: %s": Form(error=0),
    "Heartbeat session expired - marking coordinator dead": Form(),
    "Heartbeat send request failed: %s. Will retry.": Form(error=0),
    "Heartbeat failed for group %s: coordinator (node %s) is either not started or not valid": (
        Form()
    ),
    "Cannot send %r to %s: %r": Form(1, 2),
    "Could not send %r: %r": Form(error=1),
    "Got error produce response: %s": Form(error=0),
    "Got error produce response on topic-partition %s, retrying. Error: %s": Form(error=1),
}
"""aiokafka's messages, as its source has them, that tell of nothing but a missing broker."""

OWN: Final = frozenset(
    {"commit failed; it is tried again", "crawl directory: Kafka does not answer"}
)
"""Events of ours that are said again and again while Kafka is away."""

LOST: Final = frozenset(
    {
        "BrokenPipeError",
        "ConnectionAbortedError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "GroupCoordinatorNotAvailableError",
        "KafkaConnectionError",
        "NodeNotReadyError",
        "OSError",
        "RequestTimedOutError",
        "TimeoutError",
    }
)
"""Errors that are a missing connection or coordinator: a symptom with one opens an outage."""
FOLLOWING: Final = LOST | frozenset(
    {
        "BrokerNotAvailableError",
        "GroupLoadInProgressError",
        "LeaderNotAvailableError",
        "NotCoordinatorForGroupError",
        "NotLeaderForPartitionError",
        "ReplicaNotAvailableError",
        "StaleMetadata",
    }
)
"""Errors that an outage and its end bring with them."""
_ECHOES: Final = frozenset({"NodeNotReadyError", "StaleMetadata"})
"""They repeat what another line said better."""


class Rules(NamedTuple):
    """How often an open outage is told, and when it is over."""

    every_s: float = 60.0
    quiet_s: float = 5.0
    forget_s: float = 90.0
    """Longer than two requests that time out: a node that hangs is tried that seldom."""


class Symptom(NamedTuple):
    """One message that tells of a missing broker."""

    opens: bool
    """An outage begins with it. False: it counts in one that is open, else it is shown."""
    node: str = ""
    """Of the connection that failed; empty: not said."""
    error: str = ""
    """Class of the error."""
    text: str = ""
    """Class and words of the error."""
    shown_first: str = ""
    """What is shown once in an outage; empty: nothing."""


class Line(NamedTuple):
    """What is to be logged."""

    what: Literal["away", "still", "back"]
    nodes: tuple[str, ...]
    """Away: those that fail; back: those that had failed."""
    for_s: float
    """From the first symptom; back: to the last one."""
    held: int
    """Messages counted and not shown, since the outage began."""
    error: str
    """The last that told something."""
    given_up: tuple[str, ...] = ()
    """Nodes that are not tried any more."""


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage that is open. All instants are of one monotonic clock, in seconds."""

    since: float
    last_at: float
    """The last symptom."""
    told_at: float
    away: Mapping[str, float] = field(default_factory=dict)
    """Nodes that fail, and when each did last."""
    failed: tuple[str, ...] = ()
    """Nodes that failed at any time, and were told of."""
    given_up: tuple[str, ...] = ()
    shown: frozenset[str] = frozenset()
    held: int = 0
    error: str = ""


class Seen(NamedTuple):
    """What becomes of a symptom."""

    state: Outage | None
    show: bool
    """The message itself is shown."""
    lines: tuple[Line, ...] = ()


class Told(NamedTuple):
    """What becomes of time passing, or of a connection made."""

    state: Outage | None
    lines: tuple[Line, ...] = ()


def read(message: Any, arguments: Any) -> Symptom | None:
    """What a log record says of a missing broker; None: something else.

    Args:
        message: its template, or its fields when it is one of ours.
        arguments: of the template.
    """
    if isinstance(message, Mapping):
        event = message.get("event")
        return Symptom(opens=False, shown_first=str(event)) if event in OWN else None
    form = FORMS.get(message) if isinstance(message, str) else None
    if form is None or not isinstance(arguments, tuple):
        return None
    try:
        return _symptom(form, arguments)
    except IndexError:
        return None


def _symptom(form: Form, arguments: Sequence[Any]) -> Symptom:
    node = "" if form.node is None else str(arguments[form.node])
    if form.host_port and form.node is not None:
        node = f"{node}:{arguments[form.node + 1]}"
    if form.error is None:
        return Symptom(opens=False, node=node)
    error = arguments[form.error]
    name = error.__name__ if isinstance(error, type) else type(error).__name__
    words = "" if isinstance(error, type) else str(error)
    return Symptom(
        opens=form.connects or name in LOST,
        node=node,
        error=name,
        text=words if words.startswith(name) else f"{name}: {words}".removesuffix(": "),
        shown_first="" if name in FOLLOWING else name,
    )


def on_symptom(state: Outage | None, symptom: Symptom, now: float, rules: Rules) -> Seen:
    """A symptom was logged."""
    if state is None:
        if not symptom.opens:
            return Seen(None, show=True)
        nodes = (symptom.node,) if symptom.node else ()
        state = Outage(
            since=now,
            last_at=now,
            told_at=now,
            away=dict.fromkeys(nodes, now),
            failed=nodes,
            shown=frozenset({symptom.shown_first}),
            error=symptom.text,
        )
        return Seen(state, show=False, lines=(_line("away", state, now),))
    show = bool(symptom.shown_first) and symptom.shown_first not in state.shown
    new = bool(symptom.opens and symptom.node) and symptom.node not in state.failed
    state = replace(
        state,
        last_at=now,
        away={**state.away, symptom.node: now} if symptom.opens and symptom.node else state.away,
        failed=(*state.failed, symptom.node) if new else state.failed,
        shown=state.shown | {symptom.shown_first},
        held=state.held + (not show),
        error=symptom.text if symptom.text and symptom.error not in _ECHOES else state.error,
    )
    if new:
        state = replace(state, told_at=now)
        return Seen(state, show, (_line("away", state, now),))
    state, lines = on_time(state, now, rules)
    return Seen(state, show, lines)


def on_reached(state: Outage | None, nodes: Iterable[str]) -> Outage | None:
    """Connections to these nodes were made."""
    if state is None:
        return None
    reached = frozenset(nodes)
    return replace(state, away={node: at for node, at in state.away.items() if node not in reached})


def on_time(state: Outage | None, now: float, rules: Rules) -> Told:
    """Time has passed."""
    if state is None:
        return Told(None)
    gone = tuple(node for node, at in state.away.items() if now - at > rules.forget_s)
    if gone:
        left = {node: at for node, at in state.away.items() if node not in gone}
        state = replace(state, away=left, given_up=(*state.given_up, *gone))
    if not state.away and now - state.last_at >= rules.quiet_s:
        return Told(None, (_line("back", state, state.last_at),))
    unwell = state.away or state.last_at > state.told_at
    if unwell and now - state.told_at >= rules.every_s:
        state = replace(state, told_at=now)
        return Told(state, (_line("still", state, now),))
    return Told(state)


def on_demand(state: Outage | None, now: float) -> Told:
    """The process may be about to end: what was counted and not told yet."""
    if state is None or state.last_at <= state.told_at:
        return Told(state)
    state = replace(state, told_at=now)
    return Told(state, (_line("still", state, now),))


def _line(what: Literal["away", "still", "back"], state: Outage, now: float) -> Line:
    nodes = state.failed if what == "back" else tuple(state.away)
    return Line(what, nodes, now - state.since, state.held, state.error, state.given_up)
