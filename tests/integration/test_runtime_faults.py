"""The consumer runtime under faults: zombies, killers, lost offsets, a broker that is away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.protocol.admin import DeleteGroupsRequest
from aiokafka.structs import OffsetAndMetadata

from schemas.topics import FETCH_REQUESTS, FETCHER_GROUP, physical
from streams.broker import EmbeddedBroker
from streams.kafka.clients import make_admin, make_consumer, started
from streams.settings import Settings
from tests.integration.toys import Scene, scene

pytestmark = pytest.mark.integration


@pytest.fixture
async def toys(settings: Callable[..., Settings], tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(settings(partitions=2), tmp_path) as made:
        yield made


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker to be mistreated."""
    with EmbeddedBroker(tmp_path / "own", heap_mb=256) as made:
        yield made


async def test_kaf_06_a_zombie_commits_nothing_for_the_new_owner(
    toys: Scene,
) -> None:
    ends = await toys.produce([{"id": n} for n in range(20)])
    await toys.produce([{"id": 20, "hold": "go", "partition": 0}])
    await toys.produce([{"id": 21, "hold": "go", "partition": 1}])
    zombie = toys.worker("zombie")
    await toys.until(lambda: len(toys.log("completed")) == 20)
    await toys.until_committed(ends)
    zombie.signal(signal.SIGSTOP)
    toys.flag("go")
    heir = toys.worker("heir")
    ends = await toys.produce([{"id": n} for n in range(22, 60)])
    await toys.until_committed(ends)
    assert await heir.stop() == 0
    before = await toys.committed()
    zombie.signal(signal.SIGCONT)
    await toys.until(lambda: len(toys.log("assigned", "zombie")) == 2)
    after = await toys.committed()
    assert {p: row.offset for p, row in after.items()} == {
        p: row.offset for p, row in before.items()
    }
    ends = await toys.produce([{"id": n} for n in range(60, 70)])
    await toys.until_committed(ends)
    assert await zombie.stop() == 0
    begun = toys.times("begun")
    assert {n: times for n, times in begun.items() if times > 1} == {20: 2, 21: 2}
    assert set(await toys.outputs()) == set(range(70))


async def test_a_message_that_kills_its_process_is_parked_and_all_others_are_done(
    toys: Scene,
) -> None:
    jobs = [{"id": n, "ms": 20 + n % 30} for n in range(120)]
    jobs[41]["kill"] = True
    ends = await toys.produce(jobs)
    deaths = 0
    while True:
        worker = toys.worker(f"w{deaths}")
        try:
            async with asyncio.timeout(40):
                if await worker.ended(39.0):
                    deaths += 1
                    assert deaths < 6, "too many deaths"
                    continue
        except TimeoutError:
            pass
        break
    await toys.until_committed(ends)
    assert await worker.stop() == 0
    letters = await toys.dead_letters()
    assert [letter["reason"] for letter in letters] == ["poison"]
    assert letters[0]["payload"] == b'{"id": 41, "ms": 31, "kill": true}'
    assert deaths == 4
    assert toys.times("begun")[41] == 4
    assert await toys.outputs() == Counter(set(range(120)) - {41})


async def test_no_message_is_suspected_of_deaths_before_it_was_begun(toys: Scene) -> None:
    """Held messages (a retry that is not due, say) survive any number of their owners' deaths."""
    ends = await toys.produce([{"id": n} for n in range(4)])
    toys.flag("full")
    for number in range(5):
        worker = toys.worker(f"w{number}")
        await toys.until_said("assigned", f"w{number}")
        await worker.kill()
    toys.unflag("full")
    toys.worker("last")
    await toys.until_committed(ends)
    assert await toys.outputs() == Counter(range(4))
    assert not await toys.dead_letters()


async def test_kaf_07_deleted_offsets_skip_nothing(toys: Scene) -> None:
    ends = await toys.produce([{"id": n} for n in range(10)])
    worker = toys.worker()
    await toys.until_committed(ends)
    assert await worker.stop() == 0
    group = physical(FETCHER_GROUP, toys.settings.topic_prefix)
    async with started(make_admin(toys.settings)) as admin:
        coordinator = await admin.find_coordinator(group)
        await admin._client.send(coordinator, DeleteGroupsRequest([group]))
    assert not await toys.committed()
    ends = await toys.produce([{"id": n} for n in range(10, 20)])
    toys.worker("b")
    await toys.until_committed(ends)
    completed = toys.times("completed")
    assert {completed[n] for n in range(10, 20)} == {1}
    assert {completed[n] for n in range(10)} == {2}


async def test_what_retention_deleted_beyond_the_commit_holds_nothing_up(toys: Scene) -> None:
    ends = await toys.produce([{"id": n} for n in range(10)])
    worker = toys.worker()
    await toys.until_committed(ends)
    assert await worker.stop() == 0
    last = await toys.produce([{"id": n} for n in range(10, 20)])
    topic = physical(FETCH_REQUESTS, toys.settings.topic_prefix)
    gone = {TopicPartition(topic, number): RecordsToDelete(end + 2) for number, end in ends.items()}
    async with started(make_admin(toys.settings)) as admin:
        await admin.delete_records(gone)
    toys.worker("b")
    await toys.until_committed(last)
    assert toys.times("completed") == Counter({*range(10), *range(14, 20)})


