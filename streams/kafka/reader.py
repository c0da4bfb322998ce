"""Reading topics without a group, and records as JSON lines.

A reader here assigns partitions by hand and commits nothing: any number of them may look at a
topic without disturbing each other or the pipeline.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, Self

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from schemas.errors import ConfigError, TransientInfraError
from schemas.topics import physical
from streams.kafka.clients import make_admin, make_consumer, started
from streams.kafka.messages import Names, Source
from streams.settings import Settings

_JSON_FIELDS: Final = ("json_ld", "microdata", "extracted")


class Message(NamedTuple):
    """One message of a topic, by the topic's logical name."""

    source: Source
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...]


async def partitions_of(settings: Settings, topics: Iterable[str]) -> tuple[Source, ...]:
    """All partitions of some topics. Raises ConfigError when one does not exist.

    Raises TransientInfraError when Kafka does not answer.
    """
    names = {physical(topic, settings.topic_prefix): topic for topic in topics}
    try:
        # All are asked for: a broker that creates topics by itself would create what is named.
        async with started(make_admin(settings)) as admin:
            described = await admin.describe_topics()
    except KafkaError as error:
        raise TransientInfraError(f"Kafka does not answer: {error!r}") from error
    found = {
        row["topic"]: len(row["partitions"])
        for row in described
        if row["topic"] in names and not row["error_code"]
    }
    missing = sorted(names.keys() - found.keys())
    if missing:
        raise ConfigError(f"no topic {', '.join(missing)}: run `crawl topics create`")
    return tuple(
        Source(names[name], number) for name in sorted(found) for number in range(found[name])
    )


