"""robots.txt of each scheme, host and port: fetched once, kept for a day, never guessed.

A file that cannot be reached denies everything for now (RFC 9309 section 2.3.1.4) and is asked
for again after a pause that doubles; a copy read before stays in use meanwhile. Age is elapsed
time, so that a step of the wall clock neither keeps a file nor drops all of them at once.

A file is read while it arrives, so only its rules are ever in memory. One that breaks off was not
received and counts as unreachable, however much came: what is missing may be what forbids. One that
is longer than what is read, or takes longer than the deadline, will be so the next time as well;
what was read of it is obeyed if it is what the RFC asks for at least.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from fetchers.policy.head import Head, header
from fetchers.policy.outcome import REDIRECT_STATUSES, resolve_location
from fetchers.policy.retry_after import wait_s
from fetchers.policy.robots import (
    ALLOW_ALL,
    MAX_REDIRECTS,
    Robots,
    judge_answer,
    weight_of,
)
from fetchers.policy.robots_file import MAX_BYTES, MIN_BYTES, Bound, RobotsReader
from fetchers.worker.messages import retry_after_of
from schemas.url import CrawlUrl
from schemas.url import parse as parse_url

if TYPE_CHECKING:
    from fetchers.http.answer import Answer, Limits
    from fetchers.http.transport import Transport
    from schemas.reasons import Reason

MAX_ENTRIES: Final = 50_000
MAX_WEIGHT: Final = 128 * 1024 * 1024
"""About what all entries may take in memory, in bytes."""
ENTRY_WEIGHT: Final = 1024
"""About what an entry without rules takes."""
RETRY_S: Final = 60.0
"""Pause after a first unreachable robots.txt; doubles up to `MAX_RETRY_S`."""
MAX_RETRY_S: Final = 3_600.0
_STEP_BYTES = 64 * 1024
"""Read at once; then others have a turn, since a small body may decode to a long file."""


@dataclass(slots=True)
class Entry:
    """What is known of one robots.txt for one product token.

    `robots` None: nothing was ever read. `expires_at`: when to ask again, monotonic. `denied`:
    unreachable, and no copy to use; `reason` and `detail` say why. `told`: crawls that got its
    sitemaps.
    """

    robots: Robots | None = None
    expires_at: float = 0.0
    denied: bool = False
    reason: Reason | None = None
    detail: str = ""
    strikes: int = 0
    sitemaps: tuple[str, ...] = ()
    told: set[str] = field(default_factory=set)
    weight: int = ENTRY_WEIGHT


@dataclass(frozen=True, slots=True)
class RobotsFetch:
    """How a robots.txt was fetched: the last answer, and how many requests it took.

    `exceeded`: bounds because of which not all of the file is obeyed.
    """

    answer: Answer
    requests: int
    url: str
    exceeded: frozenset[Bound] = frozenset()


BeforeHop = Callable[[str], Awaitable[None]]
"""Awaited before a redirect of robots.txt is followed to a host (key), so that it is asked
politely too."""


class RobotsCache:
    """All robots.txt files of this process, bounded in number and in size."""

    def __init__(self, transport: Transport, *, ttl_s: float, scale: float = 1.0) -> None:
        self._transport = transport
        self._ttl_s = ttl_s
        self._scale = scale
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._weight = 0
        limits = transport.limits
        self._limits: Limits = limits._replace(
            max_body_bytes=MAX_BYTES + 1, max_wire_bytes=MAX_BYTES, stream_bytes=MIN_BYTES
        )

    def fresh(self, origin: str, agent: str, now: float) -> Entry | None:
        """What is known and need not be asked for again; None: fetch it first.

        Args:
            origin: scheme, host and port (`schemas.url.origin_of`).
            agent: product token.
            now: monotonic seconds.
        """
        entry = self._entries.get((origin, agent))
        if entry is None or entry.expires_at <= now:
            return None
        self._entries.move_to_end((origin, agent))
        return entry

    async def fetch(
        self, origin: str, agent: str, fields: bytes, before_hop: BeforeHop
    ) -> tuple[Entry, RobotsFetch]:
        """Ask for a robots.txt and remember what came of it. Never raises for the web's faults.

        The caller sees to it that nobody else asks for the same one at the same time.
        """
        fetched, robots = await self._follow(origin, agent, fields, before_hop)
        now = time.monotonic()
        entry = self._remembered(origin, agent)
        answer = fetched.answer
        failed = answer.reason is not None and not answer.status
        after, date = retry_after_of(answer.headers)
        asked_s = wait_s(after, date=date, now=time.time())
        judged = judge_answer(None if failed else answer.status, asked_s)
        if answer.reason is not None and answer.status and judged.use == "rules":
            judged = judge_answer(None)
        if judged.use == "deny":
            entry.strikes += 1
            doubled = RETRY_S * 2.0 ** min(entry.strikes - 1, 12)
            pause_s = min(doubled, MAX_RETRY_S) * self._scale
            if judged.retry_s is not None:
                pause_s = max(judged.retry_s, 1.0)
            entry.denied = entry.robots is None
            entry.reason = answer.reason
            entry.detail = answer.detail or f"status {answer.status}"
            entry.expires_at = now + min(pause_s, self._ttl_s)
            return entry, fetched
        self._keep(entry, robots if judged.use == "rules" else ALLOW_ALL, fetched.url, now)
        return entry, fetched

    def sitemaps_for(self, entry: Entry, crawl: str) -> list[str]:
        """Absolute sitemap URLs to pass on with the next result of a crawl; once each crawl."""
        if not entry.sitemaps or crawl in entry.told:
            return []
        entry.told.add(crawl)
        return list(entry.sitemaps)

    async def _follow(
        self, origin: str, agent: str, fields: bytes, before_hop: BeforeHop
    ) -> tuple[RobotsFetch, Robots]:
        """Fetch the file; gives the rules as well, which mean something after a success alone."""
        host = ""
        url = f"{origin}/robots.txt"
        for hop in range(MAX_REDIRECTS + 1):
            target = parse_url(url)
            assert isinstance(target, CrawlUrl)
            if host and target.host != host:
                await before_hop(target.host)
            host = target.host
            reader = RobotsReader(agent, origin)
            answer = await self._transport.fetch(
                target.href, fields, _Reading(reader), limits=self._limits, judge=_judge
            )
            fetched = RobotsFetch(answer, hop + 1, target.href)
            if answer.reason is not None:
                break
            if answer.status not in REDIRECT_STATUSES:
                robots = reader.finish(cut=answer.truncated)
                return replace(fetched, exceeded=reader.exceeded), robots
            location = resolve_location(header(answer.headers, "location") or "", target.href)
            if not isinstance(location, CrawlUrl) or location.href == target.href:
                break
            url = location.href
        return fetched, ALLOW_ALL

    def _remembered(self, origin: str, agent: str) -> Entry:
        key = (origin, agent)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry()
            self._weight += entry.weight
        self._entries.move_to_end(key)
        self._trim()
        return entry

    def _trim(self) -> None:
        """Forget what was used longest ago; never the newest, which someone is about to use."""
        while len(self._entries) > 1 and (
            len(self._entries) > MAX_ENTRIES or self._weight > MAX_WEIGHT
        ):
            _, dropped = self._entries.popitem(last=False)
            self._weight -= dropped.weight

    def _keep(self, entry: Entry, robots: Robots, base: str, now: float) -> None:
        entry.robots = robots._replace(sitemaps=())
        entry.denied = False
        entry.strikes = 0
        entry.expires_at = now + self._ttl_s
        entry.told = set()
        entry.sitemaps = tuple(
            dict.fromkeys(
                found.href
                for line in robots.sitemaps
                if isinstance(found := parse_url(line, base), CrawlUrl)
            )
        )
        self._weight -= entry.weight
        entry.weight = ENTRY_WEIGHT + robots.weight + sum(map(weight_of, entry.sitemaps))
        self._weight += entry.weight
        self._trim()


class _Reading:
    """Hands a body to its reader in steps."""

    def __init__(self, reader: RobotsReader) -> None:
        self._reader = reader

    @property
    def size(self) -> int:
        """See Sink."""
        return self._reader.size

    async def write(self, piece: bytes) -> None:
        """See Sink."""
        for at in range(0, len(piece), _STEP_BYTES):
            self._reader.feed(piece[at : at + _STEP_BYTES])
            await asyncio.sleep(0)


def _judge(head: Head) -> Reason | bool:
    return 200 <= head.status < 300
