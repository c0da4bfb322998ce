"""A whole crawl on fakes: processes, faults, restarts, and the oracle."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from schemas.admission import MAX_REDIRECTS
from schemas.topics import DEAD_LETTERS, DEDUP_APP, FETCHER_GROUP, PARSER_GROUP, RECORDS, URLS
from streams.kafka.messages import Source
from tests.unit.sim.clock import World
from tests.unit.sim.dedups import Dedup, Folder
from tests.unit.sim.kafka import Kafka
from tests.unit.sim.protections import Protections
from tests.unit.sim.stages import Fetcher, Parser, batch
from tests.unit.sim.web import OK, Web
from tests.unit.sim.workers import Scene

Role = Literal["dedup", "fetcher", "parser"]
Kind = Literal["kill", "stop", "term", "wipe", "broker", "clock"]
ROLES: Final[tuple[Role, ...]] = ("dedup", "fetcher", "parser")
KINDS: Final[tuple[Kind, ...]] = ("kill", "kill", "kill", "wipe", "stop", "term", "broker")
RESTART_S: Final = 0.5
ROUNDS_AT_LEAST: Final = MAX_REDIRECTS // 3 - 1
"""How often a chain can surely come round before it is too long, after the first time."""


class Fault(NamedTuple):
    """What happens to a process, and when.

    `stop` lasts `seconds` (SIGSTOP, then SIGCONT), `broker` is away for `seconds`; `term` is an
    orderly end, `wipe` a kill with loss of the data folder, and `clock` a step of its wall clock
    by `seconds`, until its end.
    """

    at: float
    kind: Kind
    role: Role
    number: int
    seconds: float = 0.0


def random_faults(
    rng: random.Random,
    count: int,
    *,
    within_s: float,
    kinds: Sequence[Kind] = KINDS,
    roles: Sequence[Role] = ROLES,
) -> list[Fault]:
    """A schedule. A stop always outlives the session time-out."""
    return sorted(
        Fault(
            rng.uniform(1.0, within_s),
            rng.choice(kinds),
            rng.choice(roles),
            rng.randrange(2),
            rng.uniform(7.0, 15.0),
        )
        for _ in range(count)
    )


class Verdict(NamedTuple):
    """What the oracle found. A sound crawl has zeros, and `refetches` within `allowance`."""

    lost: int
    unexpected: int
    """URLs with another outcome than theirs, or with two."""
    conflicting: int
    """Record ids, and URLs, with two contents; a page behind a cookie has two."""
    unfinished: int
    """Redirect chains that came round to nothing but a count."""
    refetches: int
    allowance: int
    rebalances: int
    ended: bool
    """Whether the pipeline came to rest."""

    @property
    def sound(self) -> bool:
        return (
            self.ended
            and not (self.lost or self.unexpected or self.conflicting or self.unfinished)
            and self.refetches <= self.allowance
        )


class Crawl:
    """A crawl of a fake web.

    Args:
        web: what there is.
        seeds: where it begins.
        delays: see `clock.World`.
        protections: what is switched on.
        partitions: of every topic.
        workers: processes of each role.
        fetch_limit: most requests in flight of each fetcher.
        fetch_s: longest duration of a fetch.
    """

    def __init__(
        self,
        web: Web,
        seeds: Sequence[str],
        delays: Sequence[float],
        *,
        protections: Protections | None = None,
        partitions: int = 4,
        workers: int = 2,
        fetch_limit: int = 40,
        fetch_s: float = 0.3,
    ) -> None:
        protections = protections or Protections()
        self.world = World(delays)
        self.kafka = Kafka(self.world, partitions, fences=protections.epoch_fencing)
        self.web = web
        self.seeds = seeds
        self.scene = Scene(self.kafka, web, protections, fetch_limit, fetch_s)
        self.folders: defaultdict[int, Folder] = defaultdict(Folder)
        self.running: dict[tuple[Role, int], Dedup | Fetcher | Parser] = {}
        self._faults_left = 0
        self._rounds = 0
        """Faults that may each have cost a chain one more round."""
        for url in seeds:
            host = url.split("/")[2]
            self.kafka.append(URLS, host.encode(), batch(host, [url], depth=0))
        for role in ROLES:
            for number in range(workers):
                self._start(role, number)

    def run(self, faults: Sequence[Fault] = (), limit_s: float = 3_000.0) -> Verdict:
        """Run to rest; the oracle's verdict."""
        self._faults_left = len(faults)
        for fault in faults:
            self.world.after(fault.at, self._strike, fault)
        while not self._at_rest() and self.world.now < limit_s:
            self.world.run_until(self.world.now + 1.0)
        return self._verdict()

    def _start(self, role: Role, number: int) -> None:
        running = self.running.get((role, number))
        if running is not None and running.process.alive:
            return
        tag = f"{role}-{number}"
        if role == "dedup":
            self.running[role, number] = Dedup(self.scene, tag, self.folders[number])
        else:
            kind = Fetcher if role == "fetcher" else Parser
            self.running[role, number] = kind(self.scene, tag)

    def _strike(self, fault: Fault) -> None:
        self._faults_left -= 1
        self._rounds += 1
        if fault.kind == "broker":
            self.kafka.down_until = max(self.kafka.down_until, self.world.now + fault.seconds)
            return
        victim = self.running.get((fault.role, fault.number))
        if victim is None or not victim.process.alive or victim.process.stopped:
            return
        if fault.kind == "clock":
            victim.process.clock_s = fault.seconds
            return
        if fault.kind == "stop":
            victim.note_in_flight()
            victim.process.stop()
            self.world.after(fault.seconds, victim.process.go_on)
            return
        if fault.kind == "term":
            victim.leave()
            self._restart_when_gone(fault.role, fault.number)
            return
        victim.kill()
        if fault.kind == "wipe" and fault.role == "dedup":
            self.folders[fault.number].clear()
        self.world.after(RESTART_S, self._start, fault.role, fault.number)

    def _restart_when_gone(self, role: Role, number: int) -> None:
        if self.running[role, number].process.alive:
            self.world.after(RESTART_S, self._restart_when_gone, role, number)
        else:
            self._start(role, number)

    def _at_rest(self) -> bool:
        if self._faults_left or self.world.now < self.kafka.down_until:
            return False
        groups = self.kafka.groups
        return all(
            len(self.kafka.logs[Source(topic, number)])
            == groups[name].committed.get(Source(topic, number), (0, ""))[0]
            for name in (DEDUP_APP, FETCHER_GROUP, PARSER_GROUP)
            for topic in groups[name].topics
            for number in range(self.kafka.partitions)
        )

    def _verdict(self) -> Verdict:
        outcomes: defaultdict[str, set[str]] = defaultdict(set)
        contents: defaultdict[object, set[object]] = defaultdict(set)
        visits: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for number in range(self.kafka.partitions):
            for message in self.kafka.logs[Source(RECORDS, number)]:
                record = message.value
                url, visit = record["url"], len(record["redirects"])
                outcomes[url].add("record")
                content = (url, record["status"], record["links"])
                if url not in self.web.gates:
                    contents[record["fetch_id"]].add(content)
                    contents[url].add(content)
                visits[url][visit] = record["status"]
            for message in self.kafka.logs[Source(DEAD_LETTERS, number)]:
                reason = message.value["reason"]
                found = reason if reason in ("poison", "loop", "limit") else "letter"
                outcomes[message.value["url"]].add(found)
        expected = self.web.expected(self.seeds)
        return Verdict(
            lost=sum(url not in outcomes for url in expected),
            unexpected=sum(
                not self._as_expected(url, found, expected) for url, found in outcomes.items()
            ),
            conflicting=sum(len(found) > 1 for found in contents.values()),
            unfinished=self._unfinished(outcomes, visits),
            refetches=sum(
                max(hits - self.web.planned(url), 0)
                for url, hits in self.web.hits.items()
                if url not in self.web.rounds
            ),
            allowance=self.scene.allowance,
            rebalances=sum(group.rebalances for group in self.kafka.groups.values()),
            ended=self._at_rest(),
        )

    def _as_expected(self, url: str, found: set[str], expected: dict[str, str]) -> bool:
        told = set(found)
        if url in self.web.circles and expected.get(url) != "loop":
            told -= {"loop", "limit"}
        if self._rounds > ROUNDS_AT_LEAST:
            told.discard("limit")
        return told == {expected.get(url)}

    def _unfinished(self, outcomes: dict[str, set[str]], visits: dict[str, dict[int, int]]) -> int:
        """Chains that end in nothing but a count.

        The record of a chain's last visit counts: it is the one with the longest chain, whatever a
        replay put behind it.
        """
        gates = sum(
            visits[url][max(visits[url])] != OK
            for url in self.web.gates
            if url in visits and "limit" not in outcomes[url]
        )
        loops = sum(
            not {"loop", "limit"} & (outcomes[url] | outcomes[self.web.pages[url].location])
            for url in self.web.circles
            if url.endswith("/in")
        )
        return gates + loops
