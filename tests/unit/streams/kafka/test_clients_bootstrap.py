"""A broker that is not yet part of its own cluster is no broker: clients do not begin with it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.structs import BrokerMetadata

from streams.kafka import clients
from streams.kafka.clients import make_admin, make_consumer, make_producer, started
from streams.settings import Settings, load
from streams.telemetry.outage_filter import OutageFilter

_METADATA: Final = 3
_API_VERSIONS: Final = 18


@pytest.fixture
async def lonely() -> AsyncIterator[Settings]:
    """Answers as Kafka does while it starts: here I am, and I know of no broker."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            request = await reader.readexactly(int.from_bytes(size))
            key, _, correlation = struct.unpack_from(">hhi", request)
            if key == _API_VERSIONS:
                versions = [(_METADATA, 0, 1), (_API_VERSIONS, 0, 0)]
                body = struct.pack(">hi", 0, len(versions))
                body += b"".join(struct.pack(">hhh", *row) for row in versions)
            else:
                body = struct.pack(">iii", 0, -1, 0)
            writer.write(struct.pack(">ii", len(body) + 4, correlation) + body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield load({}, bootstrap_servers=f"127.0.0.1:{port}")
    server.close()


@pytest.mark.parametrize("make", [make_admin, make_consumer, make_producer])
async def test_a_cluster_without_brokers_does_not_answer(
    lonely: Settings, make: Callable[[Settings], Any]
) -> None:
    """aiokafka would begin, and once the connection breaks ask nobody, without any pause."""
    with pytest.raises(KafkaConnectionError, match="no broker"):
        async with asyncio.timeout(20.0), started(make(lonely)):
            pass


class FakeCluster:
    """Metadata of one topic."""

    def __init__(self, leader: int | None) -> None:
        self.leader = leader

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1} if topic == "t" else None

    def leader_for_partition(self, partition: Any) -> int | None:
        return self.leader if partition.partition else 1

    def brokers(self) -> set[Any]:
        return {BrokerMetadata(1, "a.example", 9092, None)}


class FakeClient:
    """As much of a client as is corrected."""

    hosts: Final = [("a.example", 9092, 0)]

    def __init__(self, *, updates: bool = True, leader: int | None = 1) -> None:
        self.cluster = FakeCluster(leader)
        self.updates = updates
        self._conns: dict[Any, Any] = {}

    async def bootstrap(self) -> None:
        pass

    async def _metadata_update(self, cluster: Any, topics: Any) -> bool:
        return self.updates

    async def _get_conn(self, node_id: Any, *, group: Any) -> Any:
        if not self.updates:
            return None
        return self._conns.setdefault((node_id, group), object())


@pytest.mark.parametrize(
    ("client", "topics", "pauses"),
    [
        (FakeClient(), ["t"], 0),
        (FakeClient(), None, 0),
        (FakeClient(updates=False), ["t"], 1),
        (FakeClient(leader=-1), ["t"], 1),
        (FakeClient(leader=None), ["t"], 1),
        (FakeClient(leader=-1), ["new"], 0),
    ],
)
async def test_metadata_that_help_nobody_are_not_asked_for_without_a_pause(
    monkeypatch: pytest.MonkeyPatch, client: Any, topics: list[str] | None, pauses: int
) -> None:
    """aiokafka asks again at once while a partition that has messages has no leader."""
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    clients._correct(client)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert await client._metadata_update(client.cluster, topics) == client.updates
    assert slept == [0.1] * pauses


async def test_connections_that_are_made_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = OutageFilter()
    told: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(watch, "reached", lambda nodes, known: told.append((list(nodes), known)))
    monkeypatch.setattr(clients, "OUTAGE", watch)
    client: Any = FakeClient()
    clients._correct(client)
    await client.bootstrap()
    await client._get_conn(1)
    await client._get_conn(1)
    client.updates = False
    await client._get_conn(2)
    addresses = {"1": "a.example:9092"}
    assert told == [(["a.example:9092"], addresses), (["1"], addresses)]


async def test_of_several_bootstrap_servers_none_is_taken_for_the_one_that_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = OutageFilter()
    told: list[list[str]] = []
    monkeypatch.setattr(watch, "reached", lambda nodes, _: told.append(list(nodes)))
    monkeypatch.setattr(clients, "OUTAGE", watch)
    client: Any = FakeClient()
    client.hosts = [("a.example", 9092, 0), ("b.example", 9092, 0)]
    clients._correct(client)
    await client.bootstrap()
    assert told == [[]]
