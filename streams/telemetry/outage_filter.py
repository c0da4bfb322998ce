"""The shell of `streams.telemetry.outage`: a filter of log records, a clock, and a thread.

There is one for the process, since all clients of it lose the same brokers.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from streams.telemetry import outage
from streams.telemetry.outage import Line, Outage, Rules

log = structlog.get_logger(__name__)

_TICK_S: Final = 1.0


class OutageFilter(logging.Filter):
    """Holds back what an outage makes aiokafka say, and says what there is to say of it.

    Its own lines take the same way as all others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rules = Rules()
        self._state: Outage | None = None
        self._since = ""
        self._addresses: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        """Of nodes by address: bootstrap servers are nodes too."""
        self._lock = threading.Lock()
        self._ticking = False
        atexit.register(self.tell)

    def filter(self, record: logging.LogRecord) -> bool:
        """False: the record is counted and not shown."""
        symptom = outage.read(record.msg, record.args)
        if symptom is None:
            if record.levelno >= logging.CRITICAL:
                self.tell()
            return True
        with self._lock:
            symptom = symptom._replace(node=self._ids.get(symptom.node, symptom.node))
            now = time.monotonic()
            before = self._state
            self._state, show, lines = outage.on_symptom(before, symptom, now, self.rules)
            if before is None and self._state is not None:
                self._since = datetime.now(UTC).isoformat(timespec="seconds")
            if self._state is not None and not self._ticking:
                self._ticking = True
                threading.Thread(target=self._tick, name="outage", daemon=True).start()
        self._say(lines)
        return show

    def reached(self, nodes: Sequence[str], addresses: Mapping[str, str]) -> None:
        """Connections were made.

        Args:
            nodes: to these.
            addresses: of all nodes of the cluster that are known by now.
        """
        with self._lock:
            self._addresses.update(addresses)
            self._ids.update({address: node for node, address in addresses.items()})
            answering = set(nodes)
            answering |= {addresses[node] for node in nodes if node in addresses}
            self._state = outage.on_reached(self._state, answering)

    def tell(self) -> None:
        """Say what was counted and not told: the process may be about to end."""
        with self._lock:
            self._state, lines = outage.on_demand(self._state, time.monotonic())
        self._say(lines)

    def pass_time(self) -> bool:
        """Say what is due; whether an outage is open."""
        with self._lock:
            self._state, lines = outage.on_time(self._state, time.monotonic(), self.rules)
            self._ticking = self._state is not None
            going_on = self._ticking
        self._say(lines)
        return going_on

    def _tick(self) -> None:
        while self.pass_time():
            time.sleep(min(_TICK_S, self.rules.quiet_s))

    def _say(self, lines: Iterable[Line]) -> None:
        for line in lines:
            say = log.warning if line.what == "back" else log.error
            say(words(line, self._addresses), **facts(line, self._addresses, self._since))


OUTAGE: Final = OutageFilter()
"""The process's own."""


def words(line: Line, addresses: Mapping[str, str]) -> str:
    """What happened.

    Args:
        line: of the policy.
        addresses: of the nodes of the cluster.
    """
    if line.what == "back":
        if set(line.nodes) <= set(line.given_up) and line.nodes:
            return "nodes of Kafka that could not be reached are not asked any more"
        return "Kafka is reached again"
    if line.what == "still" and not line.nodes:
        return "Kafka is reached again, but does not serve yet"
    still = "still " if line.what == "still" else ""
    if line.nodes and set(addresses) - set(line.nodes) and set(line.nodes) <= set(addresses):
        return f"a part of Kafka {still}cannot be reached"
    return f"Kafka {still}cannot be reached"


def facts(line: Line, addresses: Mapping[str, str], since: str) -> dict[str, Any]:
    """The fields of a line: nodes with their addresses, since when, how much was held back."""
    known: dict[str, Any] = {}
    if line.nodes:
        named = [
            f"{node} ({addresses[node]})" if node in addresses else node for node in line.nodes
        ]
        known["nodes"] = ", ".join(named)
        known["of"] = max(len(addresses), len(line.nodes))
    if line.given_up:
        known["not_asked_any_more"] = ", ".join(line.given_up)
    if line.what != "away" or line.held:
        known |= {"since": since, "for_s": round(line.for_s, 1), "held_back": line.held}
    if line.error:
        known["error" if line.what != "back" else "last_error"] = line.error
    return known
