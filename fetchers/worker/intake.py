"""From a message to the window, and the outcomes that a request has without a fetch.

Whoever admits a request counts it against the room of its partition; whatever ends it, a fetch or
an outcome here, counts it out again, once.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from fetchers.policy import breaker as breakers
from fetchers.policy import politeness
from fetchers.worker.messages import deferred, tier_message
from fetchers.worker.outbox import Outbox
from schemas.reasons import REASONS, Reason
from schemas.topics import FETCH_REQUESTS, RETRY_TIERS
from streams.deadletters.letter import dead_letter, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fetchers.policy.window import Host, Window
    from fetchers.worker.attempt import Attempts
    from fetchers.worker.pacing import Pacing
    from fetchers.worker.work import Unusable, Work
    from schemas.admission import Rules
    from streams.delivery.stage import Context, Delivery
    from streams.kafka.messages import Out, Source

log = structlog.get_logger(__name__)

UNKNOWN_CRAWL_S: Final = 10.0
"""How long a request waits for its crawl's spec to arrive before it is a dead letter."""


class Intake:
    """Admits requests, defers what does not fit, and gives up what cannot be fetched."""

    def __init__(
        self,
        context: Context,
        window: Window[Work],
        pacing: Pacing,
        attempts: Attempts,
        wake: Callable[[], None],
    ) -> None:
        self._context = context
        self._settings = context.settings
        self._window = window
        self._pacing = pacing
        self._attempts = attempts
        self._wake = wake
        self._debug = context.settings.log_level == "debug"
        self._unknown: dict[str, list[tuple[float, Work]]] = {}
        self.outbox = Outbox(context.outputs)
        self.held: Counter[int] = Counter()
        """Requests in hand by partition number: in the window, in flight, or being delivered."""
        self.assigned_at: dict[int, float] = {}
        """Monotonic time of the latest assignment of each partition number."""

    def admit(self, work: Work) -> None:
        """Queue a request that may be begun, or give it the outcome that it has without."""
        request = work.request
        rules = self._context.crawls.rules(request["crawl"])
        if rules is None:
            deadline = time.monotonic() + UNKNOWN_CRAWL_S
            self._unknown.setdefault(request["crawl"], []).append((deadline, work))
            self.count_in(work)
            return
        work.rules = rules
        refused = self.refused(rules)
        if refused is not None:
            self._finish_later(work, (), {f"rejected.{refused.value}": 1})
            return
        now = time.monotonic()
        host = self._host_of(work, rules, now)
        if breakers.state(host.breaker, now) == "open":
            self._move(host, work, now)
            return
        partition = work.delivery.source.partition
        fullness = min(1.0, self.held[partition] / self._settings.window)
        deferral = self._window.place(
            host,
            now=now,
            fullness=fullness,
            returned=work.delivery.source.topic != FETCH_REQUESTS,
            priority=request["priority"],
        )
        if deferral is not None:
            self._defer(work, None, deferral.tier, deferral.wait_s)
            return
        self.count_in(work)
        self._window.add(host, work, priority=request["priority"], now=now)

    def _host_of(self, work: Work, rules: Rules, now: float) -> Host[Work]:
        """The host of a request, with the strictest delay of the crawls that ask it."""
        spec = rules.spec
        partition = work.delivery.source.partition
        key = work.request["host"]
        host = self._window.hosts.get(key)
        if host is None:
            host = self._window.host(key, partition)
            assigned_at = self.assigned_at.get(partition, now)
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

    def refused(self, rules: Rules) -> Reason | None:
        """Why nothing of a crawl is begun any more, or None."""
        spec = rules.spec
        if spec.state == "stopped":
            return Reason.CRAWL_STOPPED
        if spec.max_pages is not None and self._context.crawls.pages(spec.crawl) >= spec.max_pages:
            return Reason.BUDGET_SPENT
        return None

    def empty_blocked(self, host: Host[Work]) -> None:
        """Move a host's queue to the tiers when the host has to be left alone for long."""
        now = time.monotonic()
        if not host.queue or host.free_at(now) - now <= self._settings.retry_tiers_s[0]:
            return
        unavailable = breakers.state(host.breaker, now) == "open"
        for work in self._window.drain(host):
            if unavailable:
                self._move(host, work, now)
            else:
                deferral = self._window.defer(host, now=now)
                self._defer(work, None, deferral.tier, deferral.wait_s)

    def _move(self, host: Host[Work], work: Work, now: float) -> None:
        """A request of a host whose breaker is open: to a tier, a bounded number of times."""
        reason = Reason.HOST_UNAVAILABLE
        moved = work.request.get("unavailable", 0) + 1
        if moved >= REASONS[reason].max_attempts:
            detail = f"moved {moved} times while the host did not answer"
            cause = host.breaker.reason
            outcome = self._attempts.given_up(
                work,
                reason,
                f"{detail}; last {cause.value}" if cause else detail,
                attempts=work.request["attempt"] - 1,
            )
            self._finish_later(work, outcome.messages, outcome.counts)
            return
        deferral = self._window.defer(host, now=now)
        self._defer(work, reason, deferral.tier, deferral.wait_s)

    def _defer(self, work: Work, reason: Reason | None, tier: int, wait_s: float) -> None:
        self._context.metrics.inc("crawler_deferrals_total", RETRY_TIERS[tier])
        later = deferred(work.request, reason=reason, now_ms=int(time.time() * 1000), wait_s=wait_s)
        self._finish_later(work, (tier_message(later, tier),), {"deferrals": 1})

    def bury(self, delivery: Delivery, unusable: Unusable) -> None:
        """Give up a message that is no request to work on."""
        request = unusable.request
        letter = dead_letter(
            delivery.source, delivery.offset, delivery.key, delivery.value,
            reason=unusable.reason, stage="fetcher", detail=unusable.detail, request=request,
            now_ms=int(time.time() * 1000),
        )  # fmt: skip
        log.warning("unusable request", reason=unusable.reason.value, detail=unusable.detail)
        name = f"{kind_of(unusable.reason)}.{unusable.reason.value}"
        crawl = request["crawl"] if request else ""
        self.outbox.put(delivery, (letter,), {crawl: {name: 1}}, self._wake)

    def _finish_later(
        self, work: Work, messages: tuple[Out, ...], counts: Mapping[str, int]
    ) -> None:
        self.count_in(work)

        def done() -> None:
            if self._debug:
                _tell_of(work, counts)
            self.count_out(work)
            self._wake()

        self.outbox.put(work.delivery, messages, {work.request["crawl"]: counts}, done)

    def complete(self, work: Work, counts: Mapping[str, int]) -> None:
        """Complete the message of a request whose outcome is delivered."""
        work.delivery.complete({work.request["crawl"]: counts})
        if self._debug:
            _tell_of(work, counts)

    def count_in(self, work: Work) -> None:
        """Count a request against the room of its partition."""
        if not work.counted:
            work.counted = True
            work.taken_at = time.monotonic()
            self.held[work.delivery.source.partition] += 1

    def count_out(self, work: Work) -> None:
        """Give the room of a request back."""
        if work.counted:
            work.counted = False
            self.held[work.delivery.source.partition] -= 1

    def forget(self, sources: frozenset[Source]) -> None:
        """Forget requests of some partitions that are not begun."""
        self._window.discard(lambda work: self._drop_if(work, sources))
        for crawl, waiting in list(self._unknown.items()):
            self._unknown[crawl] = [
                entry for entry in waiting if not self._drop_if(entry[1], sources)
            ]

    def _drop_if(self, work: Work, sources: frozenset[Source]) -> bool:
        if work.delivery.source not in sources:
            return False
        self.count_out(work)
        return True

    def retry_unknown(self, now: float) -> None:
        """Look again for the crawls of requests that came before their spec did."""
        for crawl, waiting in list(self._unknown.items()):
            known = self._context.crawls.rules(crawl) is not None
            kept = []
            for deadline, work in waiting:
                if known:
                    self.count_out(work)
                    self.admit(work)
                elif deadline <= now:
                    outcome = self._attempts.given_up(
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
