"""The shell of politeness: when a request goes out, and what its answer teaches about the host."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

from fetchers.policy import breaker as breakers
from fetchers.policy import politeness
from fetchers.policy.retry import scale_of
from fetchers.policy.retry_after import wait_s
from fetchers.worker.messages import retry_after_of
from schemas.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from fetchers.http.answer import Answer
    from fetchers.policy.robots import Robots
    from fetchers.policy.window import Host, Window
    from fetchers.worker.work import Work
    from schemas.crawl import CrawlSpec
    from streams.settings import Settings

_TIMED_OUT: Final = frozenset(
    {Reason.CONNECT_TIMEOUT, Reason.FIRST_BYTE_TIMEOUT, Reason.DNS_TEMPORARY}
)


def chance() -> float:
    """A random number in [0, 1) for spreading load."""
    return random.random()  # noqa: S311 - nothing depends on its being secret


class Pacing:
    """Begins requests and learns from answers, on the hosts of one window.

    `wake` is called when a host may begin another request beside one that was just begun.
    """

    def __init__(self, settings: Settings, window: Window[Work], wake: Callable[[], None]) -> None:
        self._cap_s = settings.crawl_delay_cap_s
        self._scale = scale_of(settings.retry_tiers_s)
        self._window = window
        self._wake = wake
        self.finished = 0
        """Requests that ended, and those of them that timed out, since someone set these to 0."""
        self.timed_out = 0

    def begin(self, host: Host[Work]) -> None:
        """A request goes out now."""
        self._window.begin(host, now=time.monotonic(), jitter=chance())
        if host.parallel > 1 and host.queue:
            self._wake()

    async def wait_for_turn(self, host: Host[Work]) -> None:
        """Begin a further request of a host that has one in flight: one delay after the last.

        Others may begin while this one waits.
        """
        while (wait_s := host.pace.next_at - time.monotonic()) > 0:  # noqa: ASYNC110 - it is due
            await asyncio.sleep(wait_s)
        self.begin(host)

    async def wait_for_other(self, key: str) -> None:
        """Begin a request to a host by its key, when it is one of ours; else return at once.

        For a robots.txt that redirects to another host: that host is asked politely too.
        """
        other = self._window.hosts.get(key)
        if other is not None:
            await self.wait_for_turn(other)

    def set_delay(self, host: Host[Work], setting_s: float) -> None:
        """Set the delay that the crawls of a host ask for."""
        host.setting_s = setting_s
        host.delay_s = politeness.base_delay(setting_s, host.crawl_delay_s, self._cap_s)

    def obey(self, host: Host[Work], robots: Robots, sent_at: float) -> None:
        """Take up the Crawl-delay of a robots.txt that was just read, from its own request on."""
        host.crawl_delay_s = robots.crawl_delay_s
        self.set_delay(host, host.setting_s)
        next_at = max(host.pace.next_at, sent_at + host.delay_s)
        host.pace = host.pace._replace(next_at=next_at)

    def learn(self, host: Host[Work], answer: Answer, spec: CrawlSpec, held: list[str]) -> None:
        """Take in an answer, or its absence.

        Args:
            host: that was asked.
            answer: what it gave.
            spec: of the crawl that asked.
            held: one text: the address that the request counts under; set when it is new.
        """
        now = answer.ended_at
        self.finished += 1
        self.timed_out += answer.reason in _TIMED_OUT
        host.took(now - answer.began_at)
        if answer.address and not held[0]:
            held[0] = self._window.hold_address(host, answer.address)
        elif answer.address:
            host.address = answer.address
        if answer.status:
            host.breaker = breakers.answered(host.breaker)
        elif answer.reason is not None:
            host.breaker = breakers.failed(
                host.breaker, answer.reason, now=now, jitter=chance(), scale=self._scale
            )
        host.pace = politeness.finished(
            host.pace,
            sent_at=answer.sent_at,
            now=now,
            adaptive_factor=spec.adaptive_factor,
            parallel=host.parallel,
            adapt=host.setting_s > 0,
        )
        if answer.status in (429, 503):
            self._push_back(host, answer, now)
        elif answer.status:
            host.pace = politeness.welcomed(host.pace)

    def _push_back(self, host: Host[Work], answer: Answer, now: float) -> None:
        after, date = retry_after_of(answer.headers)
        host.pace = politeness.pushed_back(
            host.pace,
            delay_s=host.delay_s,
            retry_after_s=wait_s(after, date=date, now=time.time()),
            now=now,
            jitter=chance(),
            scale=self._scale,
        )
