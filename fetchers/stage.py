"""The fetch stage: takes deliveries, fetches what is due, completes each message once.

Everything runs on one event loop. `_pump` is called whenever something may have become due: a
delivery came, a fetch ended, the timer rang. It moves due tier requests into the window, begins
what the window pops while fewer than the limit are in flight, and sets the timer for what is next.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from fetchers.attempt import Attempts, Outcome, Postponed
from fetchers.memory import memory_share
from fetchers.messages import deferred, tier_message
from fetchers.outbox import Outbox
from fetchers.pacing import Pacing
from fetchers.policy import breaker as breakers
from fetchers.policy import politeness
from fetchers.policy.concurrency import Sample, adapt
from fetchers.policy.retry import scale_of
from fetchers.policy.window import Host, Window
from fetchers.robots_cache import RobotsCache
from fetchers.tiers import TierBuffer
from fetchers.transport import Transport
from fetchers.work import Unusable, Work, hold_s, read
from schemas.reasons import REASONS, Reason
from schemas.topics import FETCH_REQUESTS, FETCHER_GROUP, RETRY_TIERS
from streams.blobs import BlobStore
from streams.deadletter import dead_letter, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.admission import Rules
    from streams.metrics import Metrics
    from streams.stage import Context, Delivery, Out, Source

log = structlog.get_logger(__name__)

UNKNOWN_CRAWL_S: Final = 10.0
"""How long a request waits for its crawl's spec to arrive before it is a dead letter."""
HOUSEKEEPING_S: Final = 1.0
ELIGIBLE_S: Final = 60.0
"""Horizon of the metric of the eligible backlog."""
_FORGET_EVERY = 60
_TIER_SHARE: Final = 4
"""A tier's partition is read ahead by the window divided by this."""
_MAX_OUTBOX: Final = 2_000


