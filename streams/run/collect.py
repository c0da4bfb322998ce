"""The records of one crawl, from the topic to the output while the crawl runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiokafka.errors import KafkaError

from schemas import codec
from schemas.errors import ContractError, TransientInfraError
from schemas.records import Record
from streams.kafka.messages import Source
from streams.kafka.reader import Message, TopicReader
from streams.run.output import RecordFile


class Collector:
    """Writes each record of a crawl once.

    Args:
        reader: of topic `records`, entered.
        positions: where to begin.
        crawl: whose records.
        file: where they go.
    """

    def __init__(
        self, reader: TopicReader, positions: Mapping[Source, int], crawl: str, file: RecordFile
    ) -> None:
        self._reader = reader
        self._positions = dict(positions)
        self._crawl = crawl
        self._file = file
        self.unreadable = 0
        """Messages that are no records."""

    async def run(self) -> None:
        """Follow the topic until cancelled."""
        async for messages in self._reader.follow(self._positions):
            self._take(messages)
            self._file.flush()

    async def finish(self) -> None:
        """Read on to the present end; `run` was cancelled. Raises TransientInfraError."""
        try:
            ends = await self._reader.ends()
            async for message in self._reader.bounded(self._positions, ends):
                self._take((message,))
        except KafkaError as error:
            raise TransientInfraError(f"Kafka does not answer: {error!r}") from error
        self._file.flush()

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._positions[message.source] = message.offset + 1
            try:
                record: Record = codec.decode("record", message.value or b"")
            except ContractError:
                self.unreadable += 1
                continue
            if record["crawl"] == self._crawl:
                self._file.add(record)
