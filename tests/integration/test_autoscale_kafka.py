"""The autoscaler's inputs from a real broker, and its cost when idle."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from schemas.errors import TransientInfraError
from schemas.topics import FETCH_RESULTS, FETCHER_GROUP, PARSER_GROUP, RETRY_TIERS, physical
from streams.autoscale.offsets import GroupOffsets
from streams.autoscale.roles import ROLES
from streams.delivery.ledger import CommitMetadata, encode_metadata
from streams.kafka.clients import make_consumer, make_producer, started
from streams.kafka.topics import create
from streams.settings import Settings
from streams.supervise.children import environment

pytestmark = pytest.mark.integration

MakeSettings = Callable[..., Settings]


async def fill(settings: Settings, messages: int) -> None:
    topic = physical(FETCH_RESULTS, settings.topic_prefix)
    async with started(make_producer(settings)) as producer:
        for number in range(messages):
            await producer.send(topic, b"x", partition=number % settings.partitions)
        await producer.flush()


async def test_lag_is_end_less_commit_and_a_missing_commit_counts_from_the_log_start(
    settings: MakeSettings,
) -> None:
    made = settings()
    await create(made)
    await fill(made, 40)
    topic = physical(FETCH_RESULTS, made.topic_prefix)
    offsets = GroupOffsets(made)
    try:
        found = await offsets.read(ROLES["parser"])
        assert found.lag == dict.fromkeys(range(4), 10)
        assert (found.members, found.rebalancing) == (0, False)

        async with started(make_consumer(made, PARSER_GROUP)) as consumer:
            consumer.subscribe([topic])
            await consumer.getmany(timeout_ms=10_000)
            for _ in range(50):
                if consumer.assignment():
                    break
                await consumer.getmany(timeout_ms=200)
            await consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(7, "")})
            found = await offsets.read(ROLES["parser"])
            assert found.lag == {0: 3, 1: 10, 2: 10, 3: 10}
            # A slow message at 3 holds the commit back; what was completed behind it is no lag.
            ahead = encode_metadata(3, CommitMetadata(completed=frozenset({4, 5, 7})))
            await consumer.commit({TopicPartition(topic, 1): OffsetAndMetadata(3, ahead)})
            found = await offsets.read(ROLES["parser"])
            assert found.lag == {0: 3, 1: 4, 2: 10, 3: 10}
            assert found.members == 1
            assert offsets.members[PARSER_GROUP] == 1

        # What retention removed is no backlog, whether an older offset or none is committed.
        removed = {TopicPartition(topic, number): _before(8) for number in (1, 2)}
        await offsets._admin.delete_records(removed)
        found = await offsets.read(ROLES["parser"])
        assert found.lag == {0: 3, 1: 2, 2: 2, 3: 10}
    finally:
        await offsets.close()


def _before(offset: int) -> object:
    from aiokafka.admin import RecordsToDelete

    return RecordsToDelete(before_offset=offset)


async def test_the_fetchers_waiting_retries_are_not_their_lag(settings: MakeSettings) -> None:
    made = settings()
    await create(made)
    async with started(make_producer(made)) as producer:
        await producer.send_and_wait(physical(RETRY_TIERS[-1], made.topic_prefix), b"x")
    offsets = GroupOffsets(made)
    try:
        assert ROLES["fetcher"].group == FETCHER_GROUP
        assert sum((await offsets.read(ROLES["fetcher"])).lag.values()) == 0
    finally:
        await offsets.close()


async def test_missing_topics_and_a_missing_broker_are_faults_that_pass(
    settings: MakeSettings,
) -> None:
    for made in (settings(), settings(bootstrap_servers="127.0.0.1:1")):
        offsets = GroupOffsets(made)
        with pytest.raises(TransientInfraError, match="offsets of parsers"):
            await offsets.read(ROLES["parser"])


@pytest.mark.timeout(120)
def test_an_idle_autoscaler_costs_next_to_nothing(
    settings: MakeSettings, kafka: str, tmp_path: Path
) -> None:
    made = settings()
    asyncio.run(create(made))
    log = tmp_path / "decisions.jsonl"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable, "-c", "from streams.cli import main; main()", "autoscale",
                "--size", "parser=1:4", "--size", "dedup=1:2", "--interval", "5",
            ],
            env=environment(made, kafka, os.environ),
            stdout=output,
        )  # fmt: skip
    try:
        measured = psutil.Process(process.pid)
        deadline = time.monotonic() + 60
        while not log.read_bytes().count(b"\n") >= 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        before, began = measured.cpu_times(), time.monotonic()
        time.sleep(15)
        after = measured.cpu_times()
        cores = (after.user + after.system - before.user - before.system) / (
            time.monotonic() - began
        )
        rss_mb = measured.memory_info().rss / 1e6
    finally:
        process.terminate()
        code = process.wait(20)
    assert code == 0
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert {line["role"] for line in lines} == {"parser", "dedup"}
    assert all(line["action"] == "hold" and line["reasons"] for line in lines)
    # Three times as often as by default.
    assert cores <= 0.03, f"{cores:.4f} cores"
    assert rss_mb <= 60, f"{rss_mb:.0f} MB"
    print(f"idle autoscaler: {cores:.4f} cores, {rss_mb:.1f} MB")
