"""What was in flight when a fault struck: snapshots of offsets, judged at the end.

Of fetchers: a request is in flight at a snapshot when a message for it that was due is not covered
by the commits (below the offset, or in the metadata), lies below the end of its log, and was worked
on: its URL was requested from the site within `WINDOW_S` before (longer than a fetch, its delivery
and a commit interval take, or than the lease lasts while the broker is away), or it was moved to a
retry tier, where a later message asks for the same attempt.

Of dedup: a URL is in flight when a request for it is in `fetch-requests` and its row not in the
changelog.

A URL counts with the requests that are still to be made for it: one, or more when it fails.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from aiokafka.errors import KafkaError

from schemas import codec
from schemas.errors import TransientInfraError
from schemas.topics import (
    DEDUP_APP,
    FETCH_REQUESTS,
    FETCHER_GROUP,
    RETRY_TIERS,
    SEEN_CHANGELOG,
    logical,
    physical,
)
from streams.delivery.ledger import decode_metadata
from streams.kafka.clients import make_admin, started
from streams.kafka.messages import Source
from streams.kafka.reader import Message, TopicReader
from streams.settings import Settings
from tests.chaos.site import Site

WINDOW_S: Final = 16.0
FETCH_TOPICS: Final = (FETCH_REQUESTS, *RETRY_TIERS)


class Snapshot(NamedTuple):
    """Offsets at the time of a fault. `since` to `at`: when requests count as recent."""

    why: str
    roles: frozenset[str]
    """Whose work may be repeated: fetcher, dedup."""
    since: float
    at: float
    committed: Mapping[Source, tuple[int, str]]
    ends: Mapping[Source, int]
    ahead_s: float
    """How far the clock of a process may be ahead: what it thought due."""


class Asked(NamedTuple):
    """A message that asks for a fetch."""

    source: Source
    offset: int
    timestamp_ms: int
    request: dict[str, Any]


class Watch:
    """Takes snapshots."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.snapshots: list[Snapshot] = []
        self.clock_steps: list[tuple[float, float]] = []
        """When, and by how much, a clock stepped."""

    async def take(self, why: str, roles: Iterable[str], since: float | None = None) -> None:
        """A snapshot, tried until the broker answers."""
        struck = time.time()
        while True:
            try:
                async with asyncio.timeout(10.0):
                    committed = await self._committed()
                    ends = await self._ends()
            except (KafkaError, TransientInfraError, TimeoutError, OSError):
                await asyncio.sleep(0.3)
                continue
            begin = (since or struck) - WINDOW_S
            ahead_s = max((by for at, by in self.clock_steps if at > begin - WINDOW_S), default=0.0)
            self.snapshots.append(
                Snapshot(
                    why,
                    frozenset(roles),
                    begin,
                    time.time(),
                    committed,
                    ends,
                    max(ahead_s, 0.0),
                )
            )
            return

    async def _committed(self) -> dict[Source, tuple[int, str]]:
        prefix = self._settings.topic_prefix
        found: dict[Source, tuple[int, str]] = {}
        async with started(make_admin(self._settings)) as admin:
            for group in (FETCHER_GROUP, DEDUP_APP):
                rows = await admin.list_consumer_group_offsets(physical(group, prefix))
                for partition, row in rows.items():
                    source = Source(logical(partition.topic, prefix), partition.partition)
                    found[source] = (row.offset, row.metadata)
        return found

    async def _ends(self) -> dict[Source, int]:
        async with TopicReader(self._settings, *FETCH_TOPICS, SEEN_CHANGELOG) as reader:
            return await reader.ends()


class Judge:
    """Counts what was in flight, once all topics are read."""

    def __init__(self, site: Site, messages: Mapping[str, list[Message]]) -> None:
        self._site = site
        self._asked: defaultdict[str, list[Asked]] = defaultdict(list)
        for topic in FETCH_TOPICS:
            for message in messages[topic]:
                request = _decode("fetch-request", message.value)
                if request is not None:
                    asked = Asked(message.source, message.offset, message.timestamp_ms, request)
                    self._asked[request["url"]].append(asked)
        self._logged = {
            message.key: message for message in reversed(messages[SEEN_CHANGELOG]) if message.key
        }

    def in_flight(self, snapshot: Snapshot) -> Counter[str]:
        """Requests that this fault may have caused to be made again, by URL."""
        urls: dict[str, int] = {}
        if "fetcher" in snapshot.roles:
            urls |= self._of_fetchers(snapshot)
        if "dedup" in snapshot.roles:
            urls |= self._of_dedup(snapshot)
        return Counter(urls)

    def history(self, url: str) -> str:
        """What is known of a URL, for whoever looks into a failure."""
        asked = [
            f"{one.source.topic}/{one.source.partition}/{one.offset}"
            f" attempt {one.request['attempt']} at {_clock(one.timestamp_ms / 1000)}"
            for one in self._asked[url]
        ]
        hits = [_clock(at) for at in self._site.hits[url]]
        return f"requested at {hits}, by {asked}"

    def _of_fetchers(self, snapshot: Snapshot) -> dict[str, int]:
        found: dict[str, int] = {}
        for url, asked in self._asked.items():
            hits = self._site.hits.get(url, ())
            recent = any(snapshot.since <= at <= snapshot.at for at in hits)
            for one in asked:
                if (
                    one.offset < snapshot.ends.get(one.source, 0)
                    and one.request["not_before"] <= (snapshot.at + snapshot.ahead_s) * 1000
                    and not _covered(snapshot, one.source, one.offset)
                    and (recent or any(_moved(one, later, snapshot) for later in asked))
                ):
                    left = self._site.planned(url) - one.request["attempt"] + 1
                    found[url] = max(found.get(url, 0), left, 1)
        return found

    def _of_dedup(self, snapshot: Snapshot) -> dict[str, int]:
        found: dict[str, int] = {}
        for url, asked in self._asked.items():
            first = [one for one in asked if one.source.topic == FETCH_REQUESTS]
            if any(one.offset < snapshot.ends[one.source] for one in first):
                row = self._logged.get(first[0].request["url_id"])
                if row is None or row.offset >= snapshot.ends[row.source]:
                    found[url] = self._site.planned(url)
        return found


def _moved(one: Asked, later: Asked, snapshot: Snapshot) -> bool:
    """Whether a message was already put on a tier again when the fault struck."""
    return (
        later.request["attempt"] == one.request["attempt"]
        and later.timestamp_ms > one.timestamp_ms
        and later.offset < snapshot.ends.get(later.source, 0)
    )


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _covered(snapshot: Snapshot, source: Source, offset: int) -> bool:
    at, text = snapshot.committed.get(source, (0, ""))
    return offset < at or offset in decode_metadata(at, text).completed


def _decode(name: str, value: bytes | None) -> Any:
    try:
        return codec.decode(name, value or b"")
    except Exception:  # noqa: BLE001 - garbage is part of the run
        return None