async def test_an_offset_beyond_the_log_starts_at_its_beginning(toys: Scene) -> None:
    ends = await toys.produce([{"id": n} for n in range(6)])
    partition = TopicPartition(physical(FETCH_REQUESTS, toys.settings.topic_prefix), 0)
    async with started(make_consumer(toys.settings, FETCHER_GROUP)) as consumer:
        consumer.assign([partition])
        await consumer.commit({partition: OffsetAndMetadata(1_000, "")})
    toys.worker()
    await toys.until(lambda: toys.times("completed") == Counter(range(6)))
    await asyncio.sleep(0.5)
    assert (await toys.committed())[0].offset == ends[0]


async def test_a_broker_that_restarts_in_mid_work_costs_nothing(
    broker: EmbeddedBroker, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    async with scene(settings(partitions=2, bootstrap_servers=broker.bootstrap), tmp_path) as toys:
        ends = await toys.produce([{"id": n, "ms": 50 + n % 100} for n in range(1_000)])
        worker = toys.worker(room=10)
        await toys.until(lambda: len(toys.log("completed")) > 100)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        await asyncio.sleep(3.0)
        broker.stop()
        broker.start()
        await toys.until_ready()
        await toys.until_committed(ends, 90)
        assert worker.process.poll() is None
        assert set(await toys.outputs()) == set(range(1_000))
        redone = sum(toys.times("begun").values()) - 1_000
        assert redone <= 20 + 20
        assert await worker.stop() == 0


async def test_a_broker_that_is_away_for_long_is_few_lines(
    broker: EmbeddedBroker, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    deployment = settings(partitions=2, bootstrap_servers=broker.bootstrap, log_format="json")
    async with scene(deployment, tmp_path) as toys:
        jobs = [{"id": n, "ms": 50 + n % 100} for n in range(600)]
        ends = await toys.produce(jobs)
        worker = toys.worker(room=10, outage_every_s=4.0)
        await toys.until(lambda: len(toys.log("completed")) > 100)
        broker.stop()
        await asyncio.sleep(15.0)
        broker.start()
        await toys.until_ready()
        await toys.until_committed(ends, 90)
        await toys.until(lambda: '"Kafka is reached again"' in worker.output)
        assert await worker.stop() == 0
    said = [json.loads(line) for line in worker.output.splitlines()]
    gone = [row for row in said if row["event"] == "Kafka cannot be reached"]
    still = [row for row in said if row["event"] == "Kafka still cannot be reached"]
    back = [row for row in said if row["event"] == "Kafka is reached again"]
    # A broker on a busy machine may close its connections once more after its start.
    assert 1 <= len(gone) == len(back) <= 2
    assert {row["nodes"] for row in gone + still + back} == {f"1 ({broker.bootstrap})"}
    assert 3 <= len(still) <= 6
    assert [row["held_back"] for row in still] == sorted(row["held_back"] for row in still)
    assert back[0]["since"] == still[0]["since"]
    assert back[0]["for_s"] >= 15
    # aiokafka's loops wait 100 ms between attempts; without that it would be 20,000 a second.
    assert 200 < back[0]["held_back"] < 6_000
    assert said.index(gone[0]) < said.index(still[0]) < said.index(back[0])
    others = [row["event"] for row in said if row["logger"].startswith("aiokafka")]
    assert len(others) <= 3, others


async def test_psn_04_no_delivery_no_commit_and_the_worker_ends_in_time(
    broker: EmbeddedBroker, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    deployment = settings(partitions=2, bootstrap_servers=broker.bootstrap)
    async with scene(deployment, tmp_path) as toys:
        ends = await toys.produce([{"id": n, "hold": "go"} for n in range(10)])
        worker = toys.worker(delivery_timeout_s=3.0, drain_timeout_s=2.0)
        await toys.until(lambda: len(toys.log("begun")) == 10)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            toys.flag("go")
            began = time.monotonic()
            assert await worker.ended(60.0) == 75
            assert time.monotonic() - began < 3.0 + 30.0
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        await toys.until_ready()
        assert "delivery to records failed: not acknowledged in 3 s" in worker.output
        assert not toys.log("completed")
        toys.worker("b")
        await toys.until_committed(ends)
        assert set(await toys.outputs()) == set(range(10))
        assert not await toys.dead_letters()


async def test_sigterm_while_the_broker_is_away_ends_in_bounded_time(
    broker: EmbeddedBroker, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    deployment = settings(partitions=2, bootstrap_servers=broker.bootstrap)
    async with scene(deployment, tmp_path) as toys:
        await toys.produce([{"id": n, "hold": "go"} for n in range(4)])
        worker = toys.worker(drain_timeout_s=2.0)
        await toys.until(lambda: len(toys.log("begun")) == 4)
        broker.stop()
        await worker.stop(45.0)
