"""One attempt of one request: robots.txt, the fetch, and the outcome as messages.

The order is fixed: 1. it is the host's turn; 2. robots.txt is known and allows; 3. the request goes
out; 4. the host's pace and breaker learn from the answer; 5. the answer becomes an outcome.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from fetchers.http.body import BodySink, StoredBody, place
from fetchers.http.decode import ACCEPT_ENCODING
from fetchers.policy.cookies import CookieJar, same_cookies
from fetchers.policy.head import Head, all_values
from fetchers.policy.outcome import (
    MAX_SAME_URL_HOPS,
    Endless,
    Redirect,
    came_round_since,
    judge_redirect,
    judge_status,
)
from fetchers.policy.retry import after_failure
from fetchers.policy.robots import is_allowed
from fetchers.worker.messages import (
    ResultBuilder,
    extra_fields,
    redirect_message,
    request_fields,
    retried,
    tier_message,
    user_agent,
)
from fetchers.worker.pacing import Pacing, chance
from schemas.reasons import REASONS, Reason
from schemas.topics import RETRY_TIERS
from schemas.url import chain_ids, origin_of, path_of
from streams.deadletters.letter import dead_letter, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fetchers.http.answer import Answer, Limits
    from fetchers.http.transport import Transport
    from fetchers.policy.window import Host, Window
    from fetchers.worker.robots_cache import Entry, RobotsCache
    from fetchers.worker.work import Work
    from schemas.admission import Rules
    from schemas.records import FetchRequest
    from streams.kafka.blobs import BlobStore
    from streams.kafka.messages import Out
    from streams.settings import Settings
    from streams.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

_NO_HOST: Final = frozenset({Reason.DNS_NOT_FOUND, Reason.DNS_TEMPORARY, Reason.BLOCKED_ADDRESS})
"""Failures of robots.txt that are those of the URL itself: there is no host to be polite to."""


class Outcome(NamedTuple):
    """What an attempt ended in: the messages to deliver, then the counters to complete with."""

    messages: tuple[Out, ...]
    counts: Mapping[str, int]


class Postponed(NamedTuple):
    """Not begun, to be queued again: robots.txt was read instead, or another request went first."""


POSTPONED: Final = Postponed()


class Attempts:
    """Makes attempts. Owns what all of them share: transport, robots.txt, cookies, blobs."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        window: Window[Work],
        pacing: Pacing,
        transport: Transport,
        robots: RobotsCache,
        blobs: BlobStore,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._agent, self._contact = settings.identity()
        self._window = window
        self._pacing = pacing
        self._transport = transport
        self._robots = robots
        self._blobs = blobs
        self._jars: dict[str, CookieJar] = {}
        self._fields: dict[str, bytes] = {}
        self._spool = settings.data_dir / "spool"

    async def run(
        self, host: Host[Work], work: Work, rules: Rules, held: list[str]
    ) -> Outcome | Postponed:
        """Make the attempt that a request asks for.

        Args:
            host: of the request.
            work: the request.
            rules: of its crawl.
            held: one text: the address that the request counts under; set when it becomes known.
        """
        url = work.request["url"]
        agent = rules.spec.user_agent or self._agent
        origin = origin_of(url)
        now = time.monotonic()
        if host.gated or host.free_at(now) > now:
            return POSTPONED
        entry = self._robots.fresh(origin, agent, now)
        if entry is None:
            await self._read_robots(host, origin, agent, rules, held)
            return POSTPONED
        if entry.denied or entry.robots is None:
            self._metrics.inc("crawler_robots_decisions_total", "unreachable")
            reason = entry.reason if entry.reason in _NO_HOST else None
            return self.failed(
                work,
                reason or Reason.ROBOTS_UNREACHABLE,
                f"{origin}/robots.txt: {entry.detail}",
                at_least_s=entry.expires_at - now,
            )
        if not is_allowed(entry.robots, path_of(url)):
            self._metrics.inc("crawler_robots_decisions_total", "denied")
            return self.given_up(work, Reason.ROBOTS_DENIED, "disallowed by robots.txt", attempts=0)
        self._metrics.inc("crawler_robots_decisions_total", "allowed")
        return await self._fetch(host, work, rules, entry, held)

    def failed(
        self,
        work: Work,
        reason: Reason,
        detail: str,
        *,
        at_least_s: float = 0.0,
        status: int = 0,
        wire_bytes: int = 0,
    ) -> Outcome:
        """The outcome of an attempt that failed: another one, or a dead letter."""
        request = work.request
        retry = after_failure(
            reason,
            request["attempt"],
            tiers_s=self._settings.retry_tiers_s,
            jitter=chance(),
            at_least_s=at_least_s,
        )
        if retry is None:
            attempts = 0 if reason is Reason.BLOCKED_ADDRESS else request["attempt"]
            return self.given_up(
                work, reason, detail, attempts=attempts, status=status, wire_bytes=wire_bytes
            )
        log.debug("retry", url=request["url"], reason=reason.value, attempt=request["attempt"])
        self._metrics.inc("crawler_requests_total", reason.value)
        self._metrics.inc("crawler_retries_total", RETRY_TIERS[retry.tier])
        later = retried(
            request, reason=reason, detail=detail, now_ms=_now_ms(), wait_s=retry.wait_s
        )
        return Outcome((tier_message(later, retry.tier),), {"retries": 1, "bytes": wire_bytes})

    def given_up(
        self,
        work: Work,
        reason: Reason,
        detail: str,
        *,
        attempts: int,
        status: int = 0,
        wire_bytes: int = 0,
    ) -> Outcome:
        """The outcome of a URL that will not be tried again: a dead letter."""
        request = work.request
        now_ms = _now_ms()
        if attempts and not request["first_attempt_at"]:
            request = {**request, "first_attempt_at": now_ms}
        self._metrics.inc("crawler_requests_total", reason.value)
        getattr(log, REASONS[reason].level)(
            "given up", url=request["url"], reason=reason.value, detail=detail, attempts=attempts
        )
        delivery = work.delivery
        letter = dead_letter(
            delivery.source, delivery.offset, delivery.key, delivery.value,
            reason=reason, stage="fetcher", detail=detail, request=request, status=status,
            attempts=attempts, now_ms=now_ms,
        )  # fmt: skip
        counts = {f"{kind_of(reason)}.{reason.value}": 1, "bytes": wire_bytes}
        return Outcome((letter,), counts)

    async def _read_robots(
        self, host: Host[Work], origin: str, agent: str, rules: Rules, held: list[str]
    ) -> None:
        """Fetch a robots.txt as a request of its host: paced, and with nothing else begun."""
        host.gated = True
        self._pacing.begin(host)
        try:
            entry, fetched = await self._robots.fetch(
                origin, agent, self._base_fields(agent), self._pacing.wait_for_other
            )
            self._pacing.learn(host, fetched.answer, rules.spec, held)
            for bound in fetched.exceeded:
                self._metrics.inc("crawler_robots_cut_total", bound)
            if entry.robots is not None:
                self._pacing.obey(host, entry.robots, fetched.answer.sent_at)
        finally:
            self._window.ungate(host, time.monotonic())

    async def _fetch(
        self, host: Host[Work], work: Work, rules: Rules, entry: Entry, held: list[str]
    ) -> Outcome:
        """Send the request; a hop to the same URL is followed here, since dedup would drop it.

        A URL that is on its own chain is asked again if it would be asked with other cookies.
        """
        request = work.request
        spec = rules.spec
        base = self._base_fields(spec.user_agent or self._agent)
        jar = self._jars.setdefault(spec.crawl, CookieJar()) if spec.cookies else None
        hops = len(request["redirects"])
        if jar is not None and self._in_a_loop(request, rules, jar):
            return self.given_up(
                work, Reason.TOO_MANY_REDIRECTS, "a loop: was asked before with the same cookies",
                attempts=0,
            )  # fmt: skip

        def judge(head: Head) -> Reason | bool:
            return judge_status(head.status, spec.accept, head.headers)

        wire_bytes = 0
        url = request["url"]
        limits = self._limits_of(rules)
        deadline = time.monotonic() + limits.deadline_s
        cookie = "" if jar is None else jar.field(url, request["host"], time.time())
        made = [(url, cookie)]
        self._pacing.begin(host)
        self._metrics.observe("crawler_politeness_wait_seconds", time.monotonic() - work.taken_at)
        while True:
            with BodySink(self._spool) as sink:
                answer = await self._transport.fetch(
                    url,
                    base + extra_fields(request, cookie),
                    sink,
                    limits=limits._replace(deadline_s=deadline - time.monotonic()),
                    judge=judge,
                )
                wire_bytes += answer.wire_bytes
                self._pacing.learn(host, answer, spec, held)
                redirect = judge_redirect(rules, request, answer.status, answer.headers)
                same = redirect.target if isinstance(redirect, Redirect) and redirect.same else None
                if same is not None and jar is None:
                    jar = CookieJar()
                if jar is not None:
                    values = all_values(answer.headers, "set-cookie")
                    jar.store(url, request["host"], values, time.time())
                    if redirect is not None:
                        jar.redirected(url, hops, cookie)
                if same is None or jar is None:
                    return await self._outcome(
                        host, work, answer, redirect, sink, entry, wire_bytes
                    )
            url = same.href
            cookie = jar.field(url, request["host"], time.time())
            fault = _refused_hop(url, cookie, made, entry)
            if fault is not None:
                return self.given_up(
                    work, *fault, attempts=request["attempt"], wire_bytes=wire_bytes
                )
            made.append((url, cookie))
            await self._pacing.wait_for_turn(host)

    def forget_asked(self) -> None:
        """Hosts were given or taken: see `CookieJar.forget_asked`."""
        for jar in self._jars.values():
            jar.forget_asked()

    @staticmethod
    def _in_a_loop(request: FetchRequest, rules: Rules, jar: CookieJar) -> bool:
        if request["replays"]:  # someone wants it asked again
            return False
        identity = request["url_id"]
        chain = chain_ids(request["crawl"], request["redirects"], rules.ignore_params)
        if identity not in chain or came_round_since(identity, chain):
            return False
        cookie = jar.field(request["url"], request["host"], time.time())
        return jar.asked_alike(request["url"], len(request["redirects"]), cookie)

    async def _outcome(
        self,
        host: Host[Work],
        work: Work,
        answer: Answer,
        redirect: Redirect | Endless | None,
        sink: BodySink,
        entry: Entry,
        wire_bytes: int,
    ) -> Outcome:
        metrics = self._metrics
        metrics.observe("crawler_request_duration_seconds", answer.ended_at - answer.began_at)
        metrics.inc("crawler_response_bytes_total", "wire", by=wire_bytes)
        metrics.inc("crawler_response_bytes_total", "decoded", by=sink.size)
        if isinstance(redirect, Endless):
            return self.failed(
                work, Reason.TOO_MANY_REDIRECTS, redirect.detail,
                status=answer.status, wire_bytes=wire_bytes,
            )  # fmt: skip
        reason = answer.reason
        if reason is not None:
            last = work.request["attempt"] >= REASONS[reason].max_attempts
            if not (last and answer.partial and 200 <= answer.status < 300):
                return self.failed(
                    work, reason, answer.detail or f"status {answer.status}",
                    at_least_s=host.free_at(answer.ended_at) - answer.ended_at,
                    status=answer.status, wire_bytes=wire_bytes,
                )  # fmt: skip
            answer.truncated = True
        return await self._result(work, answer, redirect, await sink.finish(), entry, wire_bytes)

    async def _result(
        self,
        work: Work,
        answer: Answer,
        redirect: Redirect | None,
        body: StoredBody,
        entry: Entry,
        wire_bytes: int,
    ) -> Outcome:
        request = work.request
        now_ms = _now_ms()
        builder = ResultBuilder(work.delivery, request)
        builder.answered(answer.status, answer.headers)
        record = builder.record
        record["fetched_at"] = now_ms
        record["duration_ms"] = round((answer.ended_at - answer.began_at) * 1000)
        record["address"] = answer.address
        record["http_version"] = answer.version
        record["wire_bytes"] = wire_bytes
        record["truncated"] = answer.truncated
        record["body_bytes"] = body.size
        record["body_sha256"] = body.sha256
        record["body_coding"] = body.coding
        record["body"], record["body_ref"] = await place(
            body, self._blobs, self._settings.inline_body_bytes
        )
        if entry.sitemaps and work.rules is not None and work.rules.spec.sitemaps != "off":
            record["sitemaps"] = self._robots.sitemaps_for(entry, request["crawl"])
        counts = {"fetched": 1, "bytes": wire_bytes}
        outcome = "redirect" if redirect is not None else "page"
        if 200 <= answer.status < 300:
            counts["pages"] = 1
        elif answer.status == 304:
            counts["not_modified"] = 1
            outcome = "not_modified"
        messages: tuple[Out, ...] = ()
        if redirect is not None:
            messages = _redirected(request, redirect, builder, counts, now_ms)
        self._metrics.inc("crawler_requests_total", outcome)
        return Outcome((builder.message(), *messages), counts)

    def _base_fields(self, agent: str) -> bytes:
        fields = self._fields.get(agent)
        if fields is None:
            fields = request_fields(user_agent(agent, self._contact), ACCEPT_ENCODING)
            self._fields[agent] = fields
        return fields

    def _limits_of(self, rules: Rules) -> Limits:
        limits = self._transport.limits
        cap = rules.spec.max_body_bytes
        if cap is None:
            return limits
        return limits._replace(max_body_bytes=cap, max_wire_bytes=max(cap, limits.max_wire_bytes))


