"""A fake Kafka: logs, groups with generations and eager rebalances, commits, late acks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from schemas.topics import partition_of
from streams.kafka.messages import Source
from tests.unit.sim.clock import Process, World

SESSION_S = 6.0
REBALANCE_S = 20.0
HEARTBEAT_S = 1.0
LATENCY_S = 0.02


class Message(NamedTuple):
    key: bytes
    value: Any


class Member(Protocol):
    """What a group says to a member. Methods are called as events of the member's process."""

    process: Process
    generation: int
    joins: int
    """How often it joined: an answer to an earlier join is no answer."""

    def assigned(self, generation: int, sources: frozenset[Source], joins: int) -> None: ...

    def give_back(self) -> None: ...


class Group:
    """One consumer group."""

    def __init__(self, kafka: Kafka, topics: tuple[str, ...]) -> None:
        self._kafka = kafka
        self._world = kafka.world
        self.topics = topics
        self.generation = 0
        self.committed: dict[Source, tuple[int, str]] = {}
        self.rebalances = 0
        self._members: dict[Member, float] = {}
        self._joined: set[Member] = set()
        self._preparing = False

    def join(self, member: Member) -> None:
        self._members[member] = self._world.now
        self._joined.add(member)
        self._prepare()
        self._maybe_complete()

    def leave(self, member: Member) -> None:
        self._drop(member)

    def heartbeat(self, member: Member) -> str:
        """ok, rebalance (give back and join) or unknown (not a member any more)."""
        if member not in self._members:
            return "unknown"
        self._members[member] = self._world.now
        if self._preparing and member not in self._joined:
            return "rebalance"
        return "ok"

    def hear_all(self) -> None:
        """A coordinator that comes back gives all members a session time-out again."""
        self._members = dict.fromkeys(self._members, self._world.now)

    def check(self) -> None:
        """Throw out the silent."""
        limit = self._world.now - SESSION_S
        for member, heard in list(self._members.items()):
            if heard < limit and not (self._preparing and member in self._joined
                                      and member.process.alive):  # fmt: skip
                self._drop(member)

    def accepts(self, member: Member, generation: int) -> bool:
        return member in self._members and generation == self.generation

    def _drop(self, member: Member) -> None:
        if self._members.pop(member, None) is not None:
            self._joined.discard(member)
            self._prepare()
            self._maybe_complete()

    def _prepare(self) -> None:
        if not self._preparing:
            self._preparing = True
            self._world.after(REBALANCE_S, self._expire, self.generation)

    def _expire(self, generation: int) -> None:
        if self._preparing and generation == self.generation:
            for member in set(self._members) - self._joined:
                del self._members[member]
            self._maybe_complete()

    def _maybe_complete(self) -> None:
        if not self._preparing or self._joined != set(self._members):
            return
        self._preparing = False
        self._joined = set()
        self.generation += 1
        self.rebalances += 1
        members = list(self._members)
        sources = [
            Source(topic, number)
            for topic in self.topics
            for number in range(self._kafka.partitions)
        ]
        for at, member in enumerate(members):
            mine = frozenset(one for one in sources if one.partition % len(members) == at)
            answer = (self.generation, mine, member.joins)
            member.process.after(LATENCY_S, member.assigned, *answer)


class Kafka:
    """The broker.

    Args:
        fences: False: commits of old generations are accepted, as if nobody checked.
    """

    def __init__(self, world: World, partitions: int, *, fences: bool = True) -> None:
        self.world = world
        self.partitions = partitions
        self.logs: defaultdict[Source, list[Message]] = defaultdict(list)
        self.groups: dict[str, Group] = {}
        self.down_until = 0.0
        self._fences = fences
        world.after(1.0, self._tick)

    def _tick(self) -> None:
        for group in self.groups.values():
            if self.world.now >= self.down_until:
                group.check()
            else:
                group.hear_all()
        self.world.after(1.0, self._tick)

    def group(self, name: str, topics: tuple[str, ...]) -> Group:
        return self.groups.setdefault(name, Group(self, topics))

    def append(self, topic: str, key: bytes, value: Any) -> int:
        source = Source(topic, partition_of(key, self.partitions))
        self.logs[source].append(Message(key, value))
        return len(self.logs[source]) - 1

    def produce(
        self, process: Process, outs: list[tuple[str, bytes, Any]], acked: Callable[[], None]
    ) -> None:
        """Append messages, each at its own time, then tell the producer, unless it is gone.

        A message that is on its way when its process dies arrives or does not.
        """
        left = len(outs)
        if not left:
            process.after(0.0, acked)
            return

        def arrive(out: tuple[str, bytes, Any]) -> None:
            nonlocal left
            if self.world.now < self.down_until:
                self.world.after(self.down_until - self.world.now + LATENCY_S, arrive, out)
                return
            if not process.alive and self.world.chance() < 0.5:
                return
            self.append(*out)
            left -= 1
            if not left:
                lost = 5 * LATENCY_S if self.world.chance() > 0.9 else 0.0
                process.after(LATENCY_S * self.world.chance() + lost, acked)

        for out in outs:
            self.world.after(self._on_its_way_s(), arrive, out)

    def _on_its_way_s(self) -> float:
        """Mostly a latency; one request in five is held up, for two seconds at most."""
        chance = self.world.chance()
        return LATENCY_S * chance if chance < 0.8 else (chance - 0.8) * 10.0

    def commit(
        self,
        member: Member,
        group: Group,
        rows: Mapping[Source, tuple[int, str]],
        done: Callable[[bool], None],
    ) -> None:
        """Commit under the member's generation of now; the answer comes later."""
        generation, process = member.generation, member.process

        def arrive() -> None:
            if self.world.now < self.down_until:
                self.world.after(self.down_until - self.world.now + LATENCY_S, arrive)
                return
            accepted = group.accepts(member, generation) or not self._fences
            if accepted:
                group.committed.update(rows)
                group.heartbeat(member)
            process.after(LATENCY_S * self.world.chance(), done, accepted)

        self.world.after(LATENCY_S * self.world.chance() * 4, arrive)
