"""Records of one crawl, collected once, over the end of the follower and the last look."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaError

from schemas.errors import DecodeError, TransientInfraError
from schemas.topics import RECORDS
from streams.kafka.messages import Source
from streams.kafka.reader import Message, TopicReader
from streams.run.collect import Collector
from streams.run.output import RecordFile

HERE = Source(RECORDS, 0)


class FakeReader:
    """A topic of one partition."""

    def __init__(self, values: list[bytes | None]) -> None:
        self.values = values
        self.broken = False

    def _message(self, offset: int) -> Message:
        return Message(HERE, offset, None, self.values[offset], 0, ())

    async def ends(self) -> dict[Source, int]:
        if self.broken:
            raise KafkaError
        return {HERE: len(self.values)}

    async def follow(self, positions: Mapping[Source, int]) -> AsyncIterator[list[Message]]:
        at = positions[HERE]
        while True:
            yield [self._message(offset) for offset in range(at, len(self.values))]
            at = len(self.values)
            await asyncio.sleep(0)

    async def bounded(
        self, positions: Mapping[Source, int], ends: Mapping[Source, int]
    ) -> AsyncIterator[Message]:
        for offset in range(positions[HERE], ends[HERE]):
            yield self._message(offset)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages as JSON: what a record holds is not the matter here."""

    def decode(_: str, data: bytes) -> Any:
        if not data:
            raise DecodeError("nothing")
        row = json.loads(data)
        return row | {"url_id": bytes.fromhex(row["url_id"])}

    monkeypatch.setattr("streams.run.collect.codec.decode", decode)


def value(number: int, crawl: str = "c") -> bytes:
    return json.dumps({"crawl": crawl, "url_id": f"{number:032x}"}).encode()


def collector(reader: FakeReader, file: RecordFile, start: int = 0) -> Collector:
    return Collector(cast("TopicReader", reader), {HERE: start}, "c", file)


async def _follow(wanted: Collector) -> None:
    task = asyncio.create_task(wanted.run())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("plain")
async def test_follows_then_finishes_without_a_gap_or_a_repetition(tmp_path: Path) -> None:
    reader = FakeReader([value(1), value(2, "other"), value(1), value(3)])
    file = RecordFile(tmp_path / "x.jsonl")
    wanted = collector(reader, file)
    await _follow(wanted)
    reader.values += [value(4), value(3)]
    await wanted.finish()
    file.close()
    rows = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [int(json.loads(row)["url_id"], 16) for row in rows] == [1, 3, 4]
    assert (file.written, wanted.unreadable) == (3, 0)


@pytest.mark.usefixtures("plain")
async def test_begins_where_it_is_told() -> None:
    file = RecordFile(None)
    wanted = collector(FakeReader([value(1), value(2)]), file, start=1)
    await wanted.finish()
    assert file.written == 1


@pytest.mark.usefixtures("plain")
async def test_what_is_no_record_is_counted() -> None:
    file = RecordFile(None)
    wanted = collector(FakeReader([None, value(1)]), file)
    await wanted.finish()
    assert (file.written, wanted.unreadable) == (1, 1)


async def test_kafka_that_does_not_answer_is_told() -> None:
    reader = FakeReader([])
    reader.broken = True
    with pytest.raises(TransientInfraError):
        await collector(reader, RecordFile(None)).finish()
