"""A broker that is not yet part of its own cluster is no broker: clients do not begin with it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest
from aiokafka.errors import KafkaConnectionError

from streams.kafka.clients import make_admin, make_consumer, make_producer, started
from streams.settings import Settings, load

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
