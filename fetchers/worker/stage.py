"""The fetch stage: takes deliveries, fetches what is due, completes each message once.

Everything runs on one event loop. `_pump` is called whenever something may have become due: a
delivery came, a fetch ended, the timer rang. It moves due tier requests into the window, begins
what the window pops while fewer than the limit are in flight, and sets the timer for what is next.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from fetchers.http.transport import Transport
from fetchers.policy import breaker as breakers
from fetchers.policy.concurrency import Sample, adapt
from fetchers.policy.retry import longest_wait_s, scale_of
from fetchers.policy.window import Host, Window
from fetchers.worker.attempt import Attempts, Outcome, Postponed
from fetchers.worker.intake import Intake
from fetchers.worker.memory import memory_share
from fetchers.worker.pacing import Pacing
from fetchers.worker.robots_cache import RobotsCache
from fetchers.worker.tiers import TierBuffer
from fetchers.worker.work import Unusable, Work, hold_s, read
from schemas.reasons import Reason
from schemas.topics import FETCH_REQUESTS, FETCHER_GROUP, RETRY_TIERS
from streams.kafka.blobs import BlobStore
from streams.telemetry.targets import DRAIN_TARGET_S

if TYPE_CHECKING:
    from streams.delivery.stage import Context, Delivery
    from streams.kafka.messages import Source
    from streams.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

HOUSEKEEPING_S: Final = 1.0
_FORGET_EVERY = 60
_TIER_SHARE: Final = 4
"""A tier's partition is read ahead by the window divided by this."""
_MAX_OUTBOX: Final = 2_000


