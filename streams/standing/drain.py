"""Is the pipeline drained? And how far behind is each stage?

**The decision.** First the commits of all groups are read, then the ends of all consumed topics.
The pipeline is drained when every group has committed up to the end of every partition it
consumes.

This never says drained too early, although neither look is a snapshot. Let T be the moment of the
last commit read: every end is read after T. For each partition, end at T <= end as read = commit
as read <= commit at T. So at T all messages that existed were committed. A stage commits an offset
only after the outputs of everything below it were acknowledged, and those outputs are messages
too. So at T no work was in flight, and without work nothing is produced. Only a producer outside
the pipeline (`crawl seed`) can start it again. Reading the ends first would not do: work begun
before and committed after that look hides its outputs.

A partition without a commit counts from the start of its log, never as caught up: its group may
just be joining. A commit below the start (retention removed what it pointed at) counts from the
start too.

**Retry tiers.** Messages that wait there for their time are not in flight. Each partition's
pending messages are looked at, as many as a fetcher may hold of it, for the earliest `not_before`:
a fetcher starts nothing before that. `now` is read after the looks, so what is not due by `now`
was not due, hence not in flight, at T. Attempts due within the patience keep
the crawl alive; later ones are counted. A URL that was never tried and only waits for its turn at
a busy host (a deferral) always keeps it alive: that is the crawl's ordinary work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

from aiokafka.errors import KafkaError

from schemas import codec
from schemas.errors import ContractError, TransientInfraError
from schemas.records import FetchRequest
from schemas.topics import (
    DEDUP_APP,
    FETCH_REQUESTS,
    FETCH_RESULTS,
    FETCHER_GROUP,
    PARSER_GROUP,
    RETRY_TIERS,
    URLS,
    logical,
    physical,
)
from streams.kafka.clients import make_admin
from streams.kafka.messages import Source
from streams.kafka.reader import TopicReader
from streams.process.clock import now_ms
from streams.settings import Settings

CONSUMED: Final[Mapping[str, tuple[str, ...]]] = {
    DEDUP_APP: (URLS,),
    FETCHER_GROUP: (FETCH_REQUESTS, *RETRY_TIERS),
    PARSER_GROUP: (FETCH_RESULTS,),
}
"""Topics by the group that consumes them; every topic has one."""
STAGES: Final = {DEDUP_APP: "dedup", FETCHER_GROUP: "fetcher", PARSER_GROUP: "parser"}


class Waiting(NamedTuple):
    """The pending messages of one retry partition, as far as they were looked at."""

    first_due_at: int
    """Earliest `not_before`, milliseconds since the epoch; 0: at once, or not readable."""
    turns: int
    """Those that were never tried: deferred because their host was busy."""


class Reading(NamedTuple):
    """Commits, then ends. All mappings are by source partition."""

    starts: Mapping[Source, int]
    committed: Mapping[Source, int]
    """Without an entry: the group has no commit there."""
    ends: Mapping[Source, int]
    waiting: Mapping[Source, Waiting]
    """Of retry partitions with pending messages, when they were looked at."""
    at: int
    """Time after the looks, milliseconds since the epoch."""


class Standing(NamedTuple):
    """What a reading means."""

    drained: bool
    """Nothing is in flight and nothing that we wait for will come."""
    backlog: dict[str, int]
    """Messages not committed, by topic; topics without any are left out."""
    later: int
    """Messages in retry tiers that are due beyond the patience."""
    next_due_at: int | None
    """Earliest attempt in the tiers, milliseconds since the epoch; None: none waits."""


def pending(reading: Reading) -> dict[Source, int]:
    """Messages not committed, by partition; partitions without any are left out."""
    found = {}
    for source, end in reading.ends.items():
        start = reading.starts.get(source, 0)
        count = end - max(reading.committed.get(source, start), start)
        if count > 0:
            found[source] = count
    return found


def in_work(reading: Reading) -> bool:
    """Whether anything outside the retry tiers is under way or unknown."""
    return any(source.topic not in RETRY_TIERS for source in pending(reading))


def decide(reading: Reading, *, patience_s: float, spent: bool = False) -> Standing:
    """Whether the pipeline is drained. Pure; the argument is in the module's docstring.

    Args:
        reading: commits and ends.
        patience_s: how long to wait for retries.
        spent: the page budget is used up, so whatever waits will not be fetched: only what is
            due now, and may be in flight, keeps the crawl alive.
    """
    left = pending(reading)
    backlog: dict[str, int] = {}
    for source, count in left.items():
        backlog[source.topic] = backlog.get(source.topic, 0) + count
    horizon = reading.at + (0 if spent else int(patience_s * 1000))
    alive, later, dues = in_work(reading), 0, []
    for source, count in left.items():
        if source.topic not in RETRY_TIERS:
            continue
        waiting = reading.waiting.get(source, Waiting(0, 0))
        dues.append(waiting.first_due_at)
        if waiting.first_due_at <= horizon or (waiting.turns and not spent):
            alive = True
        else:
            later += count
    return Standing(not alive, backlog, later, min(dues, default=None))


def waits_its_turn(request: FetchRequest) -> bool:
    """Whether a request in a retry tier was moved there untried, because its host was busy."""
    untried = request["attempt"] == 1 and request["deferrals"] > 0
    return untried and not request["first_reason"] and not request["last_reason"]


class PipelineReader:
    """Takes readings; an async context manager that holds the clients."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topics = tuple(topic for topics in CONSUMED.values() for topic in topics)
        self._reader = TopicReader(settings, *self._topics)
        self._known: dict[Source, tuple[int, int, Waiting]] = {}

    async def __aenter__(self) -> Self:
        await self._reader.__aenter__()
        self._admin = make_admin(self._settings)
        try:
            await self._admin.start()
        except KafkaError as error:
            await self.__aexit__()
            raise TransientInfraError(f"Kafka does not answer: {error!r}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._admin.close()
        await self._reader.__aexit__(None, None, None)

    async def read(self) -> Reading:
        """One reading. Raises TransientInfraError when Kafka does not answer.

        The retry tiers are looked into only when everything else is quiet.
        """
        try:
            starts = await self._reader.starts()
            committed = await self.committed()
            ends = await self._reader.ends()
            reading = Reading(starts, committed, ends, {}, now_ms())
            if in_work(reading):
                return reading
            return reading._replace(waiting=await self._look_at_tiers(reading))
        except KafkaError as error:
            raise TransientInfraError(f"Kafka does not answer: {error!r}") from error

    async def committed(self) -> dict[Source, int]:
        """Committed offsets of all groups; partitions without a commit are left out."""
        found: dict[Source, int] = {}
        prefix = self._settings.topic_prefix
        for group, topics in CONSUMED.items():
            rows = await self._admin.list_consumer_group_offsets(physical(group, prefix))
            for partition, row in rows.items():
                source = Source(logical(partition.topic, prefix), partition.partition)
                if source.topic in topics and row.offset >= 0:
                    found[source] = row.offset
        return found

    async def oldest_ms(self, reading: Reading) -> dict[str, int]:
        """Time of the oldest message not committed, by topic, milliseconds since the epoch."""
        oldest: dict[str, int] = {}
        heads = {source: reading.ends[source] - n for source, n in pending(reading).items()}
        stops = {source: head + 1 for source, head in heads.items()}
        async for message in self._reader.bounded(heads, stops):
            known = oldest.get(message.source.topic, message.timestamp_ms)
            oldest[message.source.topic] = min(known, message.timestamp_ms)
        return oldest

    async def _look_at_tiers(self, reading: Reading) -> dict[Source, Waiting]:
        found: dict[Source, Waiting] = {}
        positions: dict[Source, int] = {}
        for source, count in pending(reading).items():
            end = reading.ends[source]
            known = self._known.get(source)
            if known is not None and known[:2] == (end - count, end):
                found[source] = known[2]
            else:
                positions[source] = end - count
        stops = {
            source: min(reading.ends[source], at + self._settings.window)
            for source, at in positions.items()
        }
        values: dict[Source, list[bytes | None]] = {source: [] for source in positions}
        async for message in self._reader.bounded(positions, stops):
            values[message.source].append(message.value)
        for source, at in positions.items():
            found[source] = summarise(values[source])
            self._known[source] = (at, reading.ends[source], found[source])
        return found


def summarise(values: Sequence[bytes | None]) -> Waiting:
    """What the pending messages of a retry partition wait for.

    No message, or one that cannot be read, counts as due at once: its fetcher will dead-letter it.
    """
    first, turns = None, 0
    for value in values:
        try:
            request: FetchRequest = codec.decode("fetch-request", value or b"")
        except ContractError:
            return Waiting(0, 0)
        due = request["not_before"]
        first = due if first is None else min(first, due)
        turns += waits_its_turn(request)
    return Waiting(first or 0, turns)
