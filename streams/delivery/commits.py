"""Steps 5 and 6 of the runtime: what is completed is committed, what is committed is counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from schemas import codec
from schemas.topics import PROGRESS
from streams.crawls.progress import ProgressBook, progress_key
from streams.delivery.beginnings import Beginnings
from streams.delivery.ledger import OffsetLedger, encode_metadata
from streams.delivery.stage import Outputs
from streams.kafka.clients import generation
from streams.kafka.messages import Names, Out, Source
from streams.process.clock import now_ms
from streams.settings import Settings

log = structlog.get_logger(__name__)

_COMMIT_S = 10.0


class Commits:
    """The commits of one process, over all its partitions.

    Args:
        consumer: member of the group, whose offsets are committed.
        ledgers: of the partitions assigned; the runtime changes them.
        book: counts that wait for their offset.
        outputs: where they are published.
        settings: of the deployment.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        ledgers: Mapping[Source, OffsetLedger],
        book: ProgressBook,
        outputs: Outputs,
        settings: Settings,
    ) -> None:
        self._consumer = consumer
        self._ledgers = ledgers
        self._book = book
        self._outputs = outputs
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._soon = asyncio.Event()
        self._generation = -1
        self._lease_until = 0.0
        """Until then nobody else can own our partitions."""
        self._known: dict[Source, tuple[int, str]] = {}
        self.beginnings = Beginnings(self.soon)
        """What waits for a commit to begin."""
        self.sending: asyncio.Task[None] | None = None
        """The commit that is under way."""
        self.last_at = time.monotonic()
        """Monotonic time of the last successful commit, or of the last time nothing was due."""

    def soon(self) -> None:
        """Commit without waiting for the interval to pass."""
        self._soon.set()

    @property
    def leased(self) -> bool:
        """Whether the broker cannot have given our partitions to others."""
        return time.monotonic() < self._lease_until

    def joined(self) -> None:
        """Commit as a member of the present generation from now on."""
        self._generation = generation(self._consumer)

    def found(self, source: Source, offset: int, metadata: str) -> None:
        """Note what a former owner committed."""
        self._known[source] = (offset, metadata)

    def offset(self, source: Source) -> int | None:
        """The committed offset; None: there is none yet."""
        known = self._known.get(source)
        return None if known is None else known[0]

    def forget(self) -> None:
        """The partitions are given back."""
        self._known.clear()

    async def loop(self, working: Callable[[], bool]) -> None:
        """Commit once per interval, for ever, while partitions are ours."""
        interval_s = self._settings.commit_interval_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._soon.wait()
            self._soon.clear()
            if working() and not await self.commit(clean=False):
                await asyncio.sleep(min(interval_s, 1.0))

    async def commit(self, *, clean: bool) -> bool:
        """Commit what changed since the last commit; a failure leaves it for the next time.

        What did not change is committed too when the lease runs out: a commit is the proof that
        the partitions are ours, and the broker waits a session time-out from then on before it
        gives them to others.
        """
        state: dict[Source, tuple[int, str]] = {}
        told = {source: ledger.next for source, ledger in self._ledgers.items()}
        for source, ledger in self._ledgers.items():
            offset = ledger.committable
            state[source] = (offset, encode_metadata(offset, ledger.metadata(clean=clean)))
        due = {source: row for source, row in state.items() if self._known.get(source) != row}
        session_s = self._settings.session_timeout_s
        now = time.monotonic()
        if now > self._lease_until - session_s / 2:
            due = state
        ticket = self.beginnings.to_record()
        if due:
            if not await self._send(due):
                self.beginnings.not_recorded(ticket)
                return False
            self._lease_until = now + session_s
        self.last_at = time.monotonic()
        self._known.update(due)
        for source, next_offset in told.items():
            self._ledgers[source].reported(next_offset)
        self.beginnings.recorded(ticket)
        await self._publish(due)
        return True

    async def _send(self, due: Mapping[Source, tuple[int, str]]) -> bool:
        if generation(self._consumer) != self._generation:
            log.warning("partitions were taken away before the commit", stage=self._book.stage)
            return False
        offsets = {
            self._names.partition(source): OffsetAndMetadata(*row) for source, row in due.items()
        }
        task: asyncio.Task[Any] = asyncio.create_task(self._consumer.commit(offsets), name="commit")
        self.sending = task
        await asyncio.wait({task}, timeout=_COMMIT_S)
        if not task.done():
            task.cancel()
            log.warning("commit failed; it is tried again", error=f"no answer in {_COMMIT_S} s")
            return False
        if task.cancelled():
            return False
        error = task.exception()
        if isinstance(error, (CommitFailedError, IllegalStateError)):
            log.warning("partitions were taken away before the commit", error=str(error)[:200])
        elif isinstance(error, KafkaError):
            log.warning("commit failed; it is tried again", error=repr(error))
        elif error is not None:
            raise error
        return error is None

    async def _publish(self, due: Mapping[Source, tuple[int, str]]) -> None:
        rows = [
            row
            for source, (offset, _) in due.items()
            for row in self._book.committed(source, offset, now_ms())
        ]
        await self._outputs.deliver(
            [Out(PROGRESS, progress_key(row), codec.encode("progress", row)) for row in rows]
        )
