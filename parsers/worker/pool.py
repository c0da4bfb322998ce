"""The parse processes of one parser: starting, feeding, watching and replacing them.

The parent never touches a document: it ships messages as they came and gets back messages ready
to produce. Several documents are under way in a process at once; the cursor, memory shared with
the process, tells which of them was in hand when it died. That one is tried again alone, and given
up after `MAX_DEATHS`; the others are simply sent again.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, cast

import structlog

from parsers.worker import wire
from parsers.worker.child import EXIT_MEMORY, Config
from schemas.reasons import REASONS, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from schemas.admission import Rules

log = structlog.get_logger(__name__)

MAX_DEATHS: Final = REASONS[Reason.PARSE_CRASH].max_attempts
IN_FLIGHT: Final = 32
"""Documents in a process at once: enough that it never waits for the next."""
IN_FLIGHT_BYTES: Final = 4 * 1024 * 1024
STUCK_S: Final = 60.0
"""A process that says nothing for so long, beyond ten parse deadlines, is killed."""
_START_S: Final = 60.0
_CHECK_S: Final = 1.0
_MAX_BACKOFF_S: Final = 10.0
_LATER_S: Final = 2.0
ENVIRONMENT: Final = {
    # lexbor allocates and frees a tree's worth of memory for each page: keep it in the process.
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TOP_PAD_": "16777216",
    "MALLOC_ARENA_MAX": "2",
}
"""Of parse processes; glibc reads these."""


@dataclass(slots=True, eq=False)
class Job:
    """One document."""

    message: bytes
    crawl: str
    rules: Rules
    context: Any
    """The caller's own."""
    deaths: int = 0
    number: int = 0


