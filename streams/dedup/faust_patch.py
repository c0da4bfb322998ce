"""Corrections to faust-streaming 0.15.3, all in one place; the version is pinned for this file.

What is corrected, and what each waits for upstream:

* **Commit past work in flight** (faust-streaming#606, pull request #707). `_new_offset` looks for
  gaps in a list of acked offsets, allows one, and looks for none while nothing is committed.
  Here an offset becomes committable by `SoundConsumer.done` alone, which callers invoke in offset
  order; there is nothing to search.
* **Acks of messages nobody processed** (with the above). The stream acks a message that it skips
  because the flow is suspended or the generation is old. Here such an ack only forgets the
  message: it is read again after the rebalance.
* **State dropped before the last commit** (faust-streaming#502). On revoke, the acked and
  committed offsets are deleted first, and only then the consumer waits for work and commits,
  which finds nothing. Here the order is the other way round.
* **A failed commit counts as done.** `_commit_offsets` notes the offsets as committed whether or
  not the commit succeeded. Here it must have.
* **No start without a commit.** Seeking to committed offsets does nothing for partitions without
  one, whatever was read from them before. Here those go to the first message there is.
* **The worker stalls for a second** when all partitions are held back at once; here a few ms.

Every correction has a test against the pinned version that fails when upstream no longer needs
it: then delete the correction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError
from aiokafka.structs import OffsetAndMetadata
from faust.cli.worker import worker as worker_command
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.worker import Worker
from mode.utils.futures import notify

from schemas.topics import DEDUP_APP
from streams.kafka.clients import generation, make_consumer
from streams.process.die import die

log = structlog.get_logger(__name__)

_POLL_INTERVAL_MS = 24 * 3_600 * 1000
"""Recovery and back-pressure may keep the consumer from polling; its heartbeats go on."""
_HELD_S = 0.02


class SoundThread(driver.AIOKafkaConsumerThread):
    """The consumer's own thread, over a client with this project's settings."""

    mundane_level = "debug"

    def _create_worker_consumer(self, transport: Any) -> Any:
        del transport
        app: Any = self.app
        self._assignor = app.assignor
        timeout_s = app.settings.delivery_timeout_s
        return make_consumer(
            app.settings,
            DEDUP_APP,
            partition_assignment_strategy=[self._assignor],
            max_poll_interval_ms=_POLL_INTERVAL_MS,
            max_poll_records=500,
            # The wait for deliveries before a revoke is bounded by the delivery timeout.
            rebalance_timeout_ms=int((timeout_s + 30) * 1000),
        )

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """False when the partitions are no longer ours: the new owner redoes the work."""
        consumer = self._ensure_consumer()
        if generation(consumer) < 0:
            log.warning("no commit: this worker is no member of the group any more")
            return False
        try:
            await consumer.commit(
                {
                    TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(offset, "")
                    for tp, offset in offsets.items()
                }
            )
        except (CommitFailedError, IllegalStateError) as error:
            log.warning("commit refused: the group has rebalanced", error=str(error))
            return False
        except Exception as error:  # noqa: BLE001 - what is left is not retriable, or a bug
            die(f"commit failed: {error!r}")
        return True

    async def start_offsets(self) -> dict[TP, tuple[int, int | None]]:
        """Seek every assigned partition to where work begins: (offset, committed or None)."""
        consumer = self._ensure_consumer()
        tps = list(consumer.assignment())
        first = await consumer.beginning_offsets(tps)
        last = await consumer.end_offsets(tps)
        starts: dict[TP, tuple[int, int | None]] = {}
        for tp in tps:
            committed = await consumer.committed(tp)
            start = committed
            if committed is None or not first[tp] <= committed <= last[tp]:
                start = first[tp]
                if committed is not None:
                    log.warning(
                        "committed offset is outside the topic: reading from its start",
                        partition=tp.partition,
                        committed=committed,
                        start=start,
                    )
            consumer.seek(tp, start)
            starts[TP(tp.topic, tp.partition)] = (start, committed)
        return starts


class SoundConsumer(driver.Consumer):
    """Faust's consumer, corrected as this module's docstring lists."""

    mundane_level = "debug"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._next: dict[TP, int] = {}
        self._starts: dict[TP, int] = {}
        """Where work began in each partition of the present assignment."""

    def _new_consumer_thread(self) -> SoundThread:
        return SoundThread(self, loop=self.loop, beacon=self.beacon)

    def ack(self, message: Any) -> bool:
        """Faust's own ack, of messages that it skipped: forget them, commit nothing."""
        if not message.acked:
            message.acked = True
            self._unacked_messages.discard(message)
            notify(self._waiting_for_ack)
        return False

    def done(self, message: Any) -> bool:
        """Make the offset of a processed message committable; to be called in offset order.

        False when the message was read under an earlier generation: another owner, or this one,
        reads it again.
        """
        message.acked = True
        self._unacked_messages.discard(message)
        current = message.generation_id == self.app.consumer_generation_id
        if current:
            self._next[message.tp] = message.offset + 1
        notify(self._waiting_for_ack)
        return bool(current)

    def _new_offset(self, tp: TP) -> int | None:
        return self._next.get(tp)

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return (tp for tp in self._next if topics is None or tp in topics or tp.topic in topics)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Offsets without a message need no bookkeeping: `done` goes by order, not by number."""

    async def _commit_offsets(
        self, offsets: Mapping[TP, int], start_new_transaction: bool = True
    ) -> bool:
        del start_new_transaction
        assignment = self.assignment()
        ours = {tp: offset for tp, offset in offsets.items() if tp in assignment}
        if not ours or not await self._commit(ours):
            return False
        self._committed_offset.update(ours)
        self.app.tables.on_commit(ours)
        return True

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish and commit first, forget afterwards."""
        if self._active_partitions is not None:
            self._active_partitions.difference_update(revoked)
        self._paused_partitions.difference_update(revoked)
        await self._on_partitions_revoked(revoked)
        for tp in revoked:
            self._forget(tp)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Nothing of an earlier assignment may be committed under the new one."""
        for tp in list(self._next):
            self._forget(tp)
        await super().on_partitions_assigned(assigned, generation_id)

    async def perform_seek(self) -> None:
        """Go to where work begins in every partition, committed or not."""
        thread = cast("SoundThread", self._thread)
        starts = await thread.call_thread(thread.start_offsets)
        self._starts = {tp: start for tp, (start, _) in starts.items()}
        for tp, (start, committed) in starts.items():
            self._read_offset[tp] = start
            self._committed_offset[tp] = committed

    async def still_ours(self) -> bool:
        """Ask Kafka whether the partitions are ours, by committing once more where we are."""
        assignment = self.assignment()
        here = {
            tp: self._next.get(tp, start) for tp, start in self._starts.items() if tp in assignment
        }
        return bool(here) and bool(await self._commit(here))

    def lags(self, topic: str) -> dict[TP, int]:
        """Messages not committed, by assigned partition of a topic; 0 until its end is known."""
        lags = {}
        for tp in self.assignment():
            if tp.topic == topic:
                end = self.highwater(tp) or 0
                position = self._committed_offset.get(tp) or self._read_offset.get(tp) or 0
                lags[tp] = max(0, end - position)
        return lags

    async def _wait_next_records(
        self,
        timeout: float,  # noqa: ASYNC109 - the signature replaced
    ) -> tuple[Any, Any]:
        if not self.flow_active:
            await self.wait(self.can_resume_flow.wait())
        self.not_waiting_next_records.clear()
        try:
            active = self._get_active_partitions()
            if active:
                return await self._getmany(active_partitions=active, timeout=timeout), active
            await self.sleep(_HELD_S)
            return {}, active
        finally:
            self.not_waiting_next_records.set()

    def _forget(self, tp: TP) -> None:
        for state in (
            self._gap,
            self._acked,
            self._acked_index,
            self._read_offset,
            self._committed_offset,
            self._next,
        ):
            state.pop(tp, None)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust's guesses about stalls compare clocks of two kinds; health is judged elsewhere."""


class SoundTransport(driver.Transport):
    """The transport that makes sound consumers."""

    Consumer: ClassVar[Any] = SoundConsumer


class QuietWorker(Worker):
    """Faust's worker process, logging as all other roles do, without banner and spinner."""

    mundane_level = "debug"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.spinner = None

    def _setup_logging(self) -> None:
        """Logging was set up when the application was made."""

    async def on_startup_finished(self) -> None:
        """Recovery says `ready` itself, at every assignment."""

    async def _sentinel_task(self) -> None:
        """Faust sleeps for a second here before it closes the loop."""


def _no_banner(command: Any, worker: Any) -> None:
    del command, worker


def quiet() -> None:
    """No banner, and of Faust's own log lines only warnings and errors."""
    command: Any = worker_command
    command.on_worker_created = _no_banner
    for name in ("faust", "mode"):
        logging.getLogger(name).setLevel(logging.WARNING)
