"""Where a message comes from and what one is made of, in logical names."""

from __future__ import annotations

from typing import NamedTuple

from aiokafka import TopicPartition

from schemas.topics import logical, physical


class Source(NamedTuple):
    """A source partition, by the topic's logical name."""

    topic: str
    partition: int


class Out(NamedTuple):
    """A message to produce. `topic` is logical; the partition is `partition_of(key)`."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Names:
    """Partitions by their logical and their physical names.

    Args:
        prefix: of the deployment's topics.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._partitions: dict[Source, TopicPartition] = {}

    def partition(self, source: Source) -> TopicPartition:
        """As the clients want it."""
        found = self._partitions.get(source)
        if found is None:
            topic = physical(source.topic, self._prefix)
            found = self._partitions[source] = TopicPartition(topic, source.partition)
        return found

    def source(self, partition: TopicPartition) -> Source:
        """As we call it."""
        return Source(logical(partition.topic, self._prefix), partition.partition)
