"""Following a topic: bounded batches, and a turn for the loop's other tasks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition

from schemas.topics import RECORDS
from streams.kafka.messages import Source
from streams.kafka.reader import TopicReader
from streams.settings import load


class Ready:
    """A consumer that has fetched much, so that it never waits."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.most = 0

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.partition = partitions[0]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert (partition, offset) == (self.partition, 0)

    async def getmany(
        self,
        *,
        timeout_ms: int,
        max_records: int | None = None,
    ) -> dict[Any, list[Any]]:
        assert timeout_ms > 0
        taken = min(self.left, max_records or self.left)
        self.left -= taken
        self.most = max(self.most, taken)
        row = SimpleNamespace(offset=0, key=None, value=b"v", timestamp=0, headers=())
        return {self.partition: [row] * taken} if taken else {}


async def test_what_was_fetched_is_never_unpacked_all_at_once() -> None:
    reader = TopicReader(load({}, bootstrap_servers="b:1"), RECORDS)
    ready = Ready(2_200)
    reader._consumer = ready  # type: ignore[assignment]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    sizes = []
    async for messages in reader.follow({Source(RECORDS, 0): 0}):
        sizes.append(len(messages))
        if not messages:
            break
    task.cancel()
    assert (sum(sizes), ready.most) == (2_200, 500)
    assert turns >= len(sizes)
