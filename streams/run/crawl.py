"""`crawl run`: one crawl on one machine, from starting Kafka to the last record.

Steps: (1) broker, (2) topics, (3) workers start while (4) spec and seeds are submitted, (5) watch:
records are written, progress is shown, until the crawl is drained, a worker is given up, or the
user interrupts, (6) workers end and finish what they began, (7) the counters and records that this
left are read, (8) the broker ends. Each step undoes itself when a later one fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import structlog

from schemas.crawl import CrawlSpec
from schemas.errors import ConfigError, TransientInfraError
from schemas.topics import RECORDS
from streams.broker import EmbeddedBroker, serving
from streams.crawls.directory import Directory
from streams.crawls.plan import Seed, build_spec, seed_messages
from streams.crawls.submit import Submitter
from streams.kafka import topics
from streams.kafka.reader import TopicReader
from streams.process.clock import now_ms
from streams.run.collect import Collector
from streams.run.display import Display, View
from streams.run.output import RecordFile
from streams.run.summary import Ending, Summary
from streams.settings import Settings
from streams.standing.counts import Counts, fold
from streams.standing.drain import PipelineReader, Standing, decide, pending
from streams.supervise import RestartPolicy, Role, Supervisor

log = structlog.get_logger(__name__)

_LOOK_EVERY_S: Final = 0.5
_LOOK_SELDOM_S: Final = 2.0
_FAR: Final = 1_000
"""With so many messages left a crawl does not end within seconds."""
_SHOW_EVERY_S: Final = 0.25
_SILENCE_S: Final = 30.0
"""How long Kafka may not answer before the run is given up."""
_WHAT_WAITS: Final = "waiting for retries"
_POLICY: Final = RestartPolicy(cap_s=5.0, attempts=5)
"""Somebody waits for a run: a worker that cannot start is given up within half a minute."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What one `crawl run` does."""

    crawl: str
    layers: tuple[Mapping[str, Any], ...]
    """Keys of the spec; later ones win. With `resume`, over the stored spec."""
    seeds: tuple[Seed, ...]
    output: Path | None
    stream: IO[str] | None
    """Where records go without `output`; None: one short line each is shown."""
    workers: Mapping[Role, int]
    patience_s: float
    """How long to wait for the next retry once all else is done."""
    resume: bool
    keep: bool
    """Leave the embedded broker running."""


