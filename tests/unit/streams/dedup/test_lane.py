from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from schemas.topics import FETCH_REQUESTS, SEEN_CHANGELOG
from streams.dedup import lane as lanes
from streams.dedup.lane import Lane, Work
from streams.dedup.store import SeenStore
from streams.kafka.messages import Out


class FakeBulk:
    def __init__(self, outlet: FakeOutlet, topic: str) -> None:
        self.outlet = outlet
        self.topic = topic
        self.messages: list[tuple[bytes, bytes]] = []

    def add(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        self.messages.append((key, value))

    async def send(self) -> int | None:
        await self.outlet.gate(self.topic)
        self.outlet.steps.append((self.topic, [value for _, value in self.messages]))
        return len(self.messages) - 1


class FakeOutlet:
    """Delivers when told to; notes the order of everything."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps
        self.gates: dict[str, asyncio.Event] = {}

    def hold(self, topic: str) -> None:
        self.gates[topic] = asyncio.Event()

    async def gate(self, topic: str) -> None:
        if topic in self.gates:
            await self.gates[topic].wait()

    def bulk(self, topic: str, partition: int) -> FakeBulk:
        return FakeBulk(self, topic)

    async def deliver(self, messages: Sequence[Out]) -> None:
        await self.gate("outs")
        self.steps.append(("outs", [message.value for message in messages]))


class FakeStore:
    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps
        self.rows: dict[bytes, bytes] = {}
        self.fails = False

    def lookup(self, partition: int, keys: list[bytes]) -> list[bytes | None]:
        return [self.rows.get(key) for key in keys]

    def write(self, partition: int, rows: Any, offset: int | None) -> None:
        if self.fails:
            raise RuntimeError("No space left on device")
        rows = dict(rows)
        self.rows.update(rows)
        self.steps.append(("store", sorted(rows), offset))


class Bench:
    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.outlet = FakeOutlet(self.steps)
        self.store = FakeStore(self.steps)
        self.ours = True
        self.lane = Lane(
            0,
            self.outlet,
            cast("SeenStore", self.store),
            self.finished,
            self.is_ours,
            self.forgotten,
        )

    async def is_ours(self) -> bool:
        await asyncio.sleep(0)
        return self.ours

    def forgotten(self, work: Work) -> None:
        self.steps.append(("forgotten", work.message.offset))

    def finished(self, work: Work) -> None:
        self.steps.append(("ack", work.message.offset))

    def put(
        self, offset: int, *, rows: dict[bytes, bytes] | None = None, out: bool = False
    ) -> None:
        rows = {b"k%d" % offset: b"v%d" % offset} if rows is None else rows
        requests = [(b"host", key) for key in rows]
        outs = [Out("dead-letters", None, b"%d" % offset)] if out else []
        message = SimpleNamespace(offset=offset)
        self.lane.put(Work(message, requests, rows, outs, {}, 1, 10))

    async def settle(self, acks: int) -> None:
        for _ in range(1_000):
            if sum(step[0] == "ack" for step in self.steps) >= acks:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(self.steps)


async def test_requests_then_changelog_then_table_then_ack() -> None:
    bench = Bench()
    bench.put(1)
    await bench.settle(1)
    assert bench.steps == [
        (FETCH_REQUESTS, [b"k1"]),
        (SEEN_CHANGELOG, [b"v1"]),
        ("store", [b"k1"], 0),
        ("ack", 1),
    ]


@pytest.mark.parametrize("topic", [FETCH_REQUESTS, "outs", SEEN_CHANGELOG])
async def test_nothing_is_written_or_acked_before_delivery(topic: str) -> None:
    bench = Bench()
    bench.outlet.hold(topic)
    bench.put(1, out=True)
    await asyncio.sleep(0.02)
    assert not any(step[0] in ("store", "ack") for step in bench.steps)
    if topic != SEEN_CHANGELOG:
        assert not any(step[0] == SEEN_CHANGELOG for step in bench.steps)
    bench.outlet.gates[topic].set()
    await bench.settle(1)


async def test_messages_on_their_way_are_seen_by_later_ones() -> None:
    bench = Bench()
    bench.outlet.hold(FETCH_REQUESTS)
    bench.put(1)
    await asyncio.sleep(0)
    bench.put(2, rows={b"k2": b"v2", b"counter": b"7"})
    assert bench.store.rows == {}
    assert bench.lane.seen([b"k1", b"k2", b"k3"]) == [b"v1", b"v2", None]
    bench.put(3, rows={b"counter": b"8"})
    bench.outlet.gates[FETCH_REQUESTS].set()
    await bench.settle(3)
    assert bench.store.rows == {b"k1": b"v1", b"k2": b"v2", b"counter": b"8"}
    assert bench.lane._pending == {}


async def test_an_earlier_parcel_does_not_take_back_a_later_counter() -> None:
    bench = Bench()
    bench.outlet.hold(FETCH_REQUESTS)
    bench.put(1, rows={b"counter": b"1"})
    await asyncio.sleep(0.001)
    bench.put(2, rows={b"counter": b"2"})
    bench.outlet.gates.pop(FETCH_REQUESTS).set()
    bench.outlet.hold(SEEN_CHANGELOG)
    bench.outlet.gates[SEEN_CHANGELOG].set()
    await bench.settle(1)
    assert bench.lane.seen([b"counter"]) == [b"2"]
    await bench.settle(2)
    assert bench.lane.seen([b"counter"]) == [b"2"]


async def test_acks_are_in_offset_order_and_parcels_grow_with_the_load() -> None:
    bench = Bench()
    for offset in range(50):
        bench.put(offset)
        if offset % 7 == 0:
            await asyncio.sleep(0)
    await bench.settle(50)
    assert [step[1] for step in bench.steps if step[0] == "ack"] == list(range(50))
    assert sum(step[0] == "store" for step in bench.steps) == 2


async def test_messages_without_outputs_wait_for_those_before_them() -> None:
    bench = Bench()
    bench.outlet.hold(SEEN_CHANGELOG)
    bench.put(1)
    await asyncio.sleep(0.001)
    bench.put(2, rows={})
    await asyncio.sleep(0.08)
    assert ("ack", 2) not in bench.steps
    bench.outlet.gates[SEEN_CHANGELOG].set()
    await bench.settle(2)
    assert [step for step in bench.steps if step[0] == "ack"] == [("ack", 1), ("ack", 2)]


async def test_a_lane_taken_away_writes_nothing_more() -> None:
    bench = Bench()
    bench.outlet.hold(FETCH_REQUESTS)
    bench.put(1)
    await asyncio.sleep(0.001)
    bench.lane.closed = True
    bench.outlet.gates[FETCH_REQUESTS].set()
    await bench.settle(1)
    assert bench.store.rows == {}


async def test_a_full_disk_ends_the_process_before_the_ack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Died(BaseException):
        pass

    said: list[str] = []

    def die(message: str) -> None:
        said.append(message)
        raise Died

    monkeypatch.setattr(lanes, "die", die)
    bench = Bench()
    bench.store.fails = True
    bench.put(1)
    pump = bench.lane._pump
    assert pump is not None
    with pytest.raises(Died):
        await pump
    assert "No space left" in said[0]
    assert not any(step[0] == "ack" for step in bench.steps)


async def test_what_was_taken_away_is_forgotten_before_anything_of_it_is_sent() -> None:
    bench = Bench()
    bench.ours = False
    bench.put(1, out=True)
    bench.put(2)
    async with asyncio.timeout(5):
        while len(bench.steps) < 2:  # noqa: ASYNC110 - a fake to watch
            await asyncio.sleep(0.001)
    assert bench.steps == [("forgotten", 1), ("forgotten", 2)]
    assert bench.lane.closed
    assert not bench.store.rows