class FetchStage:
    """See `streams.stage.Stage`. Attributes without underscore are for metrics."""

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
        self.totals: Counter[str] = Counter()
        """Everything counted since the start, over all crawls, by counter name."""
        self._held: Counter[int] = Counter()
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self._unknown: dict[str, list[tuple[float, Work]]] = {}
        self._assigned_at: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._pump_due = False
        self._stopping = False
        self._was_full = False
        self._housekeeper: asyncio.Task[None] | None = None

    # streams.stage.Stage

    async def start(self, context: Context) -> None:
        """See Stage. Raises ConfigError when agent or contact are missing."""
        settings = context.settings
        self._context = context
        self._settings = settings
        self._scale = scale_of(settings.retry_tiers_s)
        self.window: Window[Work] = Window(
            tiers_s=settings.retry_tiers_s, per_address=settings.per_address
        )
        self.tiers = TierBuffer(max(4, settings.window // _TIER_SHARE))
        self.limit = settings.concurrency
        self._outbox = Outbox(context.outputs)
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
        self._debug = settings.log_level == "debug"
        self._housekeeper = asyncio.ensure_future(self._keep_house())

    def room(self, source: Source) -> int:
        """See Stage."""
        if len(self._outbox) > _MAX_OUTBOX or self._stopping:
            return 0
        if source.topic != FETCH_REQUESTS:
            return self.tiers.room(source)
        return max(0, self._settings.window - self._held[source.partition])

    def offer(self, delivery: Delivery) -> None:
        """See Stage."""
        work = read(delivery)
        if isinstance(work, Unusable):
            self._bury(delivery, work)
            return
        if delivery.source.topic != FETCH_REQUESTS:
            wait_s = hold_s(work.request, int(time.time() * 1000))
            if wait_s > 0:
                self.tiers.add(work, time.monotonic() + wait_s)
                self._pump_soon()
                return
        self._admit(work)
        self._pump_soon()

    def assigned(self, sources: frozenset[Source]) -> None:
        """See Stage. Hosts of these partitions wait one delay: another process had them."""
        now = time.monotonic()
        partitions = {source.partition for source in sources}
        for partition in partitions:
            self._assigned_at[partition] = now
        for host in self.window.hosts.values():
            if host.partition in partitions:
                host.pace = politeness.reassigned(host.pace, now, host.delay_s)

    async def revoke(self, sources: frozenset[Source]) -> None:
        """See Stage."""
        self.tiers.forget(sources)
        self.window.discard(lambda work: self._drop_if(work, sources))
        for crawl, waiting in list(self._unknown.items()):
            self._unknown[crawl] = [
                entry for entry in waiting if not self._drop_if(entry[1], sources)
            ]
        started = [task for task, work in self._tasks.items() if work.delivery.source in sources]
        try:
            if started:
                await asyncio.wait(started)
            await self._outbox.drained()
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
        metrics.set("crawler_window_requests", sum(self._held.values()))
        metrics.set("crawler_window_hosts", sum(1 for host in hosts if host.queue))
        metrics.set("crawler_eligible_backlog", self.eligible_backlog(ELIGIBLE_S))
        metrics.set("crawler_ready_requests", self.window.ready(now))
        metrics.set(
            "crawler_breakers_open",
            sum(1 for host in hosts if breakers.state(host.breaker, now) == "open"),
        )

    # Into the window.

    def _admit(self, work: Work) -> None:
        """Queue a request that may be begun, or give it the outcome that it has without."""
        request = work.request
        rules = self._context.crawls.rules(request["crawl"])
        if rules is None:
            deadline = time.monotonic() + UNKNOWN_CRAWL_S
            self._unknown.setdefault(request["crawl"], []).append((deadline, work))
            self._count_in(work)
            return
        work.rules = rules
        refused = self._refused(rules)
        if refused is not None:
            self._finish_later(work, (), {f"rejected.{refused.value}": 1})
            return
        now = time.monotonic()
        host = self._host_of(work, rules, now)
        if breakers.state(host.breaker, now) == "open":
            self._move(host, work, now)
            return
        partition = work.delivery.source.partition
        fullness = min(1.0, self._held[partition] / self._settings.window)
        deferral = self.window.place(
            host,
            now=now,
            fullness=fullness,
            returned=work.delivery.source.topic != FETCH_REQUESTS,
            priority=request["priority"],
        )
        if deferral is not None:
            self._defer(work, None, deferral.tier, deferral.wait_s)
            return
        self._count_in(work)
        self.window.add(host, work, priority=request["priority"], now=now)

    def _host_of(self, work: Work, rules: Rules, now: float) -> Host[Work]:
        """The host of a request, with the strictest delay of the crawls that ask it."""
        spec = rules.spec
        partition = work.delivery.source.partition
        key = work.request["host"]
        host = self.window.hosts.get(key)
        if host is None:
            host = self.window.host(key, partition)
            assigned_at = self._assigned_at.get(partition, now)
            host.pace = politeness.first_seen(assigned_at, spec.delay_s)
        elif host.queue or host.in_flight:
            setting_s = max(host.setting_s, spec.delay_s)
            parallel = min(host.parallel, spec.per_host)
            self._set_delay(host, setting_s, parallel)
            return host
        self._set_delay(host, spec.delay_s, spec.per_host)
        return host

    def _set_delay(self, host: Host[Work], setting_s: float, parallel: int) -> None:
        host.parallel = parallel
        if host.setting_s != setting_s or not host.delay_s:
            self._pacing.set_delay(host, setting_s)

    def _refused(self, rules: Rules) -> Reason | None:
        """Why nothing of a crawl is begun any more, or None."""
        spec = rules.spec
        if spec.state == "stopped":
            return Reason.CRAWL_STOPPED
        if spec.max_pages is not None and self._context.crawls.pages(spec.crawl) >= spec.max_pages:
            return Reason.BUDGET_SPENT
        return None

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
                self._admit(work)
        loop = asyncio.get_running_loop()
        while self.in_flight < self.limit and len(self._tasks) < 4 * self.limit:
            popped = self.window.pop(now)
            if popped is None:
                break
            host, work, address = popped
            self.in_flight += 1
            task = loop.create_task(self._run(host, work, address))
            self._tasks[task] = work
            task.add_done_callback(self._reap)
        self._was_full = self._was_full or self.in_flight >= self.limit
        self._set_timer(now)

    def _reap(self, task: asyncio.Task[None]) -> None:
        work = self._tasks.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("outcome lost", url=work.request["url"], exc_info=error)

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dues = [due for due in (self.tiers.next_due(), self.window.next_due()) if due is not None]
        if dues and min(dues) > now:
            self._timer = asyncio.get_running_loop().call_later(
                max(0.001, min(dues) - now), self._pump
            )

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
                    self.window.put_back(host, work, priority=work.request["priority"], now=now)
                self._empty_blocked(host)
                self._pump_soon()
            if outcome is None or isinstance(outcome, Postponed):
                return
            if outcome.messages:
                await self._context.outputs.deliver(outcome.messages)
            self._complete(work, outcome.counts)
        finally:
            if not isinstance(outcome, Postponed) or work.delivery.stale:
                self._count_out(work)
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
        refused = self._refused(rules)
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

    def _empty_blocked(self, host: Host[Work]) -> None:
        """Move a host's queue to the tiers when the host has to be left alone for long."""
        now = time.monotonic()
        if not host.queue or host.free_at(now) - now <= self._settings.retry_tiers_s[0]:
            return
        unavailable = breakers.state(host.breaker, now) == "open"
        for work in self.window.drain(host):
            if unavailable:
                self._move(host, work, now)
            else:
                deferral = self.window.defer(host, now=now)
                self._defer(work, None, deferral.tier, deferral.wait_s)

    # Outcomes without a fetch.

    def _move(self, host: Host[Work], work: Work, now: float) -> None:
        """A request of a host whose breaker is open: to a tier, a bounded number of times."""
        reason = Reason.HOST_UNAVAILABLE
        moved = work.request.get("unavailable", 0) + 1
        if moved >= REASONS[reason].max_attempts:
            detail = f"moved {moved} times while the host did not answer"
            cause = host.breaker.reason
            outcome = self.attempts.given_up(
                work,
                reason,
                f"{detail}; last {cause.value}" if cause else detail,
                attempts=work.request["attempt"] - 1,
            )
            self._finish_later(work, outcome.messages, outcome.counts)
            return
        deferral = self.window.defer(host, now=now)
        self._defer(work, reason, deferral.tier, deferral.wait_s)

    def _defer(self, work: Work, reason: Reason | None, tier: int, wait_s: float) -> None:
        self._context.metrics.inc("crawler_deferrals_total", RETRY_TIERS[tier])
        later = deferred(work.request, reason=reason, now_ms=int(time.time() * 1000), wait_s=wait_s)
        self._finish_later(work, (tier_message(later, tier),), {"deferrals": 1})

    def _bury(self, delivery: Delivery, unusable: Unusable) -> None:
        request = unusable.request
        letter = dead_letter(
            delivery.source, delivery.offset, delivery.key, delivery.value,
            reason=unusable.reason, stage=self.name, detail=unusable.detail, request=request,
            now_ms=int(time.time() * 1000),
        )  # fmt: skip
        log.warning("unusable request", reason=unusable.reason.value, detail=unusable.detail)
        name = f"{kind_of(unusable.reason)}.{unusable.reason.value}"
        crawl = request["crawl"] if request else ""
        self.totals[name] += 1
        self._outbox.put(delivery, (letter,), {crawl: {name: 1}}, self._pump_soon)

    def _finish_later(
        self, work: Work, messages: tuple[Out, ...], counts: Mapping[str, int]
    ) -> None:
        self._count_in(work)
        self.totals.update(counts)

        def done() -> None:
            if self._debug:
                _tell_of(work, counts)
            self._count_out(work)
            self._pump_soon()

        self._outbox.put(work.delivery, messages, {work.request["crawl"]: counts}, done)

    def _complete(self, work: Work, counts: Mapping[str, int]) -> None:
        self.totals.update(counts)
        work.delivery.complete({work.request["crawl"]: counts})
        if self._debug:
            _tell_of(work, counts)

    # Room.

    def _count_in(self, work: Work) -> None:
        if not work.counted:
            work.counted = True
            work.taken_at = time.monotonic()
            self._held[work.delivery.source.partition] += 1

    def _count_out(self, work: Work) -> None:
        if work.counted:
            work.counted = False
            self._held[work.delivery.source.partition] -= 1

    def _drop_if(self, work: Work, sources: frozenset[Source]) -> bool:
        if work.delivery.source not in sources:
            return False
        self._count_out(work)
        return True

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
            self._retry_unknown(now)
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

    def _retry_unknown(self, now: float) -> None:
        for crawl, waiting in list(self._unknown.items()):
            known = self._context.crawls.rules(crawl) is not None
            kept = []
            for deadline, work in waiting:
                if known:
                    self._count_out(work)
                    self._admit(work)
                elif deadline <= now:
                    outcome = self.attempts.given_up(
                        work, Reason.UNKNOWN_CRAWL, f"no crawl {crawl!r}", attempts=0
                    )
                    self._finish_later(work, outcome.messages, outcome.counts)
                else:
                    kept.append((deadline, work))
            if kept:
                self._unknown[crawl] = kept
            else:
                self._unknown.pop(crawl, None)


def _tell_of(work: Work, counts: Mapping[str, int]) -> None:
    request, delivery = work.request, work.delivery
    log.debug(
        "done",
        crawl=request["crawl"],
        url_id=request["url_id"].hex(),
        url=request["url"],
        attempt=request["attempt"],
        topic=delivery.source.topic,
        partition=delivery.source.partition,
        offset=delivery.offset,
        outcome=",".join(name for name, by in counts.items() if by and name != "bytes"),
    )