class Receiver(Protocol):
    """What becomes of jobs."""

    async def part(self, job: Job, outs: Sequence[wire.Message]) -> None:
        """Deliver messages of a document still in work; its process waits meanwhile."""
        ...

    def done(
        self, job: Job, facts: dict[str, Any], outs: Sequence[wire.Message], process: Process
    ) -> None:
        """Deliver the last messages; call `process.delivered` when they are."""
        ...

    def failed(self, job: Job, reason: Reason, detail: str) -> None:
        """The document gives no record."""
        ...

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Take care that a failure of this task is not overlooked."""
        ...


@dataclass(slots=True, eq=False)
class Process(asyncio.Protocol):
    """One parse process and the jobs in it."""

    pool: Pool
    cursor: mmap.mmap
    process: asyncio.subprocess.Process | None = None
    transport: asyncio.Transport | None = None
    ready: bool = False
    closed: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    job_bytes: int = 0
    heard_at: float = 0.0
    _frames: wire.Frames = field(default_factory=wire.Frames)
    _specs: dict[str, Rules] = field(default_factory=dict)
    _part_task: asyncio.Task[None] | None = None
    _held: deque[wire.Frame] = field(default_factory=deque)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        # uvloop's transports are not asyncio's classes: the type is a promise, not a check.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol. While a part is being delivered, what follows it is held."""
        self.heard_at = time.monotonic()
        for one in self._frames.feed(data):
            if self.delivering:
                self._held.append(one)
            else:
                self._handle(one)
        self.pool.feed()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """See asyncio.Protocol."""
        self.closed = True
        self.pool.lost(self)

    def has_room(self, size: int) -> bool:
        """Whether another document may be sent; a suspect is alone in its process."""
        if not self.ready or self.closed:
            return False
        if not self.jobs:
            return True
        if any(job.deaths for job in self.jobs.values()):
            return False
        return len(self.jobs) < IN_FLIGHT and self.job_bytes + size <= IN_FLIGHT_BYTES

    def send(self, job: Job) -> None:
        """Send a document, and its crawl's spec when that is new or changed."""
        assert self.transport is not None
        if not self.jobs:
            self.heard_at = time.monotonic()
        if self._specs.get(job.crawl) is not job.rules:
            self._specs[job.crawl] = job.rules
            spec = job.rules.spec.model_dump_json().encode()
            self.transport.write(wire.frame(wire.Kind.SPEC, 0, spec))
        self.jobs[job.number] = job
        self.job_bytes += len(job.message)
        self.transport.write(wire.frame(wire.Kind.DOCUMENT, job.number, job.message))

    def delivered(self, numbers: Sequence[int]) -> None:
        """The links of these documents are in Kafka."""
        if not self.closed and self.transport is not None:
            payload = struct.pack(f"<{len(numbers)}Q", *numbers)
            self.transport.write(wire.frame(wire.Kind.DELIVERED, 0, payload))

    def kill(self) -> None:
        """End the process."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()

    def _handle(self, one: wire.Frame) -> None:
        receiver = self.pool.receiver
        if one.kind is wire.Kind.READY:
            self.ready = True
            self.pool.started(self)
            return
        if one.kind is wire.Kind.PART:
            _, outs = wire.unpack_messages(one.payload)
            if outs:
                part = self._part(self.jobs[one.number], outs)
                self._part_task = asyncio.create_task(part, name="part")
                receiver.watch(self._part_task)
            return
        job = self.jobs.pop(one.number)
        self.job_bytes -= len(job.message)
        if one.kind is wire.Kind.DONE:
            facts, outs = wire.unpack_messages(one.payload)
            receiver.done(job, facts, outs, self)
        elif one.kind is wire.Kind.FAILED:
            said = json.loads(one.payload)
            receiver.failed(job, Reason(said["reason"]), said["detail"])
        else:
            self.pool.later(job, one.payload.decode())

    async def _part(self, job: Job, outs: list[wire.Message]) -> None:
        """Deliver a part; the process is not read from until it is delivered."""
        assert self.transport is not None
        if not self.closed:
            self.transport.pause_reading()
        await self.pool.receiver.part(job, outs)
        self.heard_at = time.monotonic()
        self._part_task = None
        while self._held and not self.delivering and not self.closed:
            self._handle(self._held.popleft())
        if not self.closed and not self.delivering:
            self.transport.resume_reading()
            self.pool.feed()

    @property
    def delivering(self) -> bool:
        """Whether a part is being delivered."""
        return self._part_task is not None

    async def settled(self) -> None:
        """Return when no part is being delivered."""
        if self._part_task is not None:
            await asyncio.wait([self._part_task])

    def stop(self) -> None:
        """Hang up; the process ends by itself."""
        if self._part_task is not None:
            self._part_task.cancel()
        if self.transport is not None:
            self.transport.abort()


class Pool:
    """The parse processes of one parser.

    Args:
        size: how many.
        config: what each is told.
        receiver: what takes the results.
    """

    def __init__(self, size: int, config: Config, receiver: Receiver) -> None:
        self.receiver = receiver
        self.deaths: Counter[str] = Counter()
        """Processes lost, by cause: deadline, memory, stuck or crash."""
        self._size = size
        self._config = config
        self._queue: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._processes: list[Process] = []
        self._numbers = 0
        self._failed_starts = 0
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._stuck: set[Process] = set()
        self._started: asyncio.Event = asyncio.Event()

    async def start(self) -> None:
        """Start the processes; returns when one is ready. Raises RuntimeError when none starts."""
        for _ in range(self._size):
            await self._spawn()
        self._run(self._watch())
        try:
            async with asyncio.timeout(_START_S):
                await self._started.wait()
        except TimeoutError:
            raise RuntimeError("no parse process starts; their standard error says why") from None

    async def stop(self) -> None:
        """End all processes."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        processes = [one.process for one in self._processes if one.process is not None]
        for one in self._processes:
            one.stop()
        for process in processes:
            try:
                async with asyncio.timeout(5.0):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def submit(self, job: Job) -> None:
        """Parse a document when there is room."""
        self._numbers += 1
        job.number = self._numbers
        self._queue.append(job)
        self.feed()

    def forget(self, predicate: Any) -> list[Job]:
        """Take back the jobs that are in no process and for which `predicate(context)` holds."""
        taken: list[Job] = []
        for queue in (self._queue, self._suspects):
            keep: list[Job] = []
            for job in queue:
                (taken if predicate(job.context) else keep).append(job)
            queue.clear()
            queue.extend(keep)
        return taken

    def feed(self) -> None:
        """Send waiting jobs to processes that have room; suspects first, each alone."""
        while self._suspects:
            idle = next((one for one in self._processes if not one.jobs and one.has_room(0)), None)
            if idle is None:
                break
            idle.send(self._suspects.popleft())
        while self._queue:
            size = len(self._queue[0].message)
            free = [one for one in self._processes if one.has_room(size)]
            if self._suspects and len(free) >= 1:
                free = free[1:]  # the first runs dry, so that a suspect gets it
            if not free:
                return
            min(free, key=lambda one: len(one.jobs)).send(self._queue.popleft())

    def started(self, process: Process) -> None:
        """A process is ready."""
        del process
        self._failed_starts = 0
        self._started.set()

    def later(self, job: Job, detail: str) -> None:
        """The blob store did not answer: wait and try again, without end."""
        log.error("the blob store does not answer", detail=detail[:300])

        async def again() -> None:
            await asyncio.sleep(_LATER_S)
            self._queue.append(job)
            self.feed()

        self._run(again())

    def lost(self, process: Process) -> None:
        """A process ended."""
        if process in self._processes:
            self._processes.remove(process)
        if not self._stopping:
            self._run(self._bury(process))

    # Starting and ending.

    async def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        with tempfile.TemporaryFile() as file, theirs:
            file.truncate(wire.CURSOR.size)
            cursor = mmap.mmap(file.fileno(), wire.CURSOR.size)
            ours.setblocking(False)  # noqa: FBT003 - the socket module takes no keyword
            fds = (theirs.fileno(), file.fileno())
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "parsers.worker.child",
                *map(str, fds),
                json.dumps(self._config._asdict()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=fds,
                env={**os.environ, **ENVIRONMENT},
            )
        process = Process(self, cursor, child, heard_at=time.monotonic())
        self._processes.append(process)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: process, sock=ours)

    async def _bury(self, process: Process) -> None:
        """Find out why a process ended, whose fault it was, and start another."""
        assert process.process is not None
        await process.settled()
        process.stop()
        status = await process.process.wait()
        (number,) = wire.CURSOR.unpack_from(process.cursor, 0)
        cause = self._cause(process, status)
        self.deaths[cause] += 1
        victim = process.jobs.pop(number, None)
        log.warning("a parse process ended", cause=cause, status=status, in_hand=victim is not None)
        self._queue.extendleft(
            job for job in reversed(process.jobs.values()) if not self._suspected(job)
        )
        if victim is not None:
            self._blame(victim, cause, status)
        if not process.ready:
            self._failed_starts += 1
            await asyncio.sleep(min(_MAX_BACKOFF_S, 0.1 * 2**self._failed_starts))
        await self._spawn()
        self.feed()

    def _suspected(self, job: Job) -> bool:
        if job.deaths:
            self._suspects.append(job)
        return bool(job.deaths)

    def _cause(self, process: Process, status: int) -> str:
        if process in self._stuck:
            self._stuck.discard(process)
            return "stuck"
        if status == -signal.SIGPROF:
            return "deadline"
        return "memory" if status == EXIT_MEMORY else "crash"

    def _blame(self, job: Job, cause: str, status: int) -> None:
        if cause == "deadline":
            limit_s = self._config.deadline_s
            self.receiver.failed(job, Reason.PARSE_DEADLINE, f"more than {limit_s:g} s of CPU time")
            return
        job.deaths += 1
        if job.deaths >= MAX_DEATHS:
            detail = f"{job.deaths} parse processes died of it; the last: {cause}, status {status}"
            self.receiver.failed(job, Reason.PARSE_CRASH, detail)
        else:
            self._suspects.append(job)

    async def _watch(self) -> None:
        limit_s = STUCK_S + 10 * self._config.deadline_s
        while True:
            await asyncio.sleep(_CHECK_S)
            now = time.monotonic()
            for one in self._processes:
                if one.jobs and not one.delivering and now - one.heard_at > limit_s:
                    self._stuck.add(one)
                    one.kill()

    def _run(self, coroutine: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(coroutine, name="pool")
        self._tasks.add(task)
        self.receiver.watch(task)
        task.add_done_callback(self._tasks.discard)
