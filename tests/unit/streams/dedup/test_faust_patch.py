"""Each fault of faust-streaming 0.15.3 as it is, and as corrected.

A test named `upstream_...` that fails means that upstream corrected the fault: delete the
correction it belongs to, and that test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from aiokafka.errors import CommitFailedError, KafkaError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message

from streams.dedup import faust_patch
from streams.dedup.faust_patch import SoundConsumer, SoundThread, SoundTransport

T = TP("urls", 0)
OTHER = TP("urls", 1)


async def _nothing(*_: Any) -> None:
    return None


class Tables:
    """Notes what was committed."""

    changelog_topics: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.commits: list[dict[TP, int]] = []

    def on_commit(self, offsets: dict[TP, int]) -> None:
        self.commits.append(dict(offsets))


@pytest.fixture
async def app() -> AsyncIterator[faust.App]:
    made = faust.App("test", broker="kafka://127.0.0.1:1", autodiscover=False)
    made.finalize()
    made.consumer_generation_id = 1
    topics: Any = made.topics
    topics._acking_topics.add("urls")
    yield made
    if made._consumer is not None:
        consumer: Any = made.consumer
        consumer._thread.thread_loop.close()


def consumer_of(app: faust.App, kind: Any) -> Any:
    """A consumer that is not connected; its thread commits into a list."""
    transport = SoundTransport(app.conf.broker_consumer, app)
    made = kind(
        transport,
        callback=_nothing,
        on_partitions_revoked=_nothing,
        on_partitions_assigned=_nothing,
        loop=asyncio.get_running_loop(),
    )
    app.consumer = made
    made.committed = []
    made.commit_succeeds = True

    async def commit(offsets: dict[TP, int]) -> bool:
        if made.commit_succeeds:
            made.committed.append(dict(offsets))
        return bool(made.commit_succeeds)

    made._commit = commit
    made.assignment = lambda: {T, OTHER}
    app.__dict__["tables"] = Tables()
    return made


def message(offset: int, *, generation: int = 1, tp: TP = T) -> Any:
    return Message(
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
        timestamp=1.0,
        timestamp_type=0,
        headers=None,
        key=b"k",
        value=b"v",
        checksum=None,
        tp=tp,
        generation_id=generation,
    )


def take(consumer: Any, *offsets: int, generation: int = 1) -> list[Any]:
    """Messages as the stream has taken them: tracked, in work."""
    taken = [message(offset, generation=generation) for offset in offsets]
    for one in taken:
        one.tracked = True
        consumer._unacked_messages.add(one)
    return taken


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("faust-streaming") == "0.15.3"


@pytest.mark.parametrize(
    ("committed", "taken", "acked", "upstream"),
    [
        pytest.param(2585, [2585, 2586, 2587], [2586, 2587], 2588, id="gap-of-one"),
        pytest.param(None, [0, 1, 2, 3], [2, 3], 4, id="nothing-committed-yet"),
    ],
)
async def test_upstream_commits_past_work_in_flight(
    app: faust.App, committed: int | None, taken: list[int], acked: list[int], upstream: int
) -> None:
    consumer = consumer_of(app, driver.Consumer)
    consumer._committed_offset[T] = committed
    messages = {one.offset: one for one in take(consumer, *taken)}
    for offset in acked:
        consumer.ack(messages[offset])
    assert consumer._new_offset(T) == upstream


async def test_an_offset_is_committable_when_done_and_never_by_faust(app: faust.App) -> None:
    consumer = consumer_of(app, SoundConsumer)
    first, second, skipped = take(consumer, 2585, 2586, 2587)
    consumer.ack(skipped)
    assert consumer._new_offset(T) is None
    assert consumer.done(first)
    assert consumer._new_offset(T) == 2586
    assert consumer.done(second)
    await consumer.commit()
    assert consumer.committed == [{T: 2587}]
    await consumer.commit()
    assert consumer.committed == [{T: 2587}]


async def test_offsets_without_messages_hold_nothing_up(app: faust.App) -> None:
    consumer = consumer_of(app, SoundConsumer)
    for one in take(consumer, 3, 9, 17):
        consumer.done(one)
    await consumer._add_gap(T, 4, 16)
    assert consumer._new_offset(T) == 18
    assert consumer._gap.get(T) is None


async def test_each_partition_has_its_own_offset(app: faust.App) -> None:
    consumer = consumer_of(app, SoundConsumer)
    for offset, tp in ((70, OTHER), (12, T), (13, T), (71, OTHER)):
        consumer.done(message(offset, tp=tp))
    await consumer.commit()
    assert consumer.committed == [{T: 14, OTHER: 72}]


async def test_upstream_acks_messages_of_an_old_generation(app: faust.App) -> None:
    consumer = consumer_of(app, driver.Consumer)
    [stale] = take(consumer, 120, generation=0)
    consumer.ack(stale)
    assert consumer._new_offset(T) == 121


async def test_work_of_an_old_generation_is_forgotten(app: faust.App) -> None:
    consumer = consumer_of(app, SoundConsumer)
    [stale] = take(consumer, 120, generation=0)
    assert not consumer.done(stale)
    assert consumer._new_offset(T) is None
    assert not consumer._unacked_messages


@pytest.mark.parametrize(("kind", "commits"), [(driver.Consumer, []), (SoundConsumer, [{T: 6}])])
async def test_revoke(app: faust.App, kind: Any, commits: list[Any]) -> None:
    """Upstream forgets what is acked before the commit that a revoke makes."""
    consumer = consumer_of(app, kind)

    async def revoked(_: Any) -> None:
        await consumer.wait_empty()

    consumer._on_partitions_revoked = revoked
    app.producer.flush = _nothing  # type: ignore[method-assign]
    [one] = take(consumer, 5)
    (consumer.done if kind is SoundConsumer else consumer.ack)(one)
    await consumer.on_partitions_revoked({T, OTHER})
    assert consumer.committed == commits
    assert consumer._committed_offset.get(T) is None


async def test_revoke_waits_for_work_in_flight(app: faust.App) -> None:
    consumer = consumer_of(app, SoundConsumer)

    async def revoked(_: Any) -> None:
        await consumer.wait_empty()

    consumer._on_partitions_revoked = revoked
    [one] = take(consumer, 5)
    revoking = asyncio.create_task(consumer.on_partitions_revoked({T}))
    await asyncio.sleep(0.01)
    assert not revoking.done()
    consumer.done(one)
    await asyncio.wait_for(revoking, 2)
    assert consumer.committed == [{T: 6}]


async def test_nothing_of_an_earlier_assignment_is_committed_under_a_new_one(
    app: faust.App,
) -> None:
    consumer = consumer_of(app, SoundConsumer)
    consumer.done(message(30))
    await consumer.on_partitions_assigned({T}, 2)
    await consumer.commit()
    assert consumer.committed == []


@pytest.mark.parametrize(("kind", "noted"), [(driver.Consumer, 6), (SoundConsumer, None)])
async def test_a_failed_commit(app: faust.App, kind: Any, noted: int | None) -> None:
    """Upstream notes the offset as committed although it is not."""
    consumer = consumer_of(app, kind)
    app.producer.flush = _nothing  # type: ignore[method-assign]
    consumer.commit_succeeds = False
    [one] = take(consumer, 5)
    (consumer.done if kind is SoundConsumer else consumer.ack)(one)
    await consumer.commit()
    assert consumer._committed_offset[T] == noted
    assert app.tables.commits == []  # type: ignore[attr-defined]


async def test_a_failed_commit_is_made_up_for(app: faust.App) -> None:
    consumer = consumer_of(app, SoundConsumer)
    consumer.done(message(5))
    consumer.commit_succeeds = False
    await consumer.commit()
    consumer.commit_succeeds = True
    await consumer.commit()
    assert consumer.committed == [{T: 6}]


class FakeClient:
    """As much of aiokafka's consumer as the thread needs."""

    def __init__(self) -> None:
        self.positions: dict[Any, int] = {}
        self.commits: dict[Any, int | None] = {T: 40, OTHER: None}
        self.error: Exception | None = None
        self.begin = 0
        self._coordinator = SimpleNamespace(generation=7)

    def assignment(self) -> set[Any]:
        return {T, OTHER}

    async def beginning_offsets(self, tps: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(tps, self.begin)

    async def end_offsets(self, tps: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(tps, 100)

    async def committed(self, tp: Any) -> int | None:
        return self.commits[tp]

    def seek(self, tp: Any, offset: int) -> None:
        self.positions[tp] = offset

    async def seek_to_committed(self) -> dict[Any, int | None]:
        """As aiokafka has it: partitions without a commit stay where they are."""
        for tp, offset in self.commits.items():
            if offset:
                self.positions[tp] = offset
        return dict(self.commits)

    async def commit(self, offsets: Any) -> None:
        if self.error is not None:
            raise self.error


def thread_of(app: faust.App, kind: Any, client: FakeClient) -> Any:
    consumer = consumer_of(app, kind)
    thread = consumer._thread
    thread._consumer = client

    async def call(method: Any, *args: Any) -> Any:
        return await method(*args)

    thread.call_thread = call
    return consumer


@pytest.mark.parametrize(
    ("kind", "position"), [(driver.Consumer, 77), (SoundConsumer, 0)], ids=["upstream", "sound"]
)
async def test_a_partition_without_a_commit_is_read_from_its_start(
    app: faust.App, kind: Any, position: int
) -> None:
    client = FakeClient()
    client.positions = {T: 60, OTHER: 77}
    await thread_of(app, kind, client).perform_seek()
    assert client.positions == {T: 40, OTHER: position}


@pytest.mark.parametrize(("committed", "begin"), [(101, 0), (10, 20)])
async def test_a_commit_outside_the_topic_is_not_trusted(
    app: faust.App, committed: int, begin: int
) -> None:
    client = FakeClient()
    client.commits[T] = committed
    client.begin = begin
    consumer = thread_of(app, SoundConsumer, client)
    await consumer.perform_seek()
    assert client.positions[T] == begin
    assert consumer._read_offset[T] == begin


async def test_a_commit_after_a_rebalance_is_survived_and_any_other_failure_is_not(
    app: faust.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    died: list[str] = []
    monkeypatch.setattr(faust_patch, "die", died.append)
    client = FakeClient()
    thread = thread_of(app, SoundConsumer, client)._thread
    assert isinstance(thread, SoundThread)
    assert await thread._commit({T: 1})
    client._coordinator.generation = -1
    assert not await thread._commit({T: 1})
    client._coordinator.generation = 7
    client.error = CommitFailedError("rebalanced")
    assert not await thread._commit({T: 1})
    assert died == []
    client.error = KafkaError("authorisation")
    await thread._commit({T: 1})
    assert "authorisation" in died[0]


@pytest.mark.parametrize(
    ("kind", "least_s", "most_s"), [(driver.Consumer, 0.9, 9.0), (SoundConsumer, 0.0, 0.5)]
)
async def test_when_all_partitions_are_held_back(
    app: faust.App, kind: Any, least_s: float, most_s: float
) -> None:
    """Upstream sleeps for a second."""
    consumer = consumer_of(app, kind)
    loop = asyncio.get_running_loop()
    began = loop.time()
    records, _ = await consumer._wait_next_records(1.0)
    assert records == {}
    assert least_s <= loop.time() - began <= most_s
