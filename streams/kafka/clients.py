"""The door to Kafka's clients: every aiokafka object is made here, with one set of choices.

Why these values: kafka-level facts are in DECISIONS.md. In short: no auto-commit, `earliest`, one
assignor (Range, so that equal partition numbers of co-partitioned topics land on one member),
acks=all through the idempotent producer, zstd.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaConnectionError
from aiokafka.structs import OffsetAndMetadata

from schemas.errors import ConfigError
from schemas.topics import MAX_MESSAGE_BYTES, physical
from streams.kafka.pace import Pace
from streams.settings import Settings
from streams.telemetry.outage_filter import OUTAGE

_POLL_INTERVAL_S = 1_800
_UPDATE_PAUSE_S = 0.1
"""As aiokafka waits after a request that failed."""


def bootstrap(settings: Settings) -> str:
    """host:port list of the brokers: `KAFKA_BOOTSTRAP_SERVERS`, else the embedded broker's.

    Raises ConfigError when neither is there.
    """
    if settings.bootstrap_servers:
        return settings.bootstrap_servers
    try:
        state = json.loads((settings.data_dir / "broker.json").read_text(encoding="utf-8"))
        return str(state["bootstrap"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            "no Kafka: set KAFKA_BOOTSTRAP_SERVERS, or start the embedded broker with"
            " `crawl broker start` (or `crawl up`)"
        ) from error


def connection(settings: Settings) -> dict[str, Any]:
    """What every client needs to connect: brokers, security, metadata age."""
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap(settings),
        "security_protocol": settings.security_protocol,
        "metadata_max_age_ms": 60_000,
    }
    if settings.security_protocol in ("SSL", "SASL_SSL"):
        options["ssl_context"] = ssl_context(settings)
    if settings.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = settings.sasl_mechanism
        options["sasl_plain_username"] = settings.sasl_username
        options["sasl_plain_password"] = settings.sasl_password
    return options


def ssl_context(settings: Settings) -> ssl.SSLContext:
    """TLS towards the brokers. Raises ConfigError when a certificate file cannot be read."""
    try:
        cafile = str(settings.ssl_cafile) if settings.ssl_cafile else None
        context = ssl.create_default_context(cafile=cafile)
        if settings.ssl_certfile and settings.ssl_keyfile:
            context.load_cert_chain(str(settings.ssl_certfile), str(settings.ssl_keyfile))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"TLS towards Kafka: {error}") from error
    return context


def make_consumer(
    settings: Settings, group: str | None = None, **overrides: Any
) -> AIOKafkaConsumer:
    """A consumer, not started. `group` is logical; None: no group, assign by hand."""
    session_ms = int(settings.session_timeout_s * 1000)
    options = connection(settings) | {
        "group_id": None if group is None else physical(group, settings.topic_prefix),
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": (RangePartitionAssignor,),
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": min(3_000, session_ms // 5),
        "rebalance_timeout_ms": int((settings.drain_timeout_s + 40) * 1000),
        "max_poll_interval_ms": _POLL_INTERVAL_S * 1000,
        "fetch_max_wait_ms": 250,
        "fetch_max_bytes": 16 * 1024 * 1024,
        "max_partition_fetch_bytes": 1024 * 1024,
        "request_timeout_ms": 30_000,
    }
    consumer = PacedConsumer(**(options | overrides))
    _correct(consumer._client)  # noqa: SLF001 - see there
    return consumer


class PacedConsumer(AIOKafkaConsumer):  # type: ignore[misc]
    """A consumer that lets messages gather before it asks for more (see `streams.kafka.pace`).

    Kafka answers as soon as there is one message. On a busy system the pace makes one request bring
    what ten would have; on an idle one nothing is ever waited for.
    """

    async def start(self) -> None:
        """Connect; see aiokafka."""
        await super().start()
        fetcher = self._fetcher
        ask = fetcher._proc_fetch_request  # noqa: SLF001 - there is no setting for this
        paces: defaultdict[Any, Pace] = defaultdict(Pace)

        async def paced(assignment: Any, node: Any, request: Any) -> bool:
            pace = paces[node]
            try:
                wait_s = pace.wait_s(time.monotonic())
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                found = bool(await ask(assignment, node, request))
            except asyncio.CancelledError:
                # As the method itself does, but for its pause after a failure: let through, this
                # would cancel whoever closes the consumer while its broker is away.
                return False
            if found:
                pace.asked(time.monotonic())
            return found

        fetcher._proc_fetch_request = paced  # noqa: SLF001 - as above


def generation(consumer: AIOKafkaConsumer) -> int:
    """The group generation that the consumer commits under; -1: it is no member.

    A consumer that was thrown out of a group commits as nobody, and Kafka accepts that when the
    group has no members by then. So whoever commits must ask first.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 - aiokafka tells nobody else
    return -1 if coordinator is None else int(coordinator.generation)


