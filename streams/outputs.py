"""Producing with delivery awaited, or the process ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from schemas.topics import BY_NAME, partition_of, physical
from streams.clients import make_producer
from streams.settings import Settings
from streams.stage import Out

log = structlog.get_logger(__name__)


class KafkaOutputs:
    """`streams.stage.Outputs` over one idempotent producer.

    A message that Kafka does not acknowledge in time is neither retried nor dropped here: `fatal`
    is called and `deliver` never returns, so that nothing after it is completed. aiokafka keeps
    an unacknowledged batch for ever; a new process starts clean, and the source messages are
    delivered to it again.
    """

    def __init__(self, settings: Settings, fatal: Callable[[str], None]) -> None:
        self._settings = settings
        self._fatal = fatal
        self._producer: AIOKafkaProducer = make_producer(settings)
        self._names = {name: physical(name, settings.topic_prefix) for name in BY_NAME}
        self._partitions: dict[str, int] = {}
        self.delivered = 0
        """Messages acknowledged since the start."""

    async def start(self) -> None:
        """Connect, and learn the partition counts."""
        await self._producer.start()
        for name, topic in self._names.items():
            self._partitions[name] = len(await self._producer.partitions_for(topic))

    async def stop(self) -> None:
        """Disconnect; messages whose delivery nobody awaits any more may be lost."""
        with contextlib.suppress(asyncio.TimeoutError, KafkaError):
            await asyncio.wait_for(self._producer.stop(), 5.0)

    async def deliver(self, messages: Sequence[Out]) -> None:
        """Return when Kafka has acknowledged all messages (acks=all)."""
        if not messages:
            return
        try:
            async with asyncio.timeout(self._settings.delivery_timeout_s):
                await self._deliver(messages)
        except TimeoutError:
            self._give_up(
                f"not acknowledged in {self._settings.delivery_timeout_s:.0f} s", messages
            )
        except MessageSizeTooLargeError as error:
            self._give_up(f"a message beyond the size limit is a bug: {error}", messages)
        except KafkaError as error:
            self._give_up(repr(error), messages)
        else:
            self.delivered += len(messages)
            return
        await asyncio.Event().wait()

    async def _deliver(self, messages: Sequence[Out]) -> None:
        send = self._producer.send
        futures = []
        for message in messages:
            partition = None
            if message.key is not None:
                partition = partition_of(message.key, self._partitions[message.topic])
            futures.append(
                await send(
                    self._names[message.topic],
                    value=message.value,
                    key=message.key,
                    partition=partition,
                    headers=list(message.headers),
                )
            )
        if len(futures) == 1:
            await futures[0]
        else:
            await asyncio.gather(*futures)

    def _give_up(self, why: str, messages: Sequence[Out]) -> None:
        topics = sorted({message.topic for message in messages})
        log.error("delivery failed; the process ends", topics=topics, why=why)
        self._fatal(f"delivery to {', '.join(topics)} failed: {why}")
