"""A worker process: the consumer runtime's steps on fakes, around the real ledger."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from schemas.topics import DEAD_LETTERS
from streams.crawls.progress import ProgressBook, Totals
from streams.delivery.ledger import (
    NO_METADATA,
    POISON_AFTER_DEATHS,
    OffsetLedger,
    decode_metadata,
    encode_metadata,
)
from streams.kafka.messages import Source
from tests.unit.sim.clock import Process
from tests.unit.sim.kafka import HEARTBEAT_S, SESSION_S, Group, Kafka
from tests.unit.sim.protections import Protections
from tests.unit.sim.web import Web

POLL_S: Final = 0.1
COMMIT_S: Final = 0.5
DRAIN_S: Final = 2.0
Outs = list[tuple[str, bytes, Any]]


@dataclass(eq=False)
class Delivery:
    source: Source
    offset: int
    value: Any
    epoch: int
    begun: bool = False
    """In work."""


@dataclass
class Scene:
    """What all processes share."""

    kafka: Kafka
    web: Web
    protections: Protections
    fetch_limit: int = 40
    """Most requests in flight of each fetcher."""
    fetch_s: float = 0.3
    """Longest duration of nine fetches in ten; the tenth takes up to eight times as long."""
    allowance: int = 0
    """Fetches that faults may have caused to be repeated: what was in flight at each."""
    urls: dict[bytes, str] = field(default_factory=dict)
    """Every URL that dedup looked up, by id."""


class Worker:
    """A process of one group. `work` is what its stage does."""

    group_name: str
    topics: tuple[str, ...]
    window: int
    """Messages held of each partition."""
    limit: int
    """Messages in work at once."""

    def __init__(self, scene: Scene, tag: str) -> None:
        self.scene = scene
        self.kafka = scene.kafka
        self.process = Process(scene.kafka.world, tag)
        self.group: Group = scene.kafka.group(self.group_name, self.topics)
        self.generation = -1
        self.joins = 0
        self.epoch = 0
        self.ledgers: dict[Source, OffsetLedger] = {}
        self.position: dict[Source, int] = {}
        self.book = ProgressBook(self.group_name.removesuffix("s"), Totals())
        self.held: dict[Delivery, None] = {}
        self.ready: deque[Delivery] = deque()
        self.busy = 0
        self.uncommitted: dict[Delivery, None] = {}
        """Completed since the last commit."""
        self.working = False
        self.lease_until = 0.0
        self._back = False
        self._draining = False
        self._asked: list[Delivery] = []
        self._leaving = False
        self._joining = False
        self.process.after(0.0, self._join)
        self.process.after(HEARTBEAT_S, self._heartbeat)

    # Membership: steps 1 and 7.

    def _join(self) -> None:
        self._joining = True
        self.joins += 1
        self.group.join(self)

    def _heartbeat(self) -> None:
        if self.kafka.world.now >= self.kafka.down_until:
            said = self.group.heartbeat(self)
            if self._joining:
                if said == "unknown":
                    self._join()
            elif said == "unknown" and not self._leaving:
                self.generation = -1 if self.scene.protections.epoch_fencing else self.generation
                self.give_back()
            elif said == "rebalance":
                self.give_back()
        self.process.after(HEARTBEAT_S, self._heartbeat)

    def assigned(self, generation: int, sources: frozenset[Source], joins: int) -> None:
        if joins != self.joins or not self.group.accepts(self, generation):
            return
        self.generation = generation
        self._back = self._joining = False
        self.epoch += 1
        for source in sorted(sources):
            offset, text = self.group.committed.get(source, (0, ""))
            metadata = decode_metadata(offset, text) if text else NO_METADATA
            self.ledgers[source] = OffsetLedger(offset, metadata)
            self.position[source] = offset
        self.working = True
        epoch = self.epoch
        self._commit(clean=False, then=lambda _: self._poll(epoch))
        self.process.after(COMMIT_S, self._commit_tick, epoch)

    def give_back(self) -> None:
        if self._back:
            return
        self._back = True
        self.working = False
        for delivery in [one for one in self.held if not one.begun]:
            del self.held[delivery]
        self.busy = len(self.held)
        self.ready.clear()
        self._asked.clear()
        self._draining = True
        self.process.after(DRAIN_S, self._drain_over, self.epoch)
        self._maybe_drained()

    def leave(self) -> None:
        """SIGTERM."""
        self._leaving = True
        if self._joining:
            self._end_epoch(False)  # noqa: FBT003 - as if a commit was refused
        else:
            self.give_back()

    def _drain_over(self, epoch: int) -> None:
        if self.epoch == epoch and self._draining:
            for delivery in list(self.held):
                self.allow(delivery)
            self._drained()

    def _maybe_drained(self) -> None:
        if self._draining and not self.held:
            self._drained()

    def _drained(self) -> None:
        self._draining = False
        self._commit(clean=True, then=self._end_epoch)

    def _end_epoch(self, _: bool) -> None:
        self.epoch += 1
        self.book.revoked(self.ledgers)
        self.ledgers.clear()
        self.position.clear()
        self.held.clear()
        self.uncommitted.clear()
        self.busy = 0
        if self._leaving:
            self.group.leave(self)
            self.process.kill()
        else:
            self._join()

    # Steps 2 to 4.

    def _poll(self, epoch: int) -> None:
        if epoch != self.epoch or not self.working:
            return
        for source, ledger in self.ledgers.items():
            if source not in self.position:
                continue
            log = self.kafka.logs[source]
            at = self.position[source]
            room = 0 if ledger.full else self.window - ledger.pending
            for message in log[at : at + max(room, 0)]:
                if ledger.deliver(at):
                    self._offer(source, at, message.value, ledger)
                at += 1
            self.position[source] = at
        self._pump()
        self.process.after(POLL_S * (0.5 + self.kafka.world.chance()), self._poll, epoch)

    def _offer(self, source: Source, offset: int, value: Any, ledger: OffsetLedger) -> None:
        delivery = Delivery(source, offset, value, self.epoch)
        self.held[delivery] = None
        if ledger.deaths(offset) >= POISON_AFTER_DEATHS:
            delivery.begun = True
            self.busy += 1
            letter = (DEAD_LETTERS, b"poison", {"url": value["url"], "reason": "poison"})
            self.deliver(delivery, [letter], {})
            return
        wait_s = self.wait_s(delivery)
        if wait_s > 0:
            self.process.after(wait_s, self._is_due, delivery)
        else:
            self.ready.append(delivery)

    def _is_due(self, delivery: Delivery) -> None:
        if delivery.epoch == self.epoch and self.working:
            self.ready.append(delivery)
            self._pump()

    def _pump(self) -> None:
        """Begin what may be begun."""
        leased = self.kafka.world.now < self.lease_until or not self.scene.protections.lease
        while self.ready and self.busy < self.limit:
            delivery = self.ready.popleft()
            self.busy += 1
            if leased:
                self._begin(delivery)
            else:
                self._asked.append(delivery)

    def _begin(self, delivery: Delivery) -> None:
        delivery.begun = True
        ledger = self.ledgers[delivery.source]
        if ledger.guarded(delivery.offset):
            ledger.begin(delivery.offset)
        self.work(delivery)

    def wait_s(self, delivery: Delivery) -> float:
        """How long until it may be begun."""
        return 0.0

    def wall(self) -> float:
        """The time that this process believes it to be."""
        return self.kafka.world.now + self.process.clock_s

    def work(self, delivery: Delivery) -> None:
        raise NotImplementedError

    def deliver(self, delivery: Delivery, outs: Outs, counts: dict[str, int]) -> None:
        """Deliver outputs, then complete."""
        if self.scene.protections.await_before_complete:
            self.kafka.produce(self.process, outs, lambda: self.complete(delivery, counts))
        else:
            self.kafka.produce(self.process, outs, lambda: None)
            self.complete(delivery, counts)

    def complete(self, delivery: Delivery, counts: dict[str, int]) -> None:
        if delivery.epoch != self.epoch:
            return
        del self.held[delivery]
        self.uncommitted[delivery] = None
        self.busy -= 1
        self.ledgers[delivery.source].complete(delivery.offset)
        self.book.add(delivery.source, delivery.offset, {"sim": counts})
        self._maybe_drained()
        if self.working:
            self._pump()

    # Steps 5 and 6.

    def _commit_tick(self, epoch: int) -> None:
        if epoch != self.epoch or not self.working:
            return
        self._commit(clean=False, then=lambda _: None)
        self.process.after(COMMIT_S, self._commit_tick, epoch)

    def _rows(self, *, clean: bool) -> dict[Source, tuple[int, str]]:
        on = self.scene.protections
        rows: dict[Source, tuple[int, str]] = {}
        for source, ledger in self.ledgers.items():
            offset, metadata = ledger.committable, ledger.metadata(clean=clean)
            if not on.prefix_commit:
                offset = max(metadata.completed, default=offset - 1) + 1
                metadata = metadata._replace(completed=frozenset(), suspects=frozenset())
            if not on.completed_beyond:
                metadata = metadata._replace(completed=frozenset())
            rows[source] = (offset, encode_metadata(offset, metadata))
        return rows

    def _commit(self, *, clean: bool, then: Callable[[bool], None]) -> None:
        if self.generation == -1:
            then(False)  # noqa: FBT003 - the answer of a commit
            return
        rows = self._rows(clean=clean)
        told = {source: ledger.next for source, ledger in self.ledgers.items()}
        sent_at, covered = self.kafka.world.now, list(self.uncommitted)

        def answered(accepted: bool) -> None:
            if accepted:
                self._committed(rows, told, sent_at, covered)
            then(accepted)

        self.kafka.commit(self, self.group, rows, answered)

    def _committed(
        self,
        rows: dict[Source, tuple[int, str]],
        told: dict[Source, int],
        sent_at: float,
        covered: list[Delivery],
    ) -> None:
        self.lease_until = sent_at + SESSION_S
        for delivery in covered:
            self.uncommitted.pop(delivery, None)
        for source, (offset, _) in rows.items():
            if source in self.ledgers:
                self.ledgers[source].reported(told[source])
                self.book.committed(source, offset, 0)
        if self.kafka.world.now < self.lease_until:
            asked, self._asked = self._asked, []
            for delivery in asked:
                self._begin(delivery)

    # Faults.

    def kill(self) -> None:
        self.note_in_flight()
        self.process.kill()

    def note_in_flight(self) -> None:
        """Add to the allowance what is begun, or done and not yet committed."""
        for delivery in self.held:
            if delivery.begun:
                self.allow(delivery)
        for delivery in self.uncommitted:
            self.allow(delivery)

    def allow(self, delivery: Delivery) -> None:
        """Add what a repetition of this work may fetch again."""
