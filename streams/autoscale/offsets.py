"""Reads a group's offsets and membership from Kafka, without joining it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from schemas.errors import TransientInfraError
from schemas.topics import physical
from streams.autoscale.roles import Role
from streams.autoscale.signals import Snapshot
from streams.delivery.ledger import decode_metadata
from streams.kafka.clients import make_admin, make_consumer
from streams.settings import Settings

_MOVING = frozenset({"PreparingRebalance", "CompletingRebalance"})


class GroupOffsets:
    """Two idle connections to Kafka: one for groups, one for log starts and ends.

    `members` has the size of each group, by its logical name, as of the last read.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.members: dict[str, int] = {}
        self._settings = settings
        self._clock = clock
        self._admin: Any = None
        self._consumer: Any = None

    async def read(self, role: Role) -> Snapshot:
        """Offsets of a role's group now.

        Raises TransientInfraError when Kafka does not answer within 20 s; the next call connects
        anew.
        """
        try:
            async with asyncio.timeout(20):
                await self._connect()
                return await self._snapshot(role)
        except (KafkaError, OSError, TimeoutError, ValueError) as error:
            await self.close()
            raise TransientInfraError(f"offsets of {role.group}: {error!r}") from error

    async def close(self) -> None:
        """Drop the connections."""
        admin, consumer = self._admin, self._consumer
        self._admin = self._consumer = None
        if admin is not None:
            await admin.close()
        if consumer is not None:
            await consumer.stop()

    async def _connect(self) -> None:
        if self._admin is None:
            admin = make_admin(self._settings)
            try:
                await admin.start()
            except BaseException:
                await admin.close()
                raise
            self._admin = admin
        if self._consumer is None:
            consumer = make_consumer(self._settings)
            try:
                await consumer.start()
            except BaseException:
                await consumer.stop()
                raise
            self._consumer = consumer

    async def _snapshot(self, role: Role) -> Snapshot:
        group = physical(role.group, self._settings.topic_prefix)
        topic = physical(role.topic, self._settings.topic_prefix)
        partitions = await self._partitions(topic)
        members, rebalancing = await self._membership(group)
        self.members[role.group] = members
        # Commits before ends: the lag is then never too small.
        found = await self._admin.list_consumer_group_offsets(group, partitions=partitions)
        starts = await self._consumer.beginning_offsets(partitions)
        committed: dict[int, int] = {}
        completed_ahead: dict[int, int] = {}
        for item in partitions:
            start, offset, ahead = int(starts[item]), -1, frozenset[int]()
            if item in found and found[item].offset >= 0:
                offset = int(found[item].offset)
                ahead = decode_metadata(offset, found[item].metadata).completed
            # What retention removed is no backlog.
            committed[item.partition] = max(start, offset)
            completed_ahead[item.partition] = sum(done >= start for done in ahead)
        ends = await self._consumer.end_offsets(partitions)
        return Snapshot(
            at=self._clock(),
            ends={item.partition: int(offset) for item, offset in ends.items()},
            committed=committed,
            members=members,
            rebalancing=rebalancing,
            completed_ahead=completed_ahead,
        )

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        for described in await self._admin.describe_topics([topic]):
            if described.get("error_code"):
                raise ValueError(f"topic {topic}: Kafka error {described['error_code']}")
            return [TopicPartition(topic, item["partition"]) for item in described["partitions"]]
        raise ValueError(f"no topic {topic}")

    async def _membership(self, group: str) -> tuple[int, bool]:
        """Members of a group and whether it is rebalancing. A group of no one is not an error."""
        for response in await self._admin.describe_consumer_groups([group]):
            for described in response.to_object()["groups"]:
                if described["error_code"]:
                    raise ValueError(f"group {group}: Kafka error {described['error_code']}")
                return len(described["members"]), described["state"] in _MOVING
        raise ValueError(f"no description of group {group}")