class TopicReader:
    """Reads partitions from positions of the caller's choice; an async context manager.

    Args:
        settings: of the deployment.
        topics: logical names; all their partitions are read.
    """

    def __init__(self, settings: Settings, *topics: str) -> None:
        self._settings = settings
        self._topics = topics
        self._names = Names(settings.topic_prefix)
        self.sources: tuple[Source, ...] = ()
        """What may be read, once entered."""

    async def __aenter__(self) -> Self:
        self.sources = await partitions_of(self._settings, self._topics)
        self._consumer = make_consumer(self._settings)
        try:
            await self._consumer.start()
        except KafkaError as error:
            await self._consumer.stop()
            raise TransientInfraError(f"Kafka does not answer: {error!r}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._consumer.stop()

    async def starts(self) -> dict[Source, int]:
        """Offset of the oldest message kept, by partition."""
        return self._named(await self._consumer.beginning_offsets(self._kafka(self.sources)))

    async def ends(self) -> dict[Source, int]:
        """Offset that the next message will have, by partition."""
        return self._named(await self._consumer.end_offsets(self._kafka(self.sources)))

    async def at_time(self, timestamp_ms: int) -> dict[Source, int]:
        """Offset of the first message not older than a time; the end where there is none."""
        wanted = dict.fromkeys(self._kafka(self.sources), timestamp_ms)
        found = await self._consumer.offsets_for_times(wanted)
        ends = await self.ends()
        return ends | {
            self._names.source(partition): row.offset
            for partition, row in found.items()
            if row is not None
        }

    async def follow(
        self, positions: Mapping[Source, int], *, wait_s: float = 0.5
    ) -> AsyncIterator[list[Message]]:
        """Batches from these positions on, for ever; an empty batch after `wait_s` of silence."""
        self._seek(positions)
        while True:
            yield await self._poll(wait_s)

    async def bounded(
        self, positions: Mapping[Source, int], ends: Mapping[Source, int]
    ) -> AsyncIterator[Message]:
        """Messages from these positions up to, not including, these ends, then stop.

        Positions below the log's start begin at the start: `auto_offset_reset` is `earliest`.
        """
        left = {source: ends[source] for source, at in positions.items() if at < ends[source]}
        self._seek({source: positions[source] for source in left})
        while left:
            for message in await self._poll(0.5):
                if message.offset < left.get(message.source, 0):
                    yield message
            for source, end in tuple(left.items()):
                if await self._consumer.position(self._names.partition(source)) >= end:
                    del left[source]

    def _seek(self, positions: Mapping[Source, int]) -> None:
        partitions = self._kafka(positions)
        if partitions:
            self._consumer.assign(partitions)
        for partition in partitions:
            self._consumer.seek(partition, positions[self._names.source(partition)])

    async def _poll(self, wait_s: float) -> list[Message]:
        batches = await self._consumer.getmany(timeout_ms=int(wait_s * 1000))
        return [
            Message(
                self._names.source(partition),
                row.offset,
                row.key,
                row.value,
                row.timestamp,
                tuple(row.headers),
            )
            for partition, rows in batches.items()
            for row in rows
        ]

    def _kafka(self, sources: Iterable[Source]) -> list[TopicPartition]:
        return [self._names.partition(source) for source in sources]

    def _named(self, offsets: Mapping[TopicPartition, int]) -> dict[Source, int]:
        return {self._names.source(partition): offset for partition, offset in offsets.items()}


def to_json(record: Mapping[str, Any], fields: Sequence[str] = ()) -> dict[str, Any]:
    """A decoded record as JSON has it.

    Bytes (ids, hashes) become lower-case hexadecimal. Fields that hold JSON text (`json_ld`,
    `microdata`, `extracted`) become what they hold, or stay text when they do not parse.
    Instants stay integer milliseconds since the epoch.

    Args:
        record: as decoded from its topic.
        fields: names to keep, in this order; empty: all.
    """
    names = fields or tuple(record)
    return {name: _json_value(name, record[name]) for name in names}


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if name in _JSON_FIELDS and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def brief(record: Mapping[str, Any]) -> str:
    """A record in one short line, for people."""
    what = record["title"] or record["location"] or record["content_type"]
    return f"{record['status']} {record['kind']:<8} {record['url']}  {what[:80]}".rstrip()


def unknown_fields(fields: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names that no record has."""
    return sorted(set(fields) - set(known))


class Recent:
    """Remembers the newest ids, to pass each on once under at-least-once delivery.

    Args:
        limit: ids remembered; None: all.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._ids: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ids)

    def first(self, identity: bytes) -> bool:
        """True when this id was not given before (or so long ago that it is forgotten)."""
        if identity in self._ids:
            return False
        self._ids[identity] = None
        if self._limit is not None and len(self._ids) > self._limit:
            self._ids.popitem(last=False)
        return True


class RecordFile:
    """The JSON lines of one crawl, each URL id once, also over several runs into one file.

    A file that exists is continued: the ids in it are not written again. A half line at its end
    (the process was killed) is cut off; its record is read again from the topic.

    Args:
        path: file to write; None: `stream`.
        stream: where to write without a path; None: nowhere, records are only counted.
        fresh: replace the file instead of continuing it.
        show: gets one short line for each record, instead of a file or stream.
    """

    def __init__(
        self,
        path: Path | None,
        stream: IO[str] | None = None,
        *,
        fresh: bool = False,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._seen = Recent()
        self.written = 0
        """Records written by this object; those found in the file are not among them."""
        self._show = show
        self._out = stream
        self._own = path is not None
        if path is not None:
            if not fresh:
                self._continue(path)
            self._out = path.open("w" if fresh else "a", encoding="utf-8")

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, record: Mapping[str, Any]) -> bool:
        """Write a record unless its URL id is there. True when it was written."""
        if not self._seen.first(record["url_id"]):
            return False
        if self._out is not None:
            text = json.dumps(to_json(record), ensure_ascii=False, separators=(",", ":"))
            self._out.write(text + "\n")
        if self._show is not None:
            self._show(brief(record))
        self.written += 1
        return True

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._out is not None:
            self._out.flush()

    def close(self) -> None:
        """Flush, and close a file of our own."""
        self.flush()
        if self._own and self._out is not None:
            self._out.close()

    def _continue(self, path: Path) -> None:
        try:
            data = path.open("rb+")
        except FileNotFoundError:
            return
        with data:
            kept = 0
            for number, line in enumerate(data, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    self._seen.first(bytes.fromhex(json.loads(line)["url_id"]))
                except (ValueError, KeyError, TypeError) as error:
                    raise ConfigError(
                        f"{path}, line {number} is no record: choose another --output"
                    ) from error
                kept += len(line)
            data.truncate(kept)
