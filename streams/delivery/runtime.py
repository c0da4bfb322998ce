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
   completed offsets beyond it as metadata, and only as a member of the generation that the
   partitions were assigned in. Never more than that: no auto-commit, no commit on close, no
   commit in a `finally`.
6. **Count.** Counters of offsets below the committed one are published.
7. **Revoke.** Polling stops; the stage forgets what it has not started and finishes what it has,
   within the drain budget; a last commit carries the mark `c` (given back in order); the epoch
   ends. Whatever is not completed by then is the next owner's, who does it again.

Hence: a message below a committed offset is completed, and a completed message has its outputs in
Kafka. A crash at any instant repeats at most what was in work or completed since the last commit.

A message that kills the process is found by what was begun when it died (`ledger` has the rules),
tried alone, and parked in `dead-letters` as `poison`. The deaths are counted in the commit
metadata, so they survive the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from schemas.admission import Rules
from schemas.errors import TransientInfraError
from schemas.reasons import Reason
from schemas.topics import physical
from streams.crawls.directory import Directory
from streams.crawls.progress import ProgressBook
from streams.deadletters.letter import dead_letter
from streams.delivery.commits import Commits
from streams.delivery.ledger import (
    NO_METADATA,
    POISON_AFTER_DEATHS,
    POLL_RECORDS,
    UNREPORTED_LIMIT,
    CommitMetadata,
    OffsetLedger,
    decode_metadata,
)
from streams.delivery.outputs import KafkaOutputs
from streams.delivery.stage import Context, Delivery, Stage
from streams.kafka.clients import committed, make_consumer
from streams.kafka.messages import Names, Source
from streams.process.clock import now_ms
from streams.process.exits import EXIT_BUG, EXIT_OK, EXIT_RETRY
from streams.process.tasks import cancel, end, first
from streams.settings import Settings
from streams.telemetry.metrics import Counts, Health, Metrics
from streams.telemetry.pulse import Pulse
from streams.telemetry.tell import tell

log = structlog.get_logger(__name__)

_POLL_S = 0.2
_CLOSE_S = 10.0
_TAKE_OVER_S = 30.0
_COMMIT_OVERDUE_S = 60.0
_MAIN = {"fetcher": "fetched"}
"""The counter that says how much a stage did."""


