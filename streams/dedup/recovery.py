"""Restoring `seen` from its changelog, checked to be complete before any work begins.

It stands in for Faust's recovery, which logs an error in a batch and goes on with the offset
already advanced, ends silently when a step times out, needs the changelog in the consumer's
subscription, and takes some 100 us a row.

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
import contextlib
import os
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.types import TP
from mode import Service

from schemas.errors import InvariantError, TransientInfraError
from streams.dedup.store import IDENTITY_KEY, SeenStore
from streams.kafka.clients import make_consumer, started
from streams.process.exits import die
from streams.settings import Settings

if TYPE_CHECKING:
    from streams.dedup.app import DedupApp

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


class CheckedRecovery(Recovery):
    """Faust's recovery service with another way to recover; the rest of Faust does not notice."""

    mundane_level = "debug"

    app: DedupApp
    restorer: Restorer | None = None

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """A new assignment: recover it, outside the rebalance callback."""
        del assigned, revoked, newly_assigned
        self._generation_id = generation_id
        self.signal_recovery_start.set()

    @Service.task
    async def _restart_recovery(self) -> None:
        while not await self.wait_for_stopped(self.signal_recovery_start.wait()):
            self.signal_recovery_start.clear()
            generation = self._generation_id
            self._set_recovery_started()
            if await self._unless_interrupted(self._recover(generation)):
                self._set_recovery_ended()

    async def _unless_interrupted(self, work: Awaitable[None]) -> bool:
        """Run to the end; False when another rebalance or the end of the service came first."""
        running = asyncio.ensure_future(work)
        signals = [
            asyncio.ensure_future(event.wait())
            for event in (self.signal_recovery_start, self._stopped)
        ]
        try:
            await asyncio.wait([running, *signals], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                return False
            running.result()
        except (KafkaError, TransientInfraError, InvariantError, TimeoutError) as error:
            die(f"recovery of the table seen failed: {error}")
        except Exception as error:  # a bug must not leave a worker that looks alive
            log.exception("recovery failed")
            die(f"recovery of the table seen failed: {error!r}")
        else:
            return True
        finally:
            for task in (running, *signals):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _recover(self, generation: int) -> None:
        consumer: Any = self.app.consumer
        source = self.app.source_topic
        ours = {tp.partition for tp in consumer.assignment() if tp.topic == source}
        began = time.monotonic()
        table = self.app.table
        self.restorer = Restorer(
            self.app.settings,
            table.store,
            table.changelog_topic.get_topic_name(),
            self.app.work.outlet.producer,
        )
        await self.restorer.restore(ours)
        await self.app.work.assigned(ours, generation)
        if self.app.consumer_generation_id != generation:
            return
        await consumer.perform_seek()
        consumer.resume_partitions({tp for tp in consumer.assignment() if tp.topic == source})
        self.completed.set()
        self.app.flow_control.resume()
        consumer.resume_flow()
        await self.app._fetcher.maybe_start()  # noqa: SLF001 - as Faust's own recovery does
        self.tables.on_actives_ready()
        self.tables.on_standbys_ready()
        self.app.on_rebalance_end()
        log.info(
            "ready",
            partitions=len(ours),
            restored_rows=self.restorer.rows,
            seconds=round(time.monotonic() - began, 2),
        )

    @Service.task
    async def _slurp_changelogs(self) -> None:
        """Nothing: the changelog is read by the restorer."""

    @Service.task
    async def _publish_stats(self) -> None:
        """Nothing: `Restorer.remaining` says it."""

    def flush_buffers(self) -> None:
        """Nothing: there are no buffers."""


class SeenTables(TableManager):
    """Faust's table manager, without the changelog in the subscription."""

    mundane_level = "debug"

    app: DedupApp

    @property
    def recovery(self) -> CheckedRecovery:
        """The recovery service."""
        if self._recovery is None:
            self._recovery = CheckedRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return cast("CheckedRecovery", self._recovery)

    def on_commit(self, offsets: Mapping[TP, int]) -> None:
        """Offsets were committed: their counts can be published."""
        self.app.work.committed(offsets)

    async def on_start(self) -> None:
        """Start recovery at once; Faust waits a second for tables declared late."""
        await self._update_channels()
        await self.recovery.start()

    async def _update_channels(self) -> None:
        self._tables_finalized.set()
        for table in self.values():
            await table.maybe_start()
        self._tables_registered.set()
