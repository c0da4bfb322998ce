"""Delivery of one partition's outputs: in order, in bulk, awaited.

The steps of a message, and what each makes true:

1. **Judge.** Its rows are noted as pending in memory; later messages of the partition see them.
   A process that stood still (stopped, or on a suspended machine) first asks whether the partition
   is still its own: what another owner has requested meanwhile is not requested again.
2. **Request.** Fetch requests, re-keyed batches and dead letters are produced, acks awaited.
3. **Log.** Then the rows are produced to the changelog, acks awaited. So a row in the changelog
   means that its URL was requested: whoever restores the table from it may call the URL seen.
4. **Write.** Then they are written to RocksDB with the changelog offset they reach, atomically.
5. **Ack.** Then, in offset order, the offset becomes committable.

A crash between any two steps repeats the message. What it repeats is a request only when it came
between 2 and 3, since otherwise the restored table has the rows.

Messages that arrive while a parcel is on its way wait for the next one, so parcels grow with the
load: one produce request carries hundreds of messages when it must, one when it can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import structlog

from schemas.topics import FETCH_REQUESTS, SEEN_CHANGELOG
from streams.dedup.store import SeenStore
from streams.kafka.messages import Out
from streams.kafka.pace import Pace
from streams.process.die import die
from streams.telemetry.metrics import Counts

log = structlog.get_logger(__name__)

LARGE_BYTES: Final = 256 * 1024
"""A parcel that does not wait until it is time for the next."""


class Outlet(Protocol):
    """Kafka as a lane needs it. No method fails: the process ends instead."""

    def bulk(self, topic: str, partition: int) -> Bulk:
        """An empty bulk of messages for one partition."""
        ...

    async def deliver(self, messages: Sequence[Out]) -> None:
        """Return when all are acknowledged."""
        ...


class Bulk(Protocol):
    """Messages for one partition, produced together."""

    def add(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        """Append a message."""
        ...

    async def send(self) -> int | None:
        """Return, once all are acknowledged, the offset of the last; None: not known."""
        ...


class Work(NamedTuple):
    """What one judged message leads to."""

    message: Any
    """Faust's message: what is acked at the end."""
    requests: Sequence[tuple[bytes, bytes]]
    """Keys and values for `fetch-requests`."""
    rows: Mapping[bytes, bytes]
    outs: Sequence[Out]
    counts: Counts
    timestamp_ms: int
    size_bytes: int


class _Parcel:
    __slots__ = ("changelog", "outs", "requests", "rows", "size_bytes", "works")

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.requests: Bulk | None = None
        self.changelog: Bulk | None = None
        self.rows: dict[bytes, bytes] = {}
        self.outs: list[Out] = []
        self.size_bytes = 0


class Lane:
    """The pipeline of one source partition under one assignment.

    Args:
        partition: number of the source partition, and of the outputs' partitions.
        outlet: where messages go.
        store: the table.
        finished: called with each work in offset order, once its steps 1 to 4 are done.
        ours: asked before each parcel is sent; False: the partition was taken away.
        forgotten: called instead of `finished` when it was: the new owner does the work.
    """

    def __init__(
        self,
        partition: int,
        outlet: Outlet,
        store: SeenStore,
        finished: Callable[[Work], None],
        ours: Callable[[], Awaitable[bool]],
        forgotten: Callable[[Work], None],
    ) -> None:
        self.partition = partition
        self.closed = False
        """Set when the partition is no longer ours: what is on its way changes nothing here."""
        self._outlet = outlet
        self._store = store
        self._finished = finished
        self._ours = ours
        self._forgotten = forgotten
        self._pending: dict[bytes, bytes] = {}
        self._parcel = _Parcel()
        self._pace = Pace()
        self._pump: asyncio.Task[None] | None = None
        self._large = asyncio.Event()

    def seen(self, keys: list[bytes]) -> Sequence[bytes | None]:
        """Values of keys: those of earlier messages on their way included."""
        values = self._store.lookup(self.partition, keys)
        pending = self._pending
        if not pending:
            return values
        return [pending.get(key, value) for key, value in zip(keys, values, strict=True)]

    def put(self, work: Work) -> None:
        """Take the next message of the partition, in offset order. Step 1."""
        parcel = self._parcel
        parcel.works.append(work)
        parcel.outs.extend(work.outs)
        parcel.size_bytes += work.size_bytes
        if work.requests:
            bulk = parcel.requests
            if bulk is None:
                bulk = parcel.requests = self._outlet.bulk(FETCH_REQUESTS, self.partition)
            add, at = bulk.add, work.timestamp_ms
            for key, value in work.requests:
                add(key, value, at)
                parcel.size_bytes += len(value)
        if work.rows:
            bulk = parcel.changelog
            if bulk is None:
                bulk = parcel.changelog = self._outlet.bulk(SEEN_CHANGELOG, self.partition)
            add, at = bulk.add, work.timestamp_ms
            for key, value in work.rows.items():
                add(key, value, at)
            parcel.rows.update(work.rows)
            self._pending.update(work.rows)
        if parcel.size_bytes >= LARGE_BYTES:
            self._large.set()
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run(), name=f"lane-{self.partition}")

    async def _run(self) -> None:
        try:
            await self._pass()
        except Exception as error:  # nothing may be acked past what failed
            log.exception("delivery failed", partition=self.partition)
            die(f"dedup, partition {self.partition}: {error}")

    async def _pass(self) -> None:
        loop = asyncio.get_running_loop()
        while self._parcel.works:
            parcel, self._parcel = self._parcel, _Parcel()
            self._large.clear()
            self._pace.asked(loop.time())
            if await self._ours():
                await self._send(parcel)
            else:
                self._forget(parcel)
            pause_s = self._pace.wait_s(loop.time())
            if pause_s > 0 and not self._large.is_set():
                timer = loop.call_later(pause_s, self._large.set)
                await self._large.wait()
                timer.cancel()

    def _forget(self, parcel: _Parcel) -> None:
        self.closed = True
        for work in parcel.works:
            self._forgotten(work)

    async def _send(self, parcel: _Parcel) -> None:
        if parcel.requests is not None:
            if parcel.outs:
                await asyncio.gather(parcel.requests.send(), self._outlet.deliver(parcel.outs))
            else:
                await parcel.requests.send()
        elif parcel.outs:
            await self._outlet.deliver(parcel.outs)
        offset = None if parcel.changelog is None else await parcel.changelog.send()
        if self.closed:
            for work in parcel.works:
                self._finished(work)
            return
        if parcel.rows:
            self._store.write(self.partition, parcel.rows.items(), offset)
            pending = self._pending
            for key, value in parcel.rows.items():
                if pending.get(key) is value:
                    del pending[key]
        for work in parcel.works:
            self._finished(work)