class Runtime:
    """Runs one stage until it is told to stop. See the module's docstring for the steps."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self.stage = stage
        self.settings = settings
        self.directory = Directory(settings)
        self.metrics = Metrics(stage.name)
        self.outputs = KafkaOutputs(settings, self.fatal)
        self.book = ProgressBook(stage.name, self.directory.totals)
        self.ledgers: dict[Source, OffsetLedger] = {}
        self.epoch = 0
        """Grows with every assignment and every revocation."""
        self.rebalances = 0
        self.pulse = Pulse()
        self.ready = False
        self._consumer = make_consumer(settings, stage.group)
        self._commits = Commits(self._consumer, self.ledgers, self.book, self.outputs, settings)
        self._beginnings = self._commits.beginnings
        self._names = Names(settings.topic_prefix)
        self._working = False
        self._turn = asyncio.Lock()
        """Held while partitions are taken over or given back."""
        self._stopping = asyncio.Event()
        self._failed = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._parking: set[asyncio.Task[None]] = set()
        self._stage_started = False
        self._why = ""
        self._exit_code = EXIT_OK

    # What the stage sees.

    def rules(self, crawl: str) -> Rules | None:
        """See `streams.delivery.stage.Crawls`."""
        return self.directory.rules(crawl)

    def pages(self, crawl: str) -> int:
        """See `streams.delivery.stage.Crawls`."""
        return self.book.pages(crawl)

    async def begin(self, delivery: Delivery) -> bool:
        """See `Delivery.begin`."""

        def working() -> bool:
            return self._working and delivery.epoch == self.epoch

        if not working():
            return False
        ledger = self.ledgers[delivery.source]
        if self._commits.leased and not ledger.guarded(delivery.offset):
            return True
        return await self._beginnings.begin(delivery, ledger, working, lambda: self._commits.leased)

    def put_back(self, delivery: Delivery) -> None:
        """See `Delivery.put_back`."""
        if delivery.epoch == self.epoch:
            self.ledgers[delivery.source].put_back(delivery.offset)
            self._beginnings.ended(delivery)

    def complete(self, delivery: Delivery, counts: Counts | None) -> bool:
        """See `Delivery.complete`. Step 4's second half."""
        if delivery.epoch != self.epoch:
            return False
        self.ledgers[delivery.source].complete(delivery.offset)
        self._beginnings.ended(delivery)
        if counts:
            self.book.add(delivery.source, delivery.offset, counts)
            self.metrics.count(counts)
        return True

    def current(self, delivery: Delivery) -> bool:
        """See `Delivery.stale`."""
        return delivery.epoch == self.epoch

    # Life.

    async def run(self) -> int:
        """Run until stopped; the exit code."""
        try:
            if await self._or_stopped(self._start()):
                tasks = [
                    asyncio.create_task(self._commits.loop(lambda: self._working), name="commits"),
                    asyncio.create_task(self.pulse.beat(), name="pulse"),
                    asyncio.create_task(self._tell(), name="tell"),
                ]
                for task in tasks:
                    self.watch(task)
                await self._stopping.wait()
                cancel(*tasks)
            if not self._failed.is_set():
                log.info("draining", stage=self.stage.name)
                await self._or_failed(self.revoke())
        finally:
            await self._close()
        return self._exit_code

    async def _start(self) -> None:
        await self.directory.start()
        await self.outputs.start()
        self._stage_started = True
        await self.stage.start(Context(self.settings, self.outputs, self, self.metrics, self.watch))
        await self._consumer.start()
        topics = [physical(topic, self.settings.topic_prefix) for topic in self.stage.topics]
        self._consumer.subscribe(topics, listener=_Listener(self))

    def stop(self) -> None:
        """Drain and end. Safe in a signal handler."""
        self._stopping.set()

    def fatal(self, why: str, exit_code: int = EXIT_RETRY) -> None:
        """End without committing anything more: the next process repeats what was in work."""
        if not self._failed.is_set():
            self._exit_code = exit_code
            log.error("the worker ends", stage=self.stage.name, why=why, exit_code=exit_code)
            self._why = why
            self._failed.set()
            self._stopping.set()

    async def _or_stopped(self, step: Coroutine[Any, Any, None]) -> bool:
        return await first(step, self._stopping)

    async def _or_failed(self, step: Coroutine[Any, Any, None]) -> bool:
        return await first(step, self._failed)

    def watch(self, task: asyncio.Task[Any]) -> None:
        """End when this task fails."""
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            transient = isinstance(error, (KafkaError, TransientInfraError))
            if not transient:
                log.error("unexpected failure", task=task.get_name(), exc_info=error)
            self.fatal(repr(error), EXIT_RETRY if transient else EXIT_BUG)

    async def _close(self) -> None:
        cancel(self._poller, self._commits.sending, *self._parking)
        closes = [self._consumer.stop, self.outputs.stop, self.directory.stop]
        if self._stage_started:
            closes.insert(1, self.stage.stop)
        for close in closes:
            task = asyncio.ensure_future(close())
            await asyncio.wait({task}, timeout=_CLOSE_S)
            if not task.done():
                task.cancel()
                log.warning("unclean close", what=close.__qualname__, error="not done in time")
            elif task.cancelled() or task.exception() is not None:
                why = "cancelled" if task.cancelled() else repr(task.exception())
                log.warning("unclean close", what=close.__qualname__, error=why)

    # What operators see.

    async def _tell(self) -> None:
        def present() -> dict[str, int]:
            return {
                "in_flight": self.metrics.in_flight(),
                "pending": sum(ledger.pending for ledger in self.ledgers.values()),
            }

        await tell(self.metrics.totals, _MAIN.get(self.stage.name, "records"), present)

    def health(self) -> Health:
        """Ready: partitions were assigned. Problems: no commit, or no event loop, for too long.

        Called from the thread of the metrics server.
        """
        problems = self.pulse.problems()
        age = time.monotonic() - self._commits.last_at
        if self._working and age > _COMMIT_OVERDUE_S + 2 * self.settings.session_timeout_s:
            problems.append(f"no successful commit for {age:.0f} s")
        if self._why:
            problems.append(self._why)
        return Health(self.ready and self._working, tuple(problems))

    def refresh(self, metrics: Metrics) -> None:
        """Set the gauges that are read from present state."""
        metrics.set("crawler_event_loop_lag_seconds", self.pulse.take_lag())
        metrics.set("crawler_commit_age_seconds", time.monotonic() - self._commits.last_at)
        ledgers = list(self.ledgers.items())
        metrics.set("crawler_pending_messages", sum(ledger.pending for _, ledger in ledgers))
        metrics.clear("crawler_consumer_lag")
        for source, ledger in ledgers:
            committed = self._commits.offset(source)
            committed = ledger.start if committed is None else committed
            metrics.set(
                "crawler_consumer_lag",
                max(0, self._end_of(source, ledger) - committed),
                self.stage.group,
                source.topic,
                str(source.partition),
            )

    def _end_of(self, source: Source, ledger: OffsetLedger) -> int:
        try:
            return self._consumer.highwater(self._names.partition(source)) or ledger.next
        except IllegalStateError:  # the partition was taken away meanwhile
            return ledger.next

    # Steps 2 and 3: poll and deliver.

    async def _poll_loop(self) -> None:
        nowhere = TopicPartition("", 0)
        while True:
            ready, records = [], POLL_RECORDS
            for source, ledger in self.ledgers.items():
                room = 0 if ledger.full else self.stage.room(source)
                if room > 0:
                    ready.append(self._names.partition(source))
                    records = min(records, room)
            batches = await self._consumer.getmany(
                *(ready or (nowhere,)), timeout_ms=int(_POLL_S * 1000), max_records=records
            )
            for partition, messages in batches.items():
                self._deliver(self._names.source(partition), messages)

    def _deliver(self, source: Source, messages: Iterable[Any]) -> None:
        ledger = self.ledgers[source]
        for message in messages:
            if not ledger.deliver(message.offset):
                continue
            delivery = Delivery(
                source,
                message.offset,
                message.key,
                message.value,
                message.timestamp,
                self.epoch,
                self,
            )
            deaths = ledger.deaths(message.offset)
            if deaths < POISON_AFTER_DEATHS:
                self.stage.offer(delivery)
            else:
                task = asyncio.create_task(self._park(delivery, deaths), name="park")
                task.add_done_callback(self._ended)
                self._parking.add(task)
                task.add_done_callback(self._parking.discard)
        if ledger.unreported > UNREPORTED_LIMIT // 2:
            self._commits.soon()

    async def _park(self, delivery: Delivery, deaths: int) -> None:
        out = dead_letter(
            delivery.source,
            delivery.offset,
            delivery.key,
            delivery.value,
            reason=Reason.POISON,
            stage=self.stage.name,
            detail=f"{deaths} workers died with this message in work",
            attempts=deaths,
            now_ms=now_ms(),
        )
        await self.outputs.deliver([out])
        log.error("poison message parked", origin=str(delivery.source), offset=delivery.offset)
        self.metrics.inc("crawler_dead_letters_total", Reason.POISON.value)
        delivery.complete()

    # Steps 1 and 7: assign and revoke.

    async def assign(self, partitions: set[TopicPartition]) -> None:
        """Take over partitions."""
        async with self._turn:
            if self._stopping.is_set():
                return
            self.epoch += 1
            self.rebalances += 1
            self.metrics.inc("crawler_rebalances_total")
            self._commits.joined()
            await self.directory.catch_up()
            self.ledgers.update(await self._take_over(partitions))
            await self._commits.commit(clean=False)
            sources = frozenset(self.ledgers)
            self.stage.assigned(sources)
            self._working = True
            self.ready = True
            self._poller = asyncio.create_task(self._poll_loop(), name="poll-loop")
            self._poller.add_done_callback(self._ended)
            log.info("assigned", stage=self.stage.name, epoch=self.epoch, partitions=len(sources))

    async def _take_over(self, partitions: set[TopicPartition]) -> dict[Source, OffsetLedger]:
        if not partitions:
            return {}
        async with asyncio.timeout(_TAKE_OVER_S):
            known = await committed(self._consumer, partitions)
            begins = await self._consumer.beginning_offsets(partitions)
            ends = await self._consumer.end_offsets(partitions)
        ledgers = {}
        for partition in partitions:
            source = self._names.source(partition)
            start, metadata = self._start_of(
                source, known.get(partition), begins[partition], ends[partition]
            )
            self._consumer.seek(partition, start)
            ledgers[source] = OffsetLedger(start, metadata)
        return ledgers

    def _start_of(
        self, source: Source, known: OffsetAndMetadata | None, begin: int, end: int
    ) -> tuple[int, CommitMetadata]:
        """Where to go on in a partition, and what its former owner left."""
        if known is None or known.offset < 0:
            return begin, NO_METADATA
        if known.offset > end:
            log.warning(
                "the committed offset lies beyond the log: the topic was made anew",
                topic=source.topic,
                partition=source.partition,
                committed=known.offset,
                end=end,
            )
            return begin, NO_METADATA
        self._commits.found(source, known.offset, known.metadata)
        return known.offset, decode_metadata(known.offset, known.metadata)

    async def revoke(self) -> None:
        """Give everything back, in order."""
        async with self._turn:
            self._working = False
            self._beginnings.refuse()
            await end(self._poller, self._commits.sending)
            sources = frozenset(self.ledgers)
            if sources:
                try:
                    async with asyncio.timeout(self.settings.drain_timeout_s):
                        await self.stage.revoke(sources)
                except TimeoutError:
                    left = sum(ledger.pending for ledger in self.ledgers.values())
                    log.warning("drain budget spent", stage=self.stage.name, unfinished=left)
                await self._commits.commit(clean=True)
            self.epoch += 1
            self.book.revoked(sources)
            self.ledgers.clear()
            self._commits.forget()

    async def guard(self, step: Coroutine[Any, Any, None]) -> None:
        """Run a step of a rebalance; its failure ends the process."""
        try:
            await self._or_failed(step)
        except (KafkaError, TransientInfraError, TimeoutError) as error:
            self.fatal(f"rebalance failed: {error!r}")
        except Exception as error:  # a bug must not leave a worker that owns nothing
            log.exception("rebalance failed")
            self.fatal(f"rebalance failed: {error!r}", EXIT_BUG)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """aiokafka logs and swallows what a listener raises; here it ends the process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - eager: all are
        await self._runtime.guard(self._runtime.revoke())

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        await self._runtime.guard(self._runtime.assign(set(assigned)))
