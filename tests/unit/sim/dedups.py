"""Dedup: the real policy, and the steps of `streams.dedup.lane` and `recovery` on fakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
from schemas.topics import DEDUP_APP, FETCH_REQUESTS, SEEN_CHANGELOG, URLS
from schemas.url import url_id
from streams.dedup import requests
from streams.dedup.policy import Decision, Here, decide, return_key
from streams.kafka.messages import Source
from tests.unit.sim.clock import Process
from tests.unit.sim.kafka import HEARTBEAT_S, SESSION_S, Group, Message
from tests.unit.sim.workers import COMMIT_S, POLL_S, Scene

RULES: Final = compile_rules(CrawlSpec(crawl="default", scope="any"))


@dataclass
class Folder:
    """A worker's data folder: rows of each partition, and the changelog offset they reach."""

    rows: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)

    def clear(self) -> None:
        self.rows.clear()
        self.reached.clear()


@dataclass
class _Work:
    offset: int
    decision: Decision
    requests: list[tuple[str, bytes, Any]]


class Lane:
    """One partition under one assignment."""

    def __init__(self, start: int) -> None:
        self.position = start
        self.next = start
        self.pending: dict[bytes, bytes] = {}
        self.waiting: list[_Work] = []
        self.sending = 0


class Dedup:
    """A process of the dedup group."""

    def __init__(self, scene: Scene, tag: str, folder: Folder) -> None:
        self.scene = scene
        self.kafka = scene.kafka
        self.process = Process(scene.kafka.world, tag)
        self.group: Group = scene.kafka.group(DEDUP_APP, (URLS,))
        self.folder = folder
        self.generation = -1
        self.joins = 0
        self.lanes: dict[int, Lane] = {}
        self.working = False
        self._back = False
        self._leaving = False
        self._joining = False
        self._beat = self.kafka.world.now
        self._in_doubt = False
        self.process.after(0.0, self._join)
        self.process.after(HEARTBEAT_S, self._heartbeat)

    def _heartbeat(self) -> None:
        self._notice_standstill()
        self._beat = self.kafka.world.now
        if self.kafka.world.now >= self.kafka.down_until:
            said = self.group.heartbeat(self)
            if self._joining:
                if said == "unknown":
                    self._join()
            elif said != "ok" and not self._leaving:
                if said == "unknown":
                    self.generation = -1
                self.give_back()
        self.process.after(HEARTBEAT_S, self._heartbeat)

    # Assignments.

    def _join(self) -> None:
        self._joining = True
        self.joins += 1
        self.group.join(self)

    def assigned(self, generation: int, sources: frozenset[Source], joins: int) -> None:
        if joins != self.joins or not self.group.accepts(self, generation):
            return
        self.generation = generation
        self._back = self._joining = self._in_doubt = False
        self.lanes = {}
        for source in sorted(sources):
            self._restore(source.partition)
            self.lanes[source.partition] = Lane(self.group.committed.get(source, (0, ""))[0])
        self.working = True
        self._poll(generation)
        self.process.after(COMMIT_S, self._commit_tick, generation)

    def _restore(self, partition: int) -> None:
        rows = self.folder.rows.setdefault(partition, {})
        reached = self.folder.reached.get(partition, 0)
        log = self.kafka.logs[Source(SEEN_CHANGELOG, partition)]
        end = len(log)
        if not self.scene.protections.whole_recovery:
            end = reached
        for message in log[reached:end]:
            rows[message.key] = message.value
        self.folder.reached[partition] = end

    def give_back(self) -> None:
        if not self._back:
            self._back = True
            self.working = False
            self._maybe_given_back()

    def leave(self) -> None:
        """SIGTERM."""
        self._leaving = True
        if self._joining:
            self._rejoin()
        else:
            self.give_back()

    def _maybe_given_back(self) -> None:
        if self._back and not any(lane.sending or lane.waiting for lane in self.lanes.values()):
            self._commit(lambda _: self._rejoin())

    def _rejoin(self) -> None:
        self.lanes = {}
        if self._leaving:
            self.group.leave(self)
            self.process.kill()
        else:
            self._join()

    # Steps 1 to 5 of a lane.

    def _poll(self, generation: int) -> None:
        if generation != self.generation or not self.working or self._taken_away():
            return
        for partition, lane in self.lanes.items():
            log = self.kafka.logs[Source(URLS, partition)]
            for message in log[lane.position : lane.position + 100]:
                self._judge(partition, lane, message.value)
                lane.position += 1
            self._send(partition, lane)
        self.process.after(POLL_S * (0.5 + self.kafka.world.chance()), self._poll, generation)

    def _taken_away(self) -> bool:
        """After a standstill: whether Kafka says that the partitions are another's.

        What was not sent is forgotten then.
        """
        if not self.scene.protections.lease:
            return False
        self._notice_standstill()
        if not self._in_doubt:
            return False
        if self.group.accepts(self, self.generation):
            self._in_doubt = False
            return False
        for lane in self.lanes.values():
            lane.waiting.clear()
        self.working = False
        return True

    def _notice_standstill(self) -> None:
        self._in_doubt = self._in_doubt or self.kafka.world.now - self._beat >= SESSION_S

    def _judge(self, partition: int, lane: Lane, value: Any) -> None:
        rows = self.folder.rows[partition]
        here = Here(partition, self.kafka.partitions, lane.position, 1)

        def seen(keys: list[bytes]) -> list[bytes | None]:
            return [lane.pending.get(key, rows.get(key)) for key in keys]

        for link in value["links"]:
            known = url_id("default", link["url"])
            for key in (known, return_key(known, value["redirects"])):
                self.scene.urls[key] = link["url"]
        if not self.scene.protections.own_chain:
            value = {**value, "redirects": []}
        decision = decide(cast("Any", value), here, rules=RULES, pages=0, seen=seen)
        admitted = [*decision.admitted]
        if self.scene.protections.rows_first:
            if self.scene.protections.first_sighting:
                admitted += decision.replayed
            rows.update(decision.rows)
        lane.pending.update(decision.rows)
        outs: list[tuple[str, bytes, Any]] = []
        for admission in admitted:
            for link in admission.links:
                made = requests.request(value, admission, link, timestamp_ms=1)
                outs.append((FETCH_REQUESTS, admission.host.encode(), made))
        outs += [(URLS, one["host"].encode(), one) for one in decision.rekeyed]
        lane.waiting.append(_Work(lane.position, decision, outs))

    def _send(self, partition: int, lane: Lane) -> None:
        """One parcel is on its way at a time, unless acks need no order."""
        if (
            self._taken_away()
            or not lane.waiting
            or (lane.sending and self.scene.protections.ordered_acks)
        ):
            return
        parcel, lane.waiting = lane.waiting, []
        if self.scene.protections.ordered_acks:
            self._send_parcel(partition, lane, parcel)
        else:
            for work in parcel:
                self._send_parcel(partition, lane, [work])

    def _send_parcel(self, partition: int, lane: Lane, parcel: list[_Work]) -> None:
        lane.sending += 1
        generation = self.generation
        rows = {key: row for work in parcel for key, row in work.decision.rows.items()}
        asked = [out for work in parcel for out in work.requests]

        def requested() -> None:
            self._log(partition, rows, finished)

        def finished() -> None:
            lane.sending -= 1
            if self.lanes.get(partition) is lane:
                self.folder.rows[partition].update(rows)
                for name, row in rows.items():
                    if lane.pending.get(name) == row:
                        del lane.pending[name]
                for work in parcel:
                    if generation == self.generation:
                        lane.next = max(lane.next, work.offset + 1)
            self._send(partition, lane)
            self._maybe_given_back()

        if self.scene.protections.rows_first:
            self._log(partition, rows, lambda: self.kafka.produce(self.process, asked, finished))
        else:
            self.kafka.produce(self.process, asked, requested)

    def _log(self, partition: int, rows: dict[bytes, bytes], then: Callable[[], None]) -> None:
        """Append to the changelog, in order."""
        world, process = self.kafka.world, self.process

        def arrive() -> None:
            if world.now < self.kafka.down_until:
                world.after(self.kafka.down_until - world.now + 0.01, arrive)
                return
            if process.alive or world.chance() < 0.5:
                log = self.kafka.logs[Source(SEEN_CHANGELOG, partition)]
                log.extend(Message(key, row) for key, row in rows.items())
                process.after(0.02 * world.chance(), then)

        world.after(0.02 * world.chance(), arrive)

    # Commits.

    def _commit_tick(self, generation: int) -> None:
        if generation == self.generation and self.working:
            self._commit(lambda _: None)
            self.process.after(COMMIT_S, self._commit_tick, generation)

    def _commit(self, then: Callable[[bool], None]) -> None:
        if self.generation == -1:
            then(False)  # noqa: FBT003 - the answer of a commit
            return
        rows = {Source(URLS, number): (lane.next, "") for number, lane in self.lanes.items()}
        self.kafka.commit(self, self.group, rows, then)

    # Faults.

    def kill(self) -> None:
        self.note_in_flight()
        self.process.kill()

    def note_in_flight(self) -> None:
        """Requests that may have been made and are not yet known by the changelog."""
        for lane in self.lanes.values():
            for key in lane.pending:
                self.scene.allowance += self.scene.web.planned(self.scene.urls[key])
