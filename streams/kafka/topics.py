"""Topics of a deployment: create what is missing, and say where the cluster differs.

A difference either breaks the pipeline (a missing topic, another partition count, another cleanup
policy, too small messages: workers refuse to start) or is something that an operator may have
wanted (another retention, more room, another number of copies: reported, and left alone).
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from schemas.errors import ConfigError, TransientInfraError
from schemas.topics import FETCHER_GROUP, TOPICS, TopicSpec, physical
from streams.settings import Settings

if TYPE_CHECKING:
    from aiokafka.admin import AIOKafkaAdminClient

# Of a configuration entry: set on the topic itself, not inherited from the broker.
_SET_ON_TOPIC: Final = 1
_TOPIC_ALREADY_EXISTS: Final = 36
_SETTLE_TIMEOUT_S: Final = 30.0


class Topic(NamedTuple):
    """A topic as the cluster has it. `config` holds effective values, by name."""

    partitions: int
    replicas: int
    config: Mapping[str, str]


class Difference(NamedTuple):
    """One way in which the cluster differs from `schemas.topics`."""

    topic: str
    """Physical name."""
    text: str
    """What differs, and what to do about it."""
    blocking: bool
    """Workers refuse to start."""
    repairable: bool
    """`crawl topics create --repair` sets it right."""

    def __str__(self) -> str:
        return f"{self.topic}: {self.text}"


class Report(NamedTuple):
    """What `create` did and what is left. Names are physical."""

    created: tuple[str, ...]
    repaired: tuple[str, ...]
    existing: tuple[str, ...]
    differences: tuple[Difference, ...]


def differences(found: Mapping[str, Topic], settings: Settings) -> tuple[Difference, ...]:
    """Compare the cluster's topics (by physical name) with the declared ones. Pure."""
    result: list[Difference] = []
    for spec in TOPICS:
        name = physical(spec.name, settings.topic_prefix)
        topic = found.get(name)
        if topic is None:
            text = "does not exist: run crawl topics create"
            result.append(Difference(name, text, blocking=True, repairable=False))
        else:
            result.extend(_of_topic(name, topic, spec, settings))
    return tuple(result)


def _of_topic(name: str, topic: Topic, spec: TopicSpec, settings: Settings) -> Iterable[Difference]:
    wanted = spec.partitions or settings.partitions
    if topic.partitions != wanted:
        # Adding partitions moves keys: dedup forgets and two fetchers meet on one host.
        remedy = (
            "a key's partition is for ever: use another CRAWL_TOPIC_PREFIX, or delete the topic"
            if spec.partitions
            else f"set CRAWL_PARTITIONS={topic.partitions}, or use another CRAWL_TOPIC_PREFIX"
        )
        text = f"has {topic.partitions} partitions, not {wanted}: {remedy}"
        yield Difference(name, text, blocking=True, repairable=False)
    for key, value in spec.config.items():
        if (has := topic.config.get(key)) is not None and has != value:
            text = f"{key} is {has}, not {value}: crawl topics create --repair sets it"
            yield Difference(name, text, blocking=_breaks(key, has, value), repairable=True)
    if topic.replicas < settings.replication_factor:
        text = (
            f"has {topic.replicas} copies, CRAWL_REPLICATION_FACTOR is"
            f" {settings.replication_factor}: add them with Kafka's kafka-reassign-partitions"
        )
        yield Difference(name, text, blocking=False, repairable=False)


def _breaks(key: str, has: str, wanted: str) -> bool:
    """Whether another value of a topic's setting stops the pipeline or loses its messages."""
    if key == "cleanup.policy":
        return True
    return key == "max.message.bytes" and int(has) < int(wanted)


async def create(settings: Settings, *, repair: bool = False) -> Report:
    """Create the missing topics and compare the others. Idempotent.

    Args:
        settings: which cluster, prefix, partition count and number of copies.
        repair: also set the declared configuration on topics that have another; settings of a
            topic that we do not declare keep their values.

    Raises ConfigError when the cluster refuses a topic, TransientInfraError when it does not
    answer.
    """
    async with _admin(settings) as admin:
        before = await _topics(admin, settings)
        created = await _create_missing(admin, before, settings)
        if len(before) < len(TOPICS):
            await _settle(admin, settings)
        found = await _topics(admin, settings)
        left = differences(found, settings)
        repaired: tuple[str, ...] = ()
        if repair and (broken := sorted({d.topic for d in left if d.repairable})):
            await _repair(admin, broken, settings)
            repaired = tuple(broken)
            left = await _repaired(admin, settings)
    return Report(created, repaired, tuple(sorted(before)), left)


async def check(settings: Settings) -> tuple[Difference, ...]:
    """All differences. Raises ConfigError without a Kafka, TransientInfraError without answer."""
    async with _admin(settings) as admin:
        return differences(await _topics(admin, settings), settings)


async def check_topics_async(settings: Settings) -> list[str]:
    """What keeps a worker from starting, a line each, with what to do; empty: all is well."""
    return [str(found) for found in await check(settings) if found.blocking]


