"""Producing with delivery awaited, or the process ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from schemas.topics import BY_NAME, partition_of, physical
from streams.kafka.clients import make_producer
from streams.kafka.messages import Out
from streams.kafka.pace import Pace
from streams.settings import Settings

log = structlog.get_logger(__name__)


class _Parcel(NamedTuple):
    """Messages that are delivered together."""

    messages: Sequence[Out]
    done: asyncio.Future[None]


class KafkaOutputs:
    """`streams.delivery.stage.Outputs` over one idempotent producer.

    What is delivered within a pause of `streams.kafka.pace` goes out together, in one request to
    each broker.

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
        self._pace = Pace()
        self._waiting: list[_Parcel] = []
        self._pump: asyncio.Task[None] | None = None
        self._awaiting: set[asyncio.Task[None]] = set()
        self.delivered = 0
        """Messages acknowledged since the start."""

    async def start(self) -> None:
        """Connect, and learn the partition counts."""
        await self._producer.start()
        for name, topic in self._names.items():
            self._partitions[name] = len(await self._producer.partitions_for(topic))

    async def stop(self) -> None:
        """Disconnect; messages whose delivery nobody awaits any more may be lost."""
        for task in (self._pump, *self._awaiting):
            if task is not None:
                task.cancel()
        with contextlib.suppress(asyncio.TimeoutError, KafkaError):
            await asyncio.wait_for(self._producer.stop(), 5.0)

    async def deliver(self, messages: Sequence[Out]) -> None:
        """Return when Kafka has acknowledged all messages (acks=all)."""
        if not messages:
            return
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append(_Parcel(messages, done))
        if self._pump is None:
            self._pump = loop.create_task(self._send_all(), name="outputs")
        await done
        self.delivered += len(messages)

    async def _send_all(self) -> None:
        """Send what waits, in groups, until nothing does."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            wait_s = self._pace.wait_s(loop.time())
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            parcels, self._waiting = self._waiting, []
            parcels = [parcel for parcel in parcels if not parcel.done.cancelled()]
            self._pace.asked(loop.time())
            deadline = loop.time() + self._settings.delivery_timeout_s
            futures: list[asyncio.Future[Any]] = []
            messages = [message for parcel in parcels for message in parcel.messages]
            if await self._in_time(self._append(messages, futures), deadline, messages):
                task = loop.create_task(self._settle(deadline, parcels, messages, futures))
                self._awaiting.add(task)
                task.add_done_callback(self._awaiting.discard)
        self._pump = None

    async def _append(self, messages: Sequence[Out], futures: list[asyncio.Future[Any]]) -> None:
        for message in messages:
            partition = None
            if message.key is not None:
                partition = partition_of(message.key, self._partitions[message.topic])
            futures.append(
                await self._producer.send(
                    self._names[message.topic],
                    value=message.value,
                    key=message.key,
                    partition=partition,
                    headers=list(message.headers),
                )
            )

    async def _settle(
        self,
        deadline: float,
        parcels: Sequence[_Parcel],
        messages: Sequence[Out],
        futures: Sequence[asyncio.Future[Any]],
    ) -> None:
        if await self._in_time(asyncio.gather(*futures), deadline, messages):
            for parcel in parcels:
                if not parcel.done.done():
                    parcel.done.set_result(None)

    async def _in_time(
        self, work: Awaitable[Any], deadline: float, messages: Sequence[Out]
    ) -> bool:
        """Whether the work was done by then; where it was not, the process ends."""
        try:
            async with asyncio.timeout_at(deadline):
                await work
        except TimeoutError:
            why = f"not acknowledged in {self._settings.delivery_timeout_s:.0f} s"
        except MessageSizeTooLargeError as error:
            why = f"a message beyond the size limit is a bug: {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be completed
            why = repr(error)
        else:
            return True
        topics = sorted({message.topic for message in messages})
        log.error("delivery failed; the process ends", topics=topics, why=why)
        self._fatal(f"delivery to {', '.join(topics)} failed: {why}")
        return False
