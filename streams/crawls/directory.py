"""The crawl directory: every role's view of the topics `crawls` and `crawl-progress`.

Both are compacted and small. A process reads them whole at its start and follows them from then
on, without a consumer group.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from schemas import codec
from schemas.admission import Rules, compile_rules
from schemas.crawl import DEFAULT_CRAWL, CrawlSpec, from_record
from schemas.errors import ConfigError, ContractError, TransientInfraError
from schemas.records import CrawlSpecRecord, Progress
from schemas.topics import CRAWLS, PROGRESS, physical
from streams.crawls.progress import Totals
from streams.kafka.clients import make_consumer
from streams.settings import Settings

log = structlog.get_logger(__name__)


def default_spec(settings: Settings) -> CrawlSpec:
    """The spec of the crawl `default` when none was submitted: it stays on each seed's host."""
    return CrawlSpec(
        crawl=DEFAULT_CRAWL,
        max_pages=settings.default_max_pages,
        max_depth=settings.default_max_depth,
        delay_s=settings.default_delay_s,
    )


class Directory:
    """Crawl specs and counters, followed live. Implements `streams.delivery.stage.Crawls`.

    `pages` counts what is committed; a runtime adds what it completed since
    (`ProgressBook.pages`).
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._consumer = make_consumer(settings, fetch_max_wait_ms=500)
        self._rules: dict[str, Rules] = {}
        self._revisions: dict[str, int] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._partitions = [
            TopicPartition(physical(name, settings.topic_prefix), 0) for name in (CRAWLS, PROGRESS)
        ]
        self.totals = Totals()
        self._set_rules(default_spec(settings))

    async def start(self, timeout_s: float = 60.0) -> None:
        """Read both topics to their ends, then follow them. Raises TransientInfraError."""
        await self._consumer.start()
        self._consumer.assign(self._partitions)
        await self._consumer.seek_to_beginning(*self._partitions)
        self._task = asyncio.create_task(self._follow(), name="crawl-directory")
        await self.catch_up(timeout_s)

    async def stop(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._consumer.stop()

    async def catch_up(self, timeout_s: float = 30.0) -> None:
        """Return when everything published before this call is known here."""
        deadline = time.monotonic() + timeout_s
        ends = await self._consumer.end_offsets(self._partitions)
        while True:
            behind = [
                partition
                for partition in self._partitions
                if await self._consumer.position(partition) < ends[partition]
            ]
            if not behind:
                return
            if self._task is not None and self._task.done():
                raise TransientInfraError("the crawl directory stopped following its topics")
            if time.monotonic() > deadline:
                raise TransientInfraError(f"not read in {timeout_s:.0f} s: {behind}")
            await asyncio.sleep(0.01)

    def rules(self, crawl: str) -> Rules | None:
        """Compiled rules of a crawl, or None when no such crawl was submitted."""
        return self._rules.get(crawl)

    def revision(self, crawl: str) -> int:
        """Revision of a crawl's spec; 0 when it was never submitted."""
        return self._revisions.get(crawl, 0)

    def crawls(self) -> list[CrawlSpec]:
        """All specs, by id."""
        return [self._rules[crawl].spec for crawl in sorted(self._rules)]

    def pages(self, crawl: str) -> int:
        """Pages fetched in a crawl, committed by all fetchers."""
        return self.totals.pages(crawl)

    def counters(self) -> dict[str, dict[str, dict[str, int]]]:
        """Committed counters by crawl, then stage, then name."""
        return self.totals.counters()

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener(crawl)` whenever a crawl's rules change."""
        self._listeners.append(listener)

    async def _follow(self) -> None:
        while True:
            try:
                batches = await self._consumer.getmany(timeout_ms=1_000)
            except KafkaError as error:
                log.warning("crawl directory: Kafka does not answer", error=repr(error))
                await asyncio.sleep(1.0)
                continue
            for partition, messages in batches.items():
                take = self._take_spec if partition == self._partitions[0] else self._take_progress
                for message in messages:
                    take(message)

    def _take_progress(self, message: Any) -> None:
        if message.value is None:
            return
        try:
            progress: Progress = codec.decode("progress", message.value)
        except ContractError as error:
            log.error("unreadable progress row", offset=message.offset, error=str(error))
            return
        self.totals.apply(progress)

    def _take_spec(self, message: Any) -> None:
        crawl = (message.key or b"").decode(errors="replace")
        if message.value is None:
            self._rules.pop(crawl, None)
            self._revisions.pop(crawl, None)
            self.totals.forget(crawl)
            if crawl == DEFAULT_CRAWL:
                self._set_rules(default_spec(self._settings))
            self._changed(crawl)
            return
        try:
            record: CrawlSpecRecord = codec.decode("crawl-spec", message.value)
            spec = from_record(record)
        except (ContractError, ConfigError) as error:
            log.error("unusable crawl spec", crawl=crawl, offset=message.offset, error=str(error))
            return
        if record["revision"] >= self._revisions.get(spec.crawl, 0):
            self._revisions[spec.crawl] = record["revision"]
            self._set_rules(spec)
            self._changed(spec.crawl)

    def _set_rules(self, spec: CrawlSpec) -> None:
        self._rules[spec.crawl] = compile_rules(spec)

    def _changed(self, crawl: str) -> None:
        for listener in self._listeners:
            listener(crawl)