class CrawlRun:
    """One run. `interrupt` may be called from a signal handler of the same loop."""

    def __init__(self, options: RunOptions, settings: Settings, display: Display) -> None:
        self._options = options
        self._settings = settings
        self._display = display
        self._started_at = time.monotonic()
        self._phase = "starting"
        self._interrupted = asyncio.Event()
        self._standing = Standing(drained=False, backlog={}, later=0, next_due_at=None)
        self._spec: CrawlSpec | None = None
        self._file: RecordFile | None = None
        self._directory: Directory | None = None
        self._restarts: dict[str, int] = {}
        self._crawl_s = 0.0

    @property
    def crawl(self) -> str:
        """The crawl's id."""
        return self._options.crawl

    def interrupt(self) -> None:
        """Drain and end; what is left waits for `--resume`."""
        self._interrupted.set()

    def flush(self) -> None:
        """Hand the records written so far to the operating system."""
        if self._file is not None:
            self._file.flush()

    async def run(self) -> Summary:
        """All steps. Raises CrawlError when one before the watch fails."""
        ticker = asyncio.create_task(self._tick())
        try:
            async with self._broker():
                await self._topics()
                return await self._crawl()
        finally:
            ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticker

    # Steps 1 and 8, 2.

    @contextlib.asynccontextmanager
    async def _broker(self) -> AsyncIterator[None]:
        if self._settings.bootstrap_servers:
            yield
            return
        self._phase = "starting Kafka"
        if self._options.keep:
            broker = EmbeddedBroker(self._settings.data_dir)
            await asyncio.to_thread(broker.start, attach=True)
            yield
            return
        running = serving(self._settings.data_dir)
        await asyncio.to_thread(running.__enter__)
        try:
            yield
        finally:
            self._phase = "stopping Kafka"
            await asyncio.to_thread(running.__exit__, None, None, None)

    async def _topics(self) -> None:
        self._phase = "creating topics"
        report = await topics.create(self._settings)
        blocking = [str(found) for found in report.differences if found.blocking]
        if blocking:
            raise ConfigError("topics:\n  " + "\n  ".join(blocking))

    # Steps 3 to 7.

    async def _crawl(self) -> Summary:
        async with contextlib.AsyncExitStack() as stack:
            directory = Directory(self._settings)
            stack.push_async_callback(directory.stop)
            reader = await stack.enter_async_context(TopicReader(self._settings, RECORDS))
            await directory.start()
            self._directory = directory
            self._spec = self._make_spec(directory)
            self._file = self._open_output()
            stack.callback(self._file.close)
            # A new crawl has no records before its seeds; one that is resumed has.
            positions = await (reader.starts() if self._options.resume else reader.ends())
            collector = Collector(reader, positions, self._options.crawl, self._file)
            supervisor = Supervisor(self._settings, self._options.workers, policy=_POLICY)
            stack.push_async_callback(supervisor.stop)
            await self._note_unfinished(directory)
            self._phase = "starting workers"
            await asyncio.gather(supervisor.start(), self._submit(directory))
            began_at = time.monotonic()
            ending, problems = await self._watch(supervisor, collector)
            self._crawl_s = time.monotonic() - began_at
            self._phase = "finishing what was begun"
            await supervisor.stop()
            problems += await self._read_what_is_left(directory, collector)
            return self._summary(ending, problems)

    def _open_output(self) -> RecordFile:
        options = self._options
        if options.output is None and options.stream is None:
            return RecordFile(None, show=self._display.record)
        return RecordFile(options.output, options.stream, fresh=not options.resume)

    def _make_spec(self, directory: Directory) -> CrawlSpec:
        crawl, layers = self._options.crawl, list(self._options.layers)
        known = directory.revision(crawl) > 0
        stored = directory.rules(crawl)
        if self._options.resume:
            if not known or stored is None:
                raise ConfigError(f"no crawl {crawl} here to resume: see `crawl crawls`")
            layers.insert(0, stored.spec.model_dump(mode="json", exclude={"crawl", "state"}))
        elif known:
            raise ConfigError(f"a crawl {crawl} exists: continue it with --resume {crawl}")
        return build_spec(crawl, layers)

    async def _note_unfinished(self, directory: Directory) -> None:
        """Workers serve all crawls, so the queue's other work delays ours: say so."""
        if self._options.resume:
            return
        async with PipelineReader(self._settings) as pipeline:
            waiting = sum(pending(await pipeline.read()).values())
        others = [spec.crawl for spec in directory.crawls() if spec.state == "running"]
        if waiting and others:
            self._display.note(
                f"{waiting:,} messages of earlier crawls are unfinished and are worked on too;"
                f" `crawl stop ID` gives a crawl up (running: {', '.join(others)})"
            )

    async def _submit(self, directory: Directory) -> None:
        assert self._spec is not None
        async with Submitter(self._settings) as submitter:
            await submitter.submit_spec(self._spec, directory.revision(self._options.crawl) + 1)
            messages = seed_messages(self._options.crawl, self._options.seeds, now_ms())
            await submitter.deliver(messages)

    async def _watch(
        self, supervisor: Supervisor, collector: Collector
    ) -> tuple[Ending, tuple[str, ...]]:
        """Until the end; how it ended, and what went wrong with us."""
        looking = asyncio.create_task(self._until_drained(supervisor))
        others: dict[asyncio.Task[Any], str] = {
            asyncio.create_task(collector.run()): "collector",
            asyncio.create_task(supervisor.failed()): "worker",
            asyncio.create_task(self._interrupted.wait()): "interrupted",
        }
        try:
            done, _ = await asyncio.wait({looking, *others}, return_when=asyncio.FIRST_COMPLETED)
            if looking in done and looking.exception() is None:
                return looking.result(), ()
            if self._interrupted.is_set():
                return "interrupted", ()
            return "failed", tuple([await _why(task) for task in done])
        finally:
            for task in (looking, *others):
                task.cancel()
            await asyncio.gather(looking, *others, return_exceptions=True)

    async def _until_drained(self, supervisor: Supervisor) -> Ending:
        answered_at = time.monotonic()
        async with PipelineReader(self._settings) as pipeline:
            while True:
                try:
                    reading = await pipeline.read()
                except TransientInfraError:
                    if time.monotonic() - answered_at > _SILENCE_S:
                        raise
                    await asyncio.sleep(_LOOK_EVERY_S)
                    continue
                answered_at = time.monotonic()
                spent = self._spent()
                self._standing = decide(reading, patience_s=self._options.patience_s, spent=spent)
                self._phase = self._phase_now()
                self._note_restarts(supervisor)
                if self._standing.drained:
                    return "budget" if self._spent() else "drained"
                budgeted = self._spec is not None and self._spec.max_pages is not None
                await asyncio.sleep(look_after_s(self._standing, budgeted=budgeted))

    async def _read_what_is_left(
        self, directory: Directory, collector: Collector
    ) -> tuple[str, ...]:
        self._phase = "reading the last records"
        try:
            async with asyncio.timeout(_SILENCE_S):
                await directory.catch_up(_SILENCE_S)
            await collector.finish()
        except (TransientInfraError, TimeoutError) as error:
            return (f"the last counters and records were not read: {error}",)
        if collector.unreadable:
            return (f"{collector.unreadable} records could not be decoded",)
        return ()

    # What is shown.

    def _counts(self) -> Counts:
        if self._directory is None:
            return Counts()
        return fold(self._directory.counters().get(self._options.crawl, {}))

    def _spent(self) -> bool:
        assert self._spec is not None
        assert self._directory is not None
        budget = self._spec.max_pages
        return budget is not None and self._directory.pages(self._options.crawl) >= budget

    def _phase_now(self) -> str:
        backlog = self._standing.backlog
        if backlog and all(topic.startswith("retry-") for topic in backlog):
            return _WHAT_WAITS
        return "crawling" if self._counts().admitted else "starting workers"

    def _note_restarts(self, supervisor: Supervisor) -> None:
        for worker in supervisor.workers():
            if worker.restarts > self._restarts.get(worker.name, 0):
                self._restarts[worker.name] = worker.restarts
                self._display.note(f"{worker.name} died and was started again: {worker.log}")

    async def _tick(self) -> None:
        while True:
            due = self._standing.next_due_at
            waits = self._phase == _WHAT_WAITS and due is not None
            self._display.update(
                View(
                    self._options.crawl,
                    self._phase,
                    time.monotonic() - self._started_at,
                    self._counts(),
                    self._file.written if self._file else 0,
                    self._standing.backlog,
                    self._spec.max_pages if self._spec else None,
                    (due - now_ms()) / 1000 if waits and due is not None else None,
                )
            )
            await asyncio.sleep(_SHOW_EVERY_S)

    def _summary(self, ending: Ending, problems: tuple[str, ...]) -> Summary:
        assert self._file is not None
        return Summary(
            crawl=self._options.crawl,
            ending=ending,
            counts=self._counts(),
            written=self._file.written,
            waiting=self._standing.later,
            crawl_s=self._crawl_s,
            elapsed_s=time.monotonic() - self._started_at,
            logs=str(self._settings.data_dir.absolute() / "logs"),
            problems=problems,
        )


def look_after_s(standing: Standing, *, budgeted: bool) -> float:
    """How long until the next look at commits and ends; one costs 5 ms of CPU, and Kafka's too.

    Args:
        standing: what the last look found.
        budgeted: the crawl has a page budget, which may be spent at any moment.
    """
    far = sum(standing.backlog.values()) > _FAR
    return _LOOK_SELDOM_S if far and not budgeted else _LOOK_EVERY_S


async def _why(task: Awaitable[Any]) -> str:
    """What a task that should not have ended says."""
    try:
        return str(await task)
    except Exception as error:
        log.error("the run failed", exc_info=error)
        return f"{type(error).__name__}: {error}"
