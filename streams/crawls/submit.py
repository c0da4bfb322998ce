"""Producing on behalf of commands: specs, seeds, replays; delivery awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Final, Self

from aiokafka.errors import KafkaError

from schemas import codec
from schemas.crawl import CrawlSpec, to_record
from schemas.errors import TransientInfraError
from schemas.topics import CRAWLS, PROGRESS, partition_of, physical
from streams.crawls.directory import Directory
from streams.kafka.clients import make_producer
from streams.kafka.messages import Out
from streams.kafka.reader import partitions_of
from streams.process.clock import now_ms
from streams.settings import Settings

_STOP_S: Final = 5.0


class Submitter:
    """A producer whose failures are exceptions; an async context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer = make_producer(settings)

    async def __aenter__(self) -> Self:
        try:
            await self._producer.start()
        except KafkaError as error:
            await self._producer.stop()
            raise TransientInfraError(f"Kafka does not answer: {error!r}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An idempotent producer without its broker never finishes stopping.
        with contextlib.suppress(TimeoutError, KafkaError):
            await asyncio.wait_for(self._producer.stop(), _STOP_S)

    async def deliver(self, messages: Sequence[Out], partition: int | None = None) -> None:
        """Return when Kafka has acknowledged all messages. Raises TransientInfraError.

        Args:
            messages: to produce; without a key they go to any partition.
            partition: to use instead of the key's.
        """
        try:
            async with asyncio.timeout(self._settings.delivery_timeout_s):
                await asyncio.gather(*[await self._send(item, partition) for item in messages])
        except (KafkaError, TimeoutError) as error:
            raise TransientInfraError(f"Kafka did not take a message: {error!r}") from error

    async def submit_spec(self, spec: CrawlSpec, revision: int) -> None:
        """Publish a crawl's spec. `revision` must exceed the stored one."""
        record = to_record(spec, revision=revision, now_ms=now_ms())
        await self.deliver([Out(CRAWLS, spec.crawl.encode(), codec.encode("crawl-spec", record))])

    async def _send(self, message: Out, partition: int | None) -> asyncio.Future[object]:
        topic = physical(message.topic, self._settings.topic_prefix)
        if partition is None and message.key is not None:
            count = len(await self._producer.partitions_for(topic))
            partition = partition_of(message.key, count)
        future: asyncio.Future[object] = await self._producer.send(
            topic,
            value=message.value,
            key=message.key,
            partition=partition,
            headers=list(message.headers),
        )
        return future


@contextlib.asynccontextmanager
async def directory_of(settings: Settings) -> AsyncIterator[Directory]:
    """The crawl directory, read to its end. Raises TransientInfraError or ConfigError."""
    await partitions_of(settings, (CRAWLS, PROGRESS))
    directory = Directory(settings)
    try:
        await directory.start()
        yield directory
    except KafkaError as error:
        raise TransientInfraError(f"Kafka does not answer: {error!r}") from error
    finally:
        await directory.stop()
