"""What a stage (fetcher, parser) is to the consumer runtime, and what the runtime gives it.

The runtime (`runtime`) owns Kafka: assignment, polling, the offset ledger, commits, rebalances,
shutdown. A stage owns the work: it accepts deliveries, does what it does with them at its own pace
and in its own order, and completes each exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.admission import Rules
from streams.kafka.messages import Out, Source
from streams.settings import Settings
from streams.telemetry.metrics import Counts, Metrics


@dataclass(slots=True, eq=False)
class Delivery:
    """One message, handed to a stage once per assignment of its partition.

    `complete` is what makes its offset committable: call it after all outputs are delivered.
    A delivery that is never completed is delivered again after the next assignment.
    """

    source: Source
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    epoch: int
    """Assignment epoch of the source partition; fences completions of an old assignment."""
    _ledger: LedgerDoor

    async def begin(self) -> bool:
        """Ask to begin the work, right before anything that this message could make crash.

        Returns at once, unless a former owner of the partition died: then when the commit
        metadata says that the work begins, so that a message that kills its process is found
        (see `streams.delivery.ledger`). False: the partition is given back or gone, do not begin.
        """
        return await self._ledger.begin(self)

    def put_back(self) -> None:
        """Take the beginning back: the work has to wait, and is begun again later."""
        self._ledger.put_back(self)

    def complete(self, counts: Counts | None = None) -> bool:
        """Mark the message as done; `counts` are added once its offset is committed.

        False when the partition is no longer ours under this epoch: the work is the new owner's
        to redo, and the caller has nothing more to do.
        """
        return self._ledger.complete(self, counts)

    @property
    def stale(self) -> bool:
        """True when the partition is no longer ours under this epoch: do not begin the work."""
        return not self._ledger.current(self)


class LedgerDoor(Protocol):
    """What a delivery needs of the ledger."""

    async def begin(self, delivery: Delivery) -> bool:
        """See `Delivery.begin`."""
        ...

    def put_back(self, delivery: Delivery) -> None:
        """See `Delivery.put_back`."""
        ...

    def complete(self, delivery: Delivery, counts: Counts | None) -> bool:
        """See `Delivery.complete`."""
        ...

    def current(self, delivery: Delivery) -> bool:
        """Whether the delivery's epoch is the partition's present one."""
        ...


class Outputs(Protocol):
    """Producing, with delivery awaited."""

    async def deliver(self, messages: Sequence[Out]) -> None:
        """Return when Kafka has acknowledged all messages (acks=all).

        A message that is not acknowledged within `delivery_timeout_s` ends the process: what was
        not completed is redone after the restart. Never raises on delivery failure.
        """
        ...


class Crawls(Protocol):
    """The crawl specs and counters as this process knows them."""

    def rules(self, crawl: str) -> Rules | None:
        """Compiled rules of a crawl, or None when no such crawl was submitted."""
        ...

    def pages(self, crawl: str) -> int:
        """Pages fetched: committed by anyone, plus completed here and not yet committed."""
        ...


def _watch_alone(task: asyncio.Task[Any]) -> None:
    """Without a runtime: a failure goes to the event loop's exception handler."""
    task.add_done_callback(lambda ended: None if ended.cancelled() else ended.result())


@dataclass(frozen=True, slots=True)
class Context:
    """What the runtime gives a stage at its start."""

    settings: Settings
    outputs: Outputs
    crawls: Crawls
    metrics: Metrics
    watch: Callable[[asyncio.Task[Any]], None] = _watch_alone
    """Called with each background task of the stage: a failure of one ends the process."""


class Stage(Protocol):
    """A stage. All methods run on the runtime's event loop and none may block it."""

    name: str
    """fetcher or parser: in logs, progress and dead letters."""
    group: str
    """Logical name of the consumer group."""
    topics: tuple[str, ...]
    """Logical names of the topics consumed."""

    async def start(self, context: Context) -> None:
        """Preload whatever the work needs; the process is ready when this returns."""
        ...

    def room(self, source: Source) -> int:
        """How many more deliveries of this partition the stage takes now; 0 holds it.

        A held partition is left out of the next poll; the runtime asks again before each poll
        (at least every 0.2 s).
        """
        ...

    def offer(self, delivery: Delivery) -> None:
        """Take a delivery. Returns at once; the stage completes it later."""
        ...

    def assigned(self, sources: frozenset[Source]) -> None:
        """These partitions are ours from now on, under a new epoch."""
        ...

    async def revoke(self, sources: frozenset[Source]) -> None:
        """Forget deliveries of these partitions whose work is not started; finish the started.

        The runtime cancels this after `drain_timeout_s`; what is not completed by then is redone
        by the new owner.
        """
        ...

    async def stop(self) -> None:
        """Release everything. Called once, after a revoke of all partitions."""
        ...
