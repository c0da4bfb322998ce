"""The parse stage: fetch results to records and links, by parse processes, each message once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from parsers.worker import wire
from parsers.worker.child import Config
from parsers.worker.pool import Job, Pool, Process
from schemas.codec import decode
from schemas.errors import ContractError, UnknownSchemaError
from schemas.reasons import Reason
from schemas.topics import FETCH_RESULTS, PARSER_GROUP
from streams.deadletters.letter import dead_letter, kind_of
from streams.kafka.messages import Out
from streams.process.clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.records import FetchResult
    from streams.delivery.stage import Context, Delivery
    from streams.kafka.messages import Source
    from streams.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

UNKNOWN_CRAWL_S: Final = 10.0
"""How long a result waits for its crawl's spec to arrive before it is a dead letter."""
_MAX_DELIVER: Final = 500
"""Documents whose messages are delivered by one call."""


@dataclass(slots=True, eq=False)
class _Finished:
    """A document whose messages wait to be delivered."""

    delivery: Delivery
    outs: Sequence[Out]
    counts: dict[str, dict[str, int]]
    number: int = 0
    process: Process | None = None


class ParseStage:
    """See `streams.delivery.stage.Stage`. Attributes without underscore are for metrics."""

    name: str = "parser"
    group: str = PARSER_GROUP
    topics: tuple[str, ...] = (FETCH_RESULTS,)

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        """Everything counted since the start, over all crawls, by counter name."""
        self._held: Counter[Source] = Counter()
        self._tasks: dict[asyncio.Task[None], Delivery] = {}
        self._turns: dict[tuple[Source, bytes | None], deque[Delivery]] = {}
        """Keys in work, and what waits for each: results of one URL become records in order."""
        self._finished: deque[_Finished] = deque()
        self._finished_event = asyncio.Event()
        self._idle = asyncio.Condition()
        self._deliverer: asyncio.Task[None] | None = None
        self._revoked: set[Source] = set()
        self._deaths_told: Counter[str] = Counter()

    async def start(self, context: Context) -> None:
        """See Stage."""
        settings = context.settings
        self._context = context
        self._window = settings.parse_window
        self._debug = settings.log_level == "debug"
        self.pool = Pool(settings.parse_processes or 1, Config.of(settings), self)
        context.metrics.in_flight = lambda: sum(self._held.values())
        context.metrics.on_scrape(self._refresh)
        await self.pool.start()
        self._deliverer = asyncio.create_task(self._deliver(), name="deliverer")
        context.watch(self._deliverer)

    def room(self, source: Source) -> int:
        """See Stage."""
        return max(0, self._window - self._held[source])

    def offer(self, delivery: Delivery) -> None:
        """See Stage."""
        self._held[delivery.source] += 1
        waiting = self._turns.get((delivery.source, delivery.key))
        if waiting is None:
            self._turns[delivery.source, delivery.key] = deque()
            self._take(delivery)
        else:
            waiting.append(delivery)

    def _take(self, delivery: Delivery) -> None:
        task = asyncio.create_task(self._begin(delivery), name="begin")
        self._tasks[task] = delivery
        task.add_done_callback(self._begun)
        self._context.watch(task)

    def assigned(self, sources: frozenset[Source]) -> None:
        """See Stage."""
        self._revoked -= sources

    async def revoke(self, sources: frozenset[Source]) -> None:
        """See Stage."""
        self._revoked |= sources
        for (source, _), waiting in self._turns.items():
            if source in sources:
                self._held[source] -= len(waiting)
                waiting.clear()
        for task, delivery in list(self._tasks.items()):
            if delivery.source in sources:
                task.cancel()
        for job in self.pool.forget(lambda delivery: delivery.source in sources):
            self._release(job.context)
        async with self._idle:
            await self._idle.wait_for(lambda: not any(self._held[one] for one in sources))

    async def stop(self) -> None:
        """See Stage."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.pool.stop()
        if self._deliverer is not None:
            self._deliverer.cancel()
            await asyncio.gather(self._deliverer, return_exceptions=True)

    # parsers.worker.pool.Receiver

    async def part(self, job: Job, outs: Sequence[wire.Message]) -> None:
        """See Receiver."""
        del job
        await self._context.outputs.deliver([Out(*one) for one in outs])

    def done(
        self, job: Job, facts: dict[str, Any], outs: Sequence[wire.Message], process: Process
    ) -> None:
        """See Receiver."""
        counts: dict[str, int] = facts["counts"]
        self._observe(facts, counts)
        if self._debug:
            self._tell_of(job.context, job.crawl, facts["kind"])
        self._finish(
            _Finished(
                job.context,
                [Out(*one) for one in outs],
                {job.crawl: counts},
                number=job.number,
                process=process,
            )
        )

    def watch(self, task: asyncio.Task[Any]) -> None:
        """See Receiver."""
        self._context.watch(task)

    def failed(self, job: Job, reason: Reason, detail: str) -> None:
        """See Receiver."""
        self._bury(job.context, reason, detail, attempts=max(1, job.deaths))

    # From delivery to pool.

    async def _begin(self, delivery: Delivery) -> None:
        crawl = wire.crawl_of(delivery.value)
        if crawl is None:
            if await delivery.begin():
                self._bury(delivery, *_unreadable(delivery.value))
            else:
                self._release(delivery)
            return
        deadline = time.monotonic() + UNKNOWN_CRAWL_S
        while (rules := self._context.crawls.rules(crawl)) is None:
            if time.monotonic() > deadline:
                self._bury(delivery, Reason.UNKNOWN_CRAWL, f"no crawl {crawl!r} was submitted")
                return
            await asyncio.sleep(0.5)
        if not await delivery.begin() or delivery.source in self._revoked:
            self._release(delivery)
            return
        assert delivery.value is not None
        self.pool.submit(Job(delivery.value, crawl, rules, delivery))

    def _begun(self, task: asyncio.Task[None]) -> None:
        delivery = self._tasks.pop(task)
        if task.cancelled():
            self._release(delivery)

    def _bury(self, delivery: Delivery, reason: Reason, detail: str, *, attempts: int = 0) -> None:
        result = _readable(delivery.value)
        letter = dead_letter(
            delivery.source,
            delivery.offset,
            delivery.key,
            delivery.value,
            reason=reason,
            stage=self.name,
            detail=detail,
            request=result,
            status=result["status"] if result else 0,
            attempts=attempts,
            now_ms=now_ms(),
        )
        name = f"{kind_of(reason)}.{reason.value}"
        log.warning(
            "no record", reason=reason.value, detail=detail, url=result["url"] if result else ""
        )
        crawl = result["crawl"] if result else ""
        if self._debug:
            self._tell_of(delivery, crawl, name)
        self._finish(_Finished(delivery, (letter,), {crawl: {name: 1}}))

    # From pool to Kafka.

    def _finish(self, finished: _Finished) -> None:
        for counts in finished.counts.values():
            self.totals.update(counts)
        self._finished.append(finished)
        self._finished_event.set()

    async def _deliver(self) -> None:
        """Deliver what is finished, in as few calls as may be, then complete it."""
        while True:
            await self._finished_event.wait()
            self._finished_event.clear()
            while self._finished:
                batch = [
                    self._finished.popleft() for _ in range(min(len(self._finished), _MAX_DELIVER))
                ]
                await self._context.outputs.deliver([out for one in batch for out in one.outs])
                told: dict[Process, list[int]] = {}
                for one in batch:
                    one.delivery.complete(one.counts)
                    self._release(one.delivery)
                    if one.process is not None:
                        told.setdefault(one.process, []).append(one.number)
                for process, numbers in told.items():
                    process.delivered(numbers)

    def _release(self, delivery: Delivery) -> None:
        source = delivery.source
        waiting = self._turns[source, delivery.key]
        if waiting:
            self._take(waiting.popleft())
        else:
            del self._turns[source, delivery.key]
        self._held[source] -= 1
        if not self._held[source]:
            del self._held[source]
            if self._revoked:
                asyncio.ensure_future(self._tell_idle())  # noqa: RUF006 - ends at once

    async def _tell_idle(self) -> None:
        async with self._idle:
            self._idle.notify_all()

    def _tell_of(self, delivery: Delivery, crawl: str, outcome: str) -> None:
        log.debug(
            "done",
            crawl=crawl,
            url_id=(delivery.key or b"").hex(),
            topic=delivery.source.topic,
            partition=delivery.source.partition,
            offset=delivery.offset,
            outcome=outcome,
        )

    def _refresh(self, metrics: Metrics) -> None:
        for cause, number in self.pool.deaths.items():
            metrics.inc(
                "crawler_parse_process_deaths_total", cause, by=number - self._deaths_told[cause]
            )
            self._deaths_told[cause] = number

    def _observe(self, facts: dict[str, Any], counts: dict[str, int]) -> None:
        metrics = self._context.metrics
        now = now_ms()
        metrics.observe("crawler_parse_duration_seconds", facts["cpu_s"], facts["kind"])
        metrics.inc("crawler_records_total", facts["kind"])
        for issue in facts["issues"]:
            metrics.inc("crawler_parse_issues_total", issue)
        metrics.inc("crawler_links_found_total", by=counts.get("links_found", 0))
        metrics.inc("crawler_links_sent_total", by=counts.get("links_sent", 0))
        for name, since in (
            ("crawler_seed_to_record_seconds", facts["seeded_at"]),
            ("crawler_discovery_to_record_seconds", facts["discovered_at"]),
        ):
            if since:
                metrics.observe(name, max(0.0, (now - since) / 1000))


def _readable(message: bytes | None) -> FetchResult | None:
    """The fetch result in a message that is to be buried, when it can be read."""
    try:
        result: FetchResult = decode("fetch-result", message or b"")
    except ContractError:
        return None
    return result


def _unreadable(message: bytes | None) -> tuple[Reason, str]:
    """Why a message is no fetch result."""
    try:
        decode("fetch-result", message or b"")
    except UnknownSchemaError as error:
        return Reason.UNKNOWN_SCHEMA, str(error)
    except ContractError as error:
        return Reason.UNDECODABLE, str(error)
    return Reason.UNDECODABLE, "the crawl id is not where it should be"
