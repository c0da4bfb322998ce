"""The steps that bring `seen` back from its changelog, and prove that it is complete.

1. For each partition owned, the changelog's bounds and its identity are read. The identity is the
   first row of a changelog, written by whoever finds it empty. A database of another identity, or
   one that claims more than the changelog holds, was built from a changelog that was made anew
   since: it is deleted.
2. Rows from the persisted offset to the end are applied in atomic writes, each with the offset it
   reaches. An interruption at any point is continued from there.
3. The persisted offset must have reached the end. If it has not, the process ends.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from faust.types import TP

from schemas.errors import InvariantError, TransientInfraError
from streams.dedup.store import IDENTITY_KEY, SeenStore
from streams.kafka.clients import make_consumer, started
from streams.settings import Settings

log = structlog.get_logger(__name__)

_STALL_S: Final = 60.0
"""Without any row for this long, recovery gives up and the process ends."""
_CHUNK_ROWS: Final = 20_000
_FETCH_BYTES: Final = 4 * 1024 * 1024


class Restorer:
    """Brings the databases of some partitions up to the end of their changelog.

    `remaining` counts the offsets still to go, `rows` what was applied.
    """

    def __init__(
        self, settings: Settings, store: SeenStore, topic: str, producer: AIOKafkaProducer
    ) -> None:
        self._settings = settings
        self._producer = producer
        self._store = store
        self._topic = topic
        self.remaining = 0
        self.rows = 0

    async def restore(self, partitions: set[int]) -> None:
        """Restore all; raises TransientInfraError or InvariantError when one is not complete."""
        self._store.retain(partitions)
        if not partitions:
            return
        consumer = make_consumer(
            self._settings,
            max_partition_fetch_bytes=_FETCH_BYTES,
            fetch_max_bytes=4 * _FETCH_BYTES,
        )
        async with started(consumer):
            tps = {TopicPartition(self._topic, number): number for number in sorted(partitions)}
            begins = await consumer.beginning_offsets(list(tps))
            ends = await consumer.end_offsets(list(tps))
            await self._open(partitions)
            await self._identify(consumer, begins, ends)
            await self._replay(consumer, begins, ends)
            for tp, number in tps.items():
                reached = self._persisted(number)
                if ends[tp] > begins[tp] and reached < ends[tp] - 1:
                    raise InvariantError(
                        f"table seen, partition {number}: restored to {reached}, the changelog"
                        f" ends at {ends[tp] - 1}"
                    )

    async def _open(self, partitions: set[int]) -> None:
        for number in sorted(partitions):
            try:
                self._store.lookup(number, [])
            except Exception as error:  # the binding raises bare exceptions
                path = self._store.partition_path(number)
                raise TransientInfraError(f"cannot open {path}: {error}") from error
            await asyncio.sleep(0)

    async def _identify(
        self,
        consumer: AIOKafkaConsumer,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        first = await self._first_rows(
            consumer, {tp: begin for tp, begin in begins.items() if begin < ends[tp]}
        )
        for tp, begin in begins.items():
            number = tp.partition
            persisted = self._persisted(number)
            if begin == ends[tp]:
                if persisted >= 0:
                    self._wipe(number, persisted, ends[tp])
                await self._found(tp)
            else:
                key, value = first[tp]
                identity = value if key == IDENTITY_KEY else None
                other = persisted >= 0 and self._store.identity(number) != identity
                if other or persisted >= ends[tp]:
                    self._wipe(number, persisted, ends[tp])
            self._store.verified.add(number)

    def _wipe(self, number: int, persisted: int, end: int) -> None:
        log.warning(
            "the dedup state belongs to another changelog: it is rebuilt",
            partition=number,
            persisted=persisted,
            changelog_end=end,
        )
        self._store.wipe(number)

    async def _first_rows(
        self, consumer: AIOKafkaConsumer, begins: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[bytes | None, bytes | None]]:
        """Key and value of the first row of each partition that has any."""
        unopened = {
            tp: begin for tp, begin in begins.items() if tp.partition not in self._store.verified
        }
        rows: dict[TopicPartition, tuple[bytes | None, bytes | None]] = {
            tp: (IDENTITY_KEY, self._store.identity(tp.partition))
            for tp in begins
            if tp not in unopened
        }
        if unopened:
            consumer.assign(list(unopened))
        for tp, begin in unopened.items():
            consumer.seek(tp, begin)
        deadline = time.monotonic() + _STALL_S
        while missing := [tp for tp in unopened if tp not in rows]:
            for tp, messages in (
                await consumer.getmany(*missing, timeout_ms=500, max_records=len(missing))
            ).items():
                rows.setdefault(tp, (messages[0].key, messages[0].value))
            if time.monotonic() > deadline:
                raise TransientInfraError(f"no answer about the first rows of {missing}")
        return rows

    async def _found(self, tp: TopicPartition) -> None:
        """Name an empty changelog."""
        identity = os.urandom(16)
        sent = await asyncio.wait_for(
            self._producer.send_and_wait(
                tp.topic, identity, key=IDENTITY_KEY, partition=tp.partition
            ),
            self._settings.delivery_timeout_s,
        )
        self._store.write(tp.partition, [(IDENTITY_KEY, identity)], sent.offset)

    async def _replay(
        self,
        consumer: AIOKafkaConsumer,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        behind: dict[TopicPartition, int] = {}
        starts: dict[TopicPartition, int] = {}
        for tp, end in ends.items():
            start = max(self._persisted(tp.partition) + 1, begins[tp])
            if start < end:
                behind[tp] = end
                starts[tp] = start
        if behind:
            # Only these: what is assigned is also fetched.
            consumer.assign(list(behind))
        for tp, start in starts.items():
            consumer.seek(tp, start)
        self.remaining = sum(end - self._persisted(tp.partition) - 1 for tp, end in behind.items())
        moved_at = time.monotonic()
        while behind:
            batches = await consumer.getmany(*behind, timeout_ms=1_000, max_records=_CHUNK_ROWS)
            for tp, messages in batches.items():
                self._apply(tp.partition, messages)
                await asyncio.sleep(0)
            if batches:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > _STALL_S:
                raise TransientInfraError(f"changelog: nothing read for {_STALL_S:.0f} s")
            await self._arrived(consumer, behind)

    async def _arrived(self, consumer: AIOKafkaConsumer, behind: dict[TopicPartition, int]) -> None:
        """Take out of `behind` what has reached its end."""
        for tp, end in list(behind.items()):
            position = await consumer.position(tp)
            if position >= end:
                # The last offsets may hold no row: compaction left a gap there.
                self._store.write(tp.partition, [], position - 1)
                consumer.pause(tp)
                del behind[tp]
        self.remaining = sum(end - self._persisted(tp.partition) - 1 for tp, end in behind.items())

    def _apply(self, number: int, messages: list[Any]) -> None:
        rows = [(message.key, message.value) for message in messages if message.key is not None]
        self._store.write(number, rows, messages[-1].offset)
        self.rows += len(rows)

    def _persisted(self, number: int) -> int:
        offset = self._store.persisted_offset(TP(self._topic, number))
        return -1 if offset is None else int(offset)
