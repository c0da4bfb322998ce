"""When `seen` is restored: at every assignment, before any work begins.

It stands in for Faust's recovery, which logs an error in a batch and goes on with the offset
already advanced, ends silently when a step times out, needs the changelog in the consumer's
subscription, and takes some 100 us a row. The steps are in `restore`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Mapping
from typing import Any, cast

import faust
import structlog
from aiokafka.errors import KafkaError
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.types import TP
from mode import Service

from schemas.errors import InvariantError, TransientInfraError
from streams.dedup.restore import Restorer
from streams.dedup.store import SeenTable
from streams.dedup.work import DedupWork
from streams.process.die import die
from streams.settings import Settings

log = structlog.get_logger(__name__)


class RecoveredApp(faust.App):
    """What recovery needs of the application beyond Faust's own."""

    settings: Settings
    source_topic: str
    table: SeenTable
    work: DedupWork


class CheckedRecovery(Recovery):
    """Faust's recovery service with another way to recover; the rest of Faust does not notice."""

    mundane_level = "debug"

    app: RecoveredApp
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

    app: RecoveredApp

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
