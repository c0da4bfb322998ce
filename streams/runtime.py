"""The consumer runtime: one stage, one consumer group, nothing lost.

Steps, in this order, and the invariants they keep:

1. **Assign.** Every rebalance revokes everything and assigns anew (aiokafka is eager). An
   assignment begins a new *epoch*. For each partition the committed offset and its metadata are
   read, a ledger is made, and the same offset is committed again with the mark `r` (working).
2. **Poll.** Partitions for which the stage has room are polled; the others are held by leaving
   them out (`pause` would throw their buffers away). When none has room, a partition that does
   not exist is polled, since a consumer that never polls leaves its group.
3. **Deliver.** A message is noted in its ledger, then offered to the stage. What a former owner
   completed beyond its prefix is skipped.
4. **Work.** The stage does what it does and awaits the delivery of all its outputs.
   *Only then* it completes the message. A completion of an old epoch changes nothing.
5. **Commit.** Once per interval the completed prefix of each partition is committed, with the
   completed offsets beyond it as metadata. Never more than that: no auto-commit, no commit on
   close, no commit in a `finally`.
6. **Count.** Counters of offsets below the committed one are published.
7. **Revoke.** Polling stops; the stage forgets what it has not started and finishes what it has,
   within the drain budget; a last commit carries the mark `c` (given back in order); the epoch
   ends. Whatever is not completed by then is the next owner's, who does it again.

Hence: a message below a committed offset is completed, and a completed message has its outputs in
Kafka. A crash at any instant repeats at most what was in work or completed since the last commit.

A message that kills the process is found by the prefix that does not move: after two deaths the
head of the partition is delivered alone, after three it is parked in `dead-letters` as `poison`.
The count is in the commit metadata, so it survives the deaths.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata
from streams.topics_admin import check_topics_async

from schemas import codec
from schemas.admission import Rules
from schemas.errors import ConfigError, TransientInfraError
from schemas.reasons import Reason
from schemas.topics import PROGRESS, logical, physical
from streams.clients import make_admin, make_consumer, started
from streams.deadletter import dead_letter
from streams.directory import Directory
from streams.ledger import CommitMetadata, OffsetLedger, decode_metadata, encode_metadata
from streams.outputs import KafkaOutputs
from streams.progress import ProgressBook, progress_key
from streams.settings import Settings
from streams.stage import Context, Counts, Delivery, Out, Source, Stage

log = structlog.get_logger(__name__)

EXIT_OK = 0
EXIT_BUG = 70
EXIT_CONFIG = 2
EXIT_TRANSIENT = 75

_POLL_S = 0.2
_POLL_RECORDS = 500
_COMMIT_S = 20.0
_CLOSE_S = 10.0


class Runtime:
    """Runs one stage until it is told to stop. See the module's docstring for the steps."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self.stage = stage
        self.settings = settings
        self.directory = Directory(settings)
        self.outputs = KafkaOutputs(settings, self.fatal)
        self.book = ProgressBook(stage.name, self.directory.totals)
        self.ledgers: dict[Source, OffsetLedger] = {}
        self.epoch = 0
        """Grows with every assignment and every revocation."""
        self.rebalances = 0
        self.started_at = time.monotonic()
        self.last_commit_at = time.monotonic()
        """Monotonic time of the last successful commit, or of the last time nothing was due."""
        self.ready = False
        self._consumer = make_consumer(settings, stage.group)
        self._committed: dict[Source, tuple[int, str]] = {}
        self._assigned = False
        self._stopping = asyncio.Event()
        self._commit_now = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._committing: asyncio.Task[None] | None = None
        self._parking: set[asyncio.Task[None]] = set()
        self._fatal: str | None = None
        self._exit_code = EXIT_OK

    # What the stage sees.

    def rules(self, crawl: str) -> Rules | None:
        """See `streams.stage.Crawls`."""
        return self.directory.rules(crawl)

    def pages(self, crawl: str) -> int:
        """See `streams.stage.Crawls`."""
        return self.book.pages(crawl)

    def complete(self, delivery: Delivery, counts: Counts | None) -> bool:
        """See `Delivery.complete`. Step 4's second half."""
        if delivery.epoch != self.epoch:
            return False
        source = delivery.source
        ledger = self.ledgers[source]
        ledger.complete(delivery.offset)
        if counts:
            self.book.add(source, delivery.offset, counts)
        if ledger.careful:
            self._commit_now.set()
        return True

    def current(self, delivery: Delivery) -> bool:
        """See `Delivery.stale`."""
        return delivery.epoch == self.epoch

    # Life.

    async def run(self) -> int:
        """Run until stopped; the exit code."""
        try:
            await self.directory.start()
            await self.outputs.start()
            await self.stage.start(Context(self.settings, self.outputs, self))
            topics = [physical(topic, self.settings.topic_prefix) for topic in self.stage.topics]
            self._consumer.subscribe(topics, listener=_Listener(self))
            await self._consumer.start()
            committer = asyncio.create_task(self._commit_loop(), name="commit-loop")
            committer.add_done_callback(self._ended)
            await self._stopping.wait()
            committer.cancel()
            if self._fatal is None:
                log.info("draining", stage=self.stage.name)
                await self.revoke()
        finally:
            await self._close()
        return self._exit_code

    def stop(self) -> None:
        """Drain and end. Safe in a signal handler."""
        self._stopping.set()

    def fatal(self, why: str, exit_code: int = EXIT_TRANSIENT) -> None:
        """End without committing anything more: the next process repeats what was in work."""
        if self._fatal is None:
            self._fatal = why
            self._exit_code = exit_code
            log.error("the worker ends", stage=self.stage.name, why=why, exit_code=exit_code)
            self._stopping.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("unexpected failure", task=task.get_name(), exc_info=error)
            transient = isinstance(error, (KafkaError, TransientInfraError))
            self.fatal(repr(error), EXIT_TRANSIENT if transient else EXIT_BUG)

    async def _close(self) -> None:
        self._cancel(self._poller)
        for close in (
            self._consumer.stop,
            self.stage.stop,
            self.outputs.stop,
            self.directory.stop,
        ):
            try:
                await asyncio.wait_for(close(), _CLOSE_S)
            except (TimeoutError, KafkaError) as error:
                log.warning("unclean close", what=close.__qualname__, error=repr(error))

    @staticmethod
    def _cancel(task: asyncio.Task[Any] | None) -> None:
        if task is not None:
            task.cancel()

    # Steps 2 and 3: poll and deliver.

    async def _poll_loop(self) -> None:
        nowhere = TopicPartition("", 0)
        while True:
            ready = []
            for source in [source for source in self.ledgers if self._has_room(source)]:
                if self.ledgers[source].careful:
                    await self._poll(self._kafka(source), timeout_s=0.0, records=1)
                else:
                    ready.append(self._kafka(source))
            await self._poll(*(ready or (nowhere,)), timeout_s=_POLL_S, records=_POLL_RECORDS)

    async def _poll(self, *partitions: TopicPartition, timeout_s: float, records: int) -> None:
        batches = await self._consumer.getmany(
            *partitions, timeout_ms=int(timeout_s * 1000), max_records=records
        )
        for partition, messages in batches.items():
            source = self._source(partition)
            ledger = self.ledgers[source]
            for message in messages:
                if ledger.deliver(message.offset):
                    self._deliver(source, ledger, message)

    def _has_room(self, source: Source) -> bool:
        ledger = self.ledgers[source]
        if ledger.careful:
            alone = ledger.pending == 0 and ledger.committable == ledger.start
            return alone and self.stage.room(source) > 0
        return not ledger.full and self.stage.room(source) > 0

    def _deliver(self, source: Source, ledger: OffsetLedger, message: Any) -> None:
        delivery = Delivery(
            source,
            message.offset,
            message.key,
            message.value,
            message.timestamp,
            self.epoch,
            self,
        )
        if not ledger.careful:
            self.stage.offer(delivery)
        elif ledger.poisoned:
            task = asyncio.create_task(self._park(delivery, ledger.deaths), name="park")
            task.add_done_callback(self._ended)
            self._parking.add(task)
            task.add_done_callback(self._parking.discard)
        else:
            log.warning(
                "a message may have killed its worker; it is tried alone",
                topic=source.topic,
                partition=source.partition,
                offset=delivery.offset,
                deaths=ledger.deaths,
            )
            self.stage.offer(delivery)

    async def _park(self, delivery: Delivery, deaths: int) -> None:
        out = dead_letter(
            delivery.source,
            delivery.offset,
            delivery.key,
            delivery.value,
            reason=Reason.POISON,
            stage=self.stage.name,
            detail=f"{deaths} workers died with this message at the head of its partition",
            attempts=deaths,
            now_ms=now_ms(),
        )
        await self.outputs.deliver([out])
        delivery.complete()

    # Steps 5 and 6: commit and count.

    async def _commit_loop(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.commit_interval_s):
                    await self._commit_now.wait()
            self._commit_now.clear()
            if self._assigned:
                await self._commit(clean=False)

    async def _commit(self, *, clean: bool) -> None:
        """Commit what changed since the last commit; a failure leaves it for the next time."""
        due: dict[Source, tuple[int, str]] = {}
        for source, ledger in self.ledgers.items():
            offset = ledger.committable
            text = encode_metadata(offset, ledger.metadata(clean=clean))
            if self._committed.get(source) != (offset, text):
                due[source] = (offset, text)
        if not due:
            self.last_commit_at = time.monotonic()
            return
        offsets = {self._kafka(source): OffsetAndMetadata(*row) for source, row in due.items()}
        self._committing = asyncio.create_task(self._consumer.commit(offsets), name="commit")
        try:
            await asyncio.wait_for(self._committing, _COMMIT_S)
        except (CommitFailedError, IllegalStateError) as error:
            log.warning("partitions were taken away before the commit", error=str(error)[:200])
        except (TimeoutError, KafkaError) as error:
            log.warning("commit failed; it is tried again", error=repr(error))
        else:
            self._committed.update(due)
            self.last_commit_at = time.monotonic()
            await self._publish(due)

    async def _publish(self, committed: dict[Source, tuple[int, str]]) -> None:
        rows = []
        for source, (offset, _) in committed.items():
            self.ledgers[source].moved(offset)
            rows += self.book.committed(source, offset, now_ms())
        await self.outputs.deliver(
            [Out(PROGRESS, progress_key(row), codec.encode("progress", row)) for row in rows]
        )

    # Steps 1 and 7: assign and revoke.

    async def assign(self, partitions: set[TopicPartition]) -> None:
        """Take over partitions."""
        self.epoch += 1
        self.rebalances += 1
        sources = frozenset(self._source(partition) for partition in partitions)
        await self.directory.catch_up()
        for source, ledger in (await self._take_over(partitions)).items():
            self.ledgers[source] = ledger
        await self._commit(clean=False)
        self.stage.assigned(sources)
        self._assigned = True
        self.ready = True
        self._poller = asyncio.create_task(self._poll_loop(), name="poll-loop")
        self._poller.add_done_callback(self._ended)
        log.info("assigned", stage=self.stage.name, epoch=self.epoch, partitions=len(sources))

    async def _take_over(self, partitions: set[TopicPartition]) -> dict[Source, OffsetLedger]:
        if not partitions:
            return {}
        group = physical(self.stage.group, self.settings.topic_prefix)
        async with started(make_admin(self.settings)) as admin:
            committed = await admin.list_consumer_group_offsets(group, partitions=list(partitions))
        begins = await self._consumer.beginning_offsets(partitions)
        ends = await self._consumer.end_offsets(partitions)
        ledgers = {}
        for partition in partitions:
            known = committed.get(partition)
            start, metadata = begins[partition], CommitMetadata(clean=True)
            if known is not None and 0 <= known.offset <= ends[partition]:
                start = known.offset
                metadata = decode_metadata(known.offset, known.metadata)
                self._committed[self._source(partition)] = (known.offset, known.metadata)
            elif known is not None and known.offset > ends[partition]:
                log.warning(
                    "the committed offset lies beyond the log: the topic was made anew",
                    topic=partition.topic,
                    partition=partition.partition,
                    committed=known.offset,
                    end=ends[partition],
                )
            ledgers[self._source(partition)] = OffsetLedger(
                start, metadata, backlog=ends[partition] > start
            )
        return ledgers

    async def revoke(self) -> None:
        """Give everything back, in order."""
        self._assigned = False
        for task in (self._poller, self._committing):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
        sources = frozenset(self.ledgers)
        if sources:
            try:
                async with asyncio.timeout(self.settings.drain_timeout_s):
                    await self.stage.revoke(sources)
            except TimeoutError:
                left = sum(ledger.pending for ledger in self.ledgers.values())
                log.warning("drain budget spent", stage=self.stage.name, unfinished=left)
            await self._commit(clean=True)
        self.epoch += 1
        self.book.revoked(sources)
        self.ledgers.clear()
        self._committed.clear()

    def _kafka(self, source: Source) -> TopicPartition:
        return TopicPartition(physical(source.topic, self.settings.topic_prefix), source.partition)

    def _source(self, partition: TopicPartition) -> Source:
        return Source(logical(partition.topic, self.settings.topic_prefix), partition.partition)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """aiokafka logs and swallows what a listener raises; here it ends the process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - eager: all are
        await self._guard(self._runtime.revoke())

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        await self._guard(self._runtime.assign(set(assigned)))

    async def _guard(self, step: Coroutine[Any, Any, None]) -> None:
        try:
            await step
        except (KafkaError, TransientInfraError, TimeoutError) as error:
            self._runtime.fatal(f"rebalance failed: {error!r}")
        except Exception as error:  # a bug must not leave a worker that owns nothing
            log.exception("rebalance failed")
            self._runtime.fatal(f"rebalance failed: {error!r}", EXIT_BUG)


def now_ms() -> int:
    """Wall clock, milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


async def _run(stage: Stage, settings: Settings) -> int:
    problems = await check_topics_async(settings)
    if problems:
        raise ConfigError("\n  ".join(["topics:", *problems, "run: crawl topics create"]))
    runtime = Runtime(stage, settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.stop)
    return await runtime.run()


def run_worker(stage: Stage, settings: Settings) -> int:
    """Run a stage as this process's job; the exit code.

    0: stopped by SIGTERM or SIGINT after draining. 2: a setting or topic is wrong. 70: a bug.
    75: Kafka did not answer in time; start it again and it goes on where it was.
    """
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_run(stage, settings))
    except ConfigError as error:
        log.error("cannot start", error=str(error))
        return EXIT_CONFIG
    except (KafkaError, TransientInfraError) as error:
        log.error("Kafka does not answer", error=repr(error))
        return EXIT_TRANSIENT


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
