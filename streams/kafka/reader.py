"""Reading topics without a group.

A reader here assigns partitions by hand and commits nothing: any number of them may look at a
topic without disturbing each other or the pipeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from schemas.errors import ConfigError, TransientInfraError
from schemas.topics import physical
from streams.kafka.clients import make_admin, make_consumer, started
from streams.kafka.messages import Names, Source
from streams.settings import Settings

_POLL_MESSAGES: Final = 500
"""Taken at once. What was fetched is tens of times as much when it is unpacked: never all of it."""


class Message(NamedTuple):
    """One message of a topic, by the topic's logical name."""

    source: Source
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...]


async def partitions_of(settings: Settings, topics: Iterable[str]) -> tuple[Source, ...]:
    """All partitions of some topics. Raises ConfigError when one does not exist.

    Raises TransientInfraError when Kafka does not answer.
    """
    names = {physical(topic, settings.topic_prefix): topic for topic in topics}
    try:
        # All are asked for: a broker that creates topics by itself would create what is named.
        async with started(make_admin(settings)) as admin:
            described = await admin.describe_topics()
    except KafkaError as error:
        raise TransientInfraError(f"Kafka does not answer: {error!r}") from error
    found = {
        row["topic"]: len(row["partitions"])
        for row in described
        if row["topic"] in names and not row["error_code"]
    }
    missing = sorted(names.keys() - found.keys())
    if missing:
        raise ConfigError(f"no topic {', '.join(missing)}: run `crawl topics create`")
    return tuple(
        Source(names[name], number) for name in sorted(found) for number in range(found[name])
    )


class TopicReader:
    """Reads partitions from positions of the caller's choice; an async context manager.

    Args:
        settings: of the deployment.
        topics: logical names; all their partitions are read.
    """

    def __init__(self, settings: Settings, *topics: str) -> None:
        self._settings = settings
        self._topics = topics
        self._names = Names(settings.topic_prefix)
        self.sources: tuple[Source, ...] = ()
        """What may be read, once entered."""

    async def __aenter__(self) -> Self:
        self.sources = await partitions_of(self._settings, self._topics)
        self._consumer = make_consumer(self._settings)
        try:
            await self._consumer.start()
        except KafkaError as error:
            await self._consumer.stop()
            raise TransientInfraError(f"Kafka does not answer: {error!r}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._consumer.stop()

    async def starts(self) -> dict[Source, int]:
        """Offset of the oldest message kept, by partition."""
        return self._named(await self._consumer.beginning_offsets(self._kafka(self.sources)))

    async def ends(self) -> dict[Source, int]:
        """Offset that the next message will have, by partition."""
        return self._named(await self._consumer.end_offsets(self._kafka(self.sources)))

    async def at_time(self, timestamp_ms: int) -> dict[Source, int]:
        """Offset of the first message not older than a time; the end where there is none."""
        wanted = dict.fromkeys(self._kafka(self.sources), timestamp_ms)
        found = await self._consumer.offsets_for_times(wanted)
        ends = await self.ends()
        return ends | {
            self._names.source(partition): row.offset
            for partition, row in found.items()
            if row is not None
        }

    async def follow(
        self, positions: Mapping[Source, int], *, wait_s: float = 0.5
    ) -> AsyncIterator[list[Message]]:
        """Batches from these positions on, for ever; an empty batch after `wait_s` of silence."""
        self._seek(positions)
        while True:
            yield await self._poll(wait_s)

    async def bounded(
        self, positions: Mapping[Source, int], ends: Mapping[Source, int]
    ) -> AsyncIterator[Message]:
        """Messages from these positions up to, not including, these ends, then stop.

        Positions below the log's start begin at the start: `auto_offset_reset` is `earliest`.
        """
        left = {source: ends[source] for source, at in positions.items() if at < ends[source]}
        self._seek({source: positions[source] for source in left})
        while left:
            for message in await self._poll(0.5):
                if message.offset < left.get(message.source, 0):
                    yield message
            for source, end in tuple(left.items()):
                if await self._consumer.position(self._names.partition(source)) >= end:
                    del left[source]

    def _seek(self, positions: Mapping[Source, int]) -> None:
        partitions = self._kafka(positions)
        if partitions:
            self._consumer.assign(partitions)
        for partition in partitions:
            self._consumer.seek(partition, positions[self._names.source(partition)])

    async def _poll(self, wait_s: float) -> list[Message]:
        # The loop's other tasks have their turn: messages at hand are not waited for.
        await asyncio.sleep(0)
        batches = await self._consumer.getmany(
            timeout_ms=int(wait_s * 1000), max_records=_POLL_MESSAGES
        )
        return [
            Message(
                self._names.source(partition),
                row.offset,
                row.key,
                row.value,
                row.timestamp,
                tuple(row.headers),
            )
            for partition, rows in batches.items()
            for row in rows
        ]

    def _kafka(self, sources: Iterable[Source]) -> list[TopicPartition]:
        return [self._names.partition(source) for source in sources]

    def _named(self, offsets: Mapping[TopicPartition, int]) -> dict[Source, int]:
        return {self._names.source(partition): offset for partition, offset in offsets.items()}