class FetchStage:
    """See `streams.delivery.stage.Stage`. Attributes without underscore are for metrics."""

    name: str = "fetcher"
    group: str = FETCHER_GROUP
    topics: tuple[str, ...] = (FETCH_REQUESTS, *RETRY_TIERS)

    def __init__(self) -> None:
        self.in_flight = 0
        """Fetches that are under way."""
        self.limit = 0
        """Most that may be, as adapted."""
        self.lag_s = 0.0
        """Longest delay of the event loop in the last second."""
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._pump_due = False
        self._stopping = False
        self._was_full = False
        self._housekeeper: asyncio.Task[None] | None = None

    # streams.delivery.stage.Stage

    async def start(self, context: Context) -> None:
        """See Stage. Raises ConfigError when agent or contact are missing."""
        settings = context.settings
        self._context = context
        self._settings = settings
        self._scale = scale_of(settings.retry_tiers_s)
        self._longest_s = {
            topic: longest_wait_s(tier, settings.retry_tiers_s)
            for tier, topic in enumerate(RETRY_TIERS)
        }
        self.window: Window[Work] = Window(
            tiers_s=settings.retry_tiers_s, per_address=settings.per_address
        )
        self.tiers = TierBuffer(max(4, settings.window // _TIER_SHARE))
        self.limit = settings.concurrency
        self._transport = Transport(settings)
        robots = RobotsCache(self._transport, ttl_s=settings.robots_ttl_s, scale=self._scale)
        self._pacing = Pacing(settings, self.window, self._pump_soon)
        self.attempts = Attempts(
            settings,
            context.metrics,
            self.window,
            self._pacing,
            self._transport,
            robots,
            BlobStore.open(settings),
        )
        context.metrics.in_flight = lambda: self.in_flight
        context.metrics.on_scrape(self._refresh)
        self.intake = Intake(context, self.window, self._pacing, self.attempts, self._pump_soon)
        self._housekeeper = asyncio.create_task(self._keep_house(), name="housekeeper")
        context.watch(self._housekeeper)

    def room(self, source: Source) -> int:
        """See Stage."""
        if len(self.intake.outbox) > _MAX_OUTBOX or self._stopping:
            return 0
        if source.topic != FETCH_REQUESTS:
            return self.tiers.room(source)
        return max(0, self._settings.window - self.intake.held[source.partition])

    def offer(self, delivery: Delivery) -> None:
        """See Stage."""
        work = read(delivery)
        if isinstance(work, Unusable):
            self.intake.bury(delivery, work)
            return
        if delivery.source.topic != FETCH_REQUESTS:
            longest_s = self._longest_s[delivery.source.topic]
            wait_s = hold_s(work.request, int(time.time() * 1000), longest_s)
            if wait_s > 0:
                self.tiers.add(work, time.monotonic() + wait_s)
                self._pump_soon()
                return
        self.intake.admit(work)
        self._pump_soon()

    def assigned(self, sources: frozenset[Source]) -> None:
        """See Stage. Hosts of these partitions wait one delay: another process had them."""
        now = time.monotonic()
        partitions = {source.partition for source in sources}
        for partition in partitions:
            self.intake.assigned_at[partition] = now
        self.window.reassigned(partitions, now)
        self.attempts.forget_asked()

    async def revoke(self, sources: frozenset[Source]) -> None:
        """See Stage."""
        self.tiers.forget(sources)
        self.intake.forget(sources)
        started = [task for task, work in self._tasks.items() if work.delivery.source in sources]
        try:
            if started:
                await asyncio.wait(started)
            await self.intake.outbox.drained()
        except asyncio.CancelledError:
            for task in started:
                task.cancel()
            raise

    async def stop(self) -> None:
        """See Stage."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._housekeeper is not None:
            self._housekeeper.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._transport.close()

    # Metrics.

    def eligible_backlog(self, horizon_s: float) -> int:
        """Requests in the window that politeness allows to begin within a horizon."""
        return self.window.eligible(time.monotonic(), horizon_s)

    def _refresh(self, metrics: Metrics) -> None:
        now = time.monotonic()
        hosts = list(self.window.hosts.values())
        metrics.set("http_requests_in_flight", self.in_flight)
        metrics.set("crawler_concurrency_limit", self.limit)
        metrics.set("crawler_window_requests", sum(self.intake.held.values()))
        metrics.set("crawler_window_hosts", sum(1 for host in hosts if host.queue))
        metrics.set("crawler_eligible_backlog", self.eligible_backlog(DRAIN_TARGET_S))
        metrics.set("crawler_ready_requests", self.window.ready(now))
        metrics.set(
            "crawler_breakers_open",
            sum(1 for host in hosts if breakers.state(host.breaker, now) == "open"),
        )

    # Out of the window.

    def _pump_soon(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_due = False
        if self._stopping:
            return
        now = time.monotonic()
        for work in self.tiers.take_due(now):
            if not work.delivery.stale:
                self.intake.admit(work)
        loop = asyncio.get_running_loop()
        while self.in_flight < self.limit and len(self._tasks) < 4 * self.limit:
            popped = self.window.pop(now)
            if popped is None:
                break
            host, work, address = popped
            self.in_flight += 1
            task = loop.create_task(self._run(host, work, address), name="attempt")
            self._tasks[task] = work
            task.add_done_callback(self._tasks.pop)
            self._context.watch(task)
        self._was_full = self._was_full or self.in_flight >= self.limit
        self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        """Ring when something is due next; a timer that rings earlier already is left alone."""
        dues = [due for due in (self.tiers.next_due(), self.window.next_due()) if due is not None]
        if not dues or min(dues) <= now:
            return
        due_at = min(dues)
        if self._timer is not None:
            if self._timer_at <= due_at:
                return
            self._timer.cancel()
        self._timer_at = due_at
        self._timer = asyncio.get_running_loop().call_later(max(0.001, due_at - now), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._pump()

    async def _run(self, host: Host[Work], work: Work, address: str) -> None:
        """Make the attempt, give the host back, deliver the outcome, complete the message."""
        held = [address]
        outcome: Outcome | Postponed | None = None
        try:
            try:
                outcome = await self._attempt(host, work, held)
            finally:
                now = time.monotonic()
                self.window.release(host, address_held=held[0], now=now)
                self.in_flight -= 1
                if isinstance(outcome, Postponed) and not work.delivery.stale:
                    work.delivery.put_back()
                    self.window.put_back(host, work, priority=work.request["priority"], now=now)
                self.intake.empty_blocked(host)
                self._pump_soon()
            if outcome is None or isinstance(outcome, Postponed):
                return
            if outcome.messages:
                await self._context.outputs.deliver(outcome.messages)
            self.intake.complete(work, outcome.counts)
        finally:
            if not isinstance(outcome, Postponed) or work.delivery.stale:
                self.intake.count_out(work)
                self._pump_soon()

    async def _attempt(
        self, host: Host[Work], work: Work, held: list[str]
    ) -> Outcome | Postponed | None:
        """The attempt's outcome; None: it is not ours to make any more."""
        if not await work.delivery.begin():
            return None
        rules = self._context.crawls.rules(work.request["crawl"]) or work.rules
        assert rules is not None
        work.rules = rules
        refused = self.intake.refused(rules)
        if refused is not None:
            return Outcome((), {f"rejected.{refused.value}": 1})
        try:
            outcome = await self.attempts.run(host, work, rules, held)
        except Exception as error:  # our own fault must not cost the message, nor the process
            log.exception("attempt", url=work.request["url"])
            outcome = self.attempts.failed(
                work, Reason.UNEXPECTED, f"{type(error).__name__}: {error}"
            )
        return outcome

    # Once a second.

    async def _keep_house(self) -> None:
        turn = 0
        while True:
            began = time.monotonic()
            await asyncio.sleep(HOUSEKEEPING_S)
            now = time.monotonic()
            self.lag_s = max(0.0, now - began - HOUSEKEEPING_S)
            turn += 1
            self._adapt()
            self.intake.retry_unknown(now)
            if turn % _FORGET_EVERY == 0:
                self.window.forget_idle(now)
            self._pump_soon()

    def _adapt(self) -> None:
        pacing = self._pacing
        sample = Sample(
            pacing.finished, pacing.timed_out, self.lag_s, memory_share(), self._was_full
        )
        pacing.finished = pacing.timed_out = 0
        limit = adapt(self.limit, sample, ceiling=self._settings.concurrency)
        if limit < self.limit:
            log.warning("fewer requests in flight", limit=limit, sample=sample._asdict())
        self.limit = limit
        self._was_full = self.in_flight >= self.limit