async def committed(
    consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What the consumer's group committed; partitions without a commit are left out.

    Asks again while the coordinator is away, without end.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 - `committed()` tells no metadata
    rows = await coordinator.fetch_committed_offsets(list(partitions))
    return dict(rows)


def make_producer(settings: Settings, **overrides: Any) -> AIOKafkaProducer:
    """An idempotent producer (acks=all), not started.

    No linger: aiokafka's is one of each partition, so that a request carries one partition's
    messages. Who sends much gathers messages for all of them (`streams.delivery.outputs`).
    """
    options = connection(settings) | {
        "enable_idempotence": True,
        "max_batch_size": 512 * 1024,
        "max_request_size": MAX_MESSAGE_BYTES,
        "compression_type": "zstd",
        "request_timeout_ms": 30_000,
    }
    producer = AIOKafkaProducer(**(options | overrides))
    _correct(producer.client)
    return producer


def make_admin(settings: Settings) -> AIOKafkaAdminClient:
    """An admin client, not started."""
    admin = AIOKafkaAdminClient(**connection(settings), request_timeout_ms=30_000)
    _correct(admin._client)  # noqa: SLF001 - see there
    return admin


def _correct(client: AIOKafkaClient) -> None:
    """What no client of ours goes without."""
    _insist_on_brokers(client)
    _pause_between_updates(client)
    _report_connections(client)


def _pause_between_updates(client: AIOKafkaClient) -> None:
    """Wait a moment after metadata that help nobody.

    A producer with a message for a partition that has no leader asks for metadata again at once,
    for as long as the leader is away: 20,000 attempts a second while no broker can be reached.
    """
    update = client._metadata_update  # noqa: SLF001 - it has no setting for this

    async def patient(cluster: Any, topics: Any) -> bool:
        updated = bool(await update(cluster, topics))
        if not updated or _leaderless(cluster, topics or ()):
            await asyncio.sleep(_UPDATE_PAUSE_S)
        return updated

    client._metadata_update = patient  # noqa: SLF001 - as above


def _leaderless(cluster: Any, topics: Iterable[str]) -> bool:
    """Whether any partition of these topics has no leader."""
    return any(
        cluster.leader_for_partition(TopicPartition(topic, number)) in (None, -1)
        for topic in topics
        for number in cluster.partitions_for_topic(topic) or ()
    )


def _report_connections(client: AIOKafkaClient) -> None:
    """Say when a connection was made: aiokafka logs failures only, so no log tells their end."""
    connection_to = client._get_conn  # noqa: SLF001 - it has no event for this
    bootstrap = client.bootstrap
    open_connections = client._conns  # noqa: SLF001 - as above

    def addresses() -> dict[str, str]:
        return {str(one.nodeId): f"{one.host}:{one.port}" for one in client.cluster.brokers()}

    async def reporting(node_id: Any, *, group: Any = ConnectionGroup.DEFAULT) -> Any:
        before = open_connections.get((node_id, group))
        found = await connection_to(node_id, group=group)
        if found is not None and found is not before:
            OUTAGE.reached((str(node_id),), addresses())
        return found

    async def begin() -> None:
        await bootstrap()
        # Of several servers one has answered, and nothing tells which.
        servers = [f"{host}:{port}" for host, port, _ in client.hosts]
        OUTAGE.reached(servers if len(servers) == 1 else [], addresses())

    client._get_conn = reporting  # noqa: SLF001 - as above
    client.bootstrap = begin


def _insist_on_brokers(client: AIOKafkaClient) -> None:
    """Make the start fail at a broker that is not yet part of its own cluster.

    aiokafka begins all the same, with the address it was given as its only one. When that
    connection breaks it has nobody left to ask, and asks again without any pause for ever.
    """
    bootstrap = client.bootstrap

    async def insisting() -> None:
        await bootstrap()
        if not client.cluster.brokers():
            raise KafkaConnectionError(f"no broker is ready at {client.hosts}")

    client.bootstrap = insisting


@contextlib.asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    """Start a client, and stop it (`close` for the admin client) at the end of the block.

    A client that failed to start is stopped too, so that it leaves no open connection.
    """
    stop = getattr(client, "stop", None) or client.close
    try:
        await client.start()
        yield client
    finally:
        await stop()