def create_topics(settings: Settings, *, repair: bool = False) -> Report:
    """`create` for callers without an event loop."""
    return asyncio.run(create(settings, repair=repair))


@asynccontextmanager
async def _admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client; Kafka's errors are translated at this door."""
    from aiokafka.errors import KafkaError

    from streams.kafka.clients import bootstrap, make_admin, started

    try:
        async with started(make_admin(settings)) as admin:
            yield admin
    except (KafkaError, TimeoutError) as error:
        raise TransientInfraError(
            f"Kafka at {bootstrap(settings)} does not answer: {error!r}. Is it up?"
            " (embedded broker: crawl broker status)"
        ) from error


async def _topics(admin: AIOKafkaAdminClient, settings: Settings) -> dict[str, Topic]:
    """Declared topics that exist, by physical name.

    All topics are asked for, never ours by name: a broker that creates topics by itself would
    create them at the mere question.
    """
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.errors import for_code

    ours = {physical(spec.name, settings.topic_prefix): spec for spec in TOPICS}
    layout = {
        described["topic"]: described["partitions"]
        for described in await admin.describe_topics()
        if described["topic"] in ours and not described["error_code"]
    }
    if not layout:
        return {}
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(ours[name].config, ""))
        for name in layout
    ]
    found = {}
    for answer in await admin.describe_configs(resources):
        for code, message, _, name, entries in answer.resources:
            if code:
                raise for_code(code)(f"configuration of {name}: {message}")
            found[name] = Topic(
                partitions=len(layout[name]),
                replicas=min((len(p["replicas"]) for p in layout[name]), default=0),
                config={entry[0]: entry[1] for entry in entries},
            )
    return found


def durability(copies: int) -> dict[str, str]:
    """Topic settings by number of copies: of three or more all but one must have a message.

    So one broker may be lost or restarted while producers go on. With fewer copies the broker's
    own default decides: of two, none could be spared.
    """
    return {"min.insync.replicas": str(copies - 1)} if copies >= 3 else {}


async def _create_missing(
    admin: AIOKafkaAdminClient, found: Mapping[str, Topic], settings: Settings
) -> tuple[str, ...]:
    from aiokafka.admin import NewTopic
    from aiokafka.errors import for_code

    new = [
        NewTopic(
            name,
            spec.partitions or settings.partitions,
            settings.replication_factor,
            topic_configs=spec.config | durability(settings.replication_factor),
        )
        for spec in TOPICS
        if (name := physical(spec.name, settings.topic_prefix)) not in found
    ]
    if not new:
        return ()
    answer = await admin.create_topics(new)
    refused = [
        f"{name}: {message or for_code(code).__name__}"
        for name, code, message in answer.topic_errors
        # Another process was faster: what it made is compared like any other.
        if code not in (0, _TOPIC_ALREADY_EXISTS)
    ]
    if refused:
        raise ConfigError("Kafka refuses to create topics:\n  " + "\n  ".join(refused))
    return tuple(name for name, code, _ in answer.topic_errors if code == 0)


async def _settle(admin: AIOKafkaAdminClient, settings: Settings) -> None:
    """Wait until the brokers know all topics and have a group coordinator.

    A client that starts now finds both. Asking for the coordinator makes a fresh cluster create
    its offsets topic; without it every first worker logs errors for a second.
    """
    from aiokafka.errors import GroupAuthorizationFailedError, KafkaError

    group = physical(FETCHER_GROUP, settings.topic_prefix)
    async with asyncio.timeout(_SETTLE_TIMEOUT_S):
        for _ in itertools.repeat(None):
            try:
                if len(await _topics(admin, settings)) == len(TOPICS):
                    await admin.find_coordinator(group)
                    return
            except GroupAuthorizationFailedError:  # may create topics, not join: not ours to judge
                return
            except KafkaError:
                pass
            await asyncio.sleep(0.05)


async def _repair(admin: AIOKafkaAdminClient, names: list[str], settings: Settings) -> None:
    """Set declared values. Kafka replaces a topic's whole configuration, so the rest is kept."""
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.errors import for_code

    ours = {physical(spec.name, settings.topic_prefix): spec.config for spec in TOPICS}
    described = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    )
    wanted = [
        ConfigResource(
            ConfigResourceType.TOPIC,
            name,
            {entry[0]: entry[1] for entry in entries if entry[3] == _SET_ON_TOPIC} | ours[name],
        )
        for answer in described
        for _, _, _, name, entries in answer.resources
    ]
    refused = [
        f"{resource[3]}: {resource[1] or for_code(resource[0]).__name__}"
        for answer in await admin.alter_configs(wanted)
        for resource in answer.resources
        if resource[0]
    ]
    if refused:
        raise ConfigError("Kafka refuses to change topics:\n  " + "\n  ".join(refused))


async def _repaired(admin: AIOKafkaAdminClient, settings: Settings) -> tuple[Difference, ...]:
    """Differences once the brokers show what was set, which takes them a moment."""
    deadline = time.monotonic() + _SETTLE_TIMEOUT_S
    while True:
        left = differences(await _topics(admin, settings), settings)
        if not any(found.repairable for found in left) or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.05)