def _refused_hop(
    url: str, cookie: str, made: list[tuple[str, str]], entry: Entry
) -> tuple[Reason, str] | None:
    """Why a hop to the same URL is not followed; None: it is.

    Args:
        url: as it is spelled now.
        cookie: the Cookie line it would be asked with.
        made: URLs and Cookie lines of the requests of this attempt.
        entry: robots.txt, which may name the spelling.
    """
    if any(url == past and same_cookies(cookie, brought) for past, brought in made):
        return Reason.TOO_MANY_REDIRECTS, "a loop: redirects to itself"
    if len(made) > MAX_SAME_URL_HOPS:
        return Reason.TOO_MANY_REDIRECTS, "redirects to itself, with ever other cookies"
    if entry.robots is not None and not is_allowed(entry.robots, path_of(url)):
        return Reason.ROBOTS_DENIED, f"redirects to {url}, disallowed by robots.txt"
    return None


def _redirected(
    request: FetchRequest,
    redirect: Redirect,
    builder: ResultBuilder,
    counts: dict[str, int],
    now_ms: int,
) -> tuple[Out, ...]:
    """Note a redirect in its result; gives the message for its target, if it is followed."""
    counts["redirects"] = 1
    target = redirect.target
    if target is not None:
        builder.record["location"] = target.href
    if target is None or not redirect.followed:
        counts["redirects_refused"] = 1
        return ()
    builder.record["redirect_followed"] = True
    return (redirect_message(request, target, scope_host=redirect.scope_host, now_ms=now_ms),)


def _now_ms() -> int:
    return int(time.time() * 1000)
