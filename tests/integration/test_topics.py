"""Topics on a real broker: created, compared, repaired."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from typer.testing import CliRunner

from schemas.errors import ConfigError, TransientInfraError
from schemas.topics import FETCH_REQUESTS, RECORDS, TOPICS, URLS, physical
from streams.cli import make_app
from streams.kafka import topics
from streams.kafka.clients import make_admin, make_producer, started
from streams.kafka.reader import TopicReader
from streams.settings import Settings

MakeSettings = Callable[..., Settings]


async def alter(settings: Settings, topic: str, config: dict[str, str]) -> None:
    """Set a topic's whole configuration, as an operator might."""
    resource = ConfigResource(
        ConfigResourceType.TOPIC, physical(topic, settings.topic_prefix), config
    )
    async with started(make_admin(settings)) as admin:
        await admin.alter_configs([resource])
    async with asyncio.timeout(20):
        while not (await config_of(settings, topic)).items() >= config.items():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.05)


async def config_of(settings: Settings, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResourceType.TOPIC, physical(topic, settings.topic_prefix))
    async with started(make_admin(settings)) as admin:
        (answer,) = await admin.describe_configs([resource])
    return {entry[0]: entry[1] for entry in answer.resources[0][4]}


async def test_all_topics_are_created_as_declared_and_then_left_alone(
    settings: MakeSettings,
) -> None:
    first = await topics.create(settings())
    names = {physical(spec.name, settings().topic_prefix) for spec in TOPICS}
    assert set(first.created) == names
    assert first.differences == ()
    second = await topics.create(settings())
    assert (second.created, second.repaired, set(second.existing)) == ((), (), names)
    assert await topics.check_topics_async(settings()) == []


@pytest.mark.parametrize("ahead_s", [-30 * 86_400, 2 * 86_400])
async def test_messages_are_aged_by_the_brokers_clock(
    settings: MakeSettings, ahead_s: float
) -> None:
    """By the producer's, one that is behind has its messages deleted before they are read, and one
    that is ahead has them refused."""
    await topics.create(settings())
    began = time.time()
    async with started(make_producer(settings())) as producer:
        sent = await producer.send_and_wait(
            physical(URLS, settings().topic_prefix),
            b"https://a.example/",
            timestamp_ms=int((began + ahead_s) * 1000),
        )
    assert began - 60 < sent.timestamp / 1000 < time.time() + 60
    async with TopicReader(settings(), URLS) as reader:
        starts, ends = await reader.starts(), await reader.ends()
        [message] = [message async for message in reader.bounded(starts, ends)]
    assert message.timestamp_ms == sent.timestamp


async def test_missing_topics_are_told_with_the_remedy(settings: MakeSettings) -> None:
    problems = await topics.check_topics_async(settings())
    assert len(problems) == len(TOPICS)
    assert all("run crawl topics create" in problem for problem in problems)


async def test_looking_creates_nothing(settings: MakeSettings) -> None:
    await topics.check(settings())
    async with started(make_admin(settings())) as admin:
        names = await admin.list_topics()
    assert not [name for name in names if name.startswith(settings().topic_prefix)]


async def test_deployments_of_different_prefixes_do_not_meet(settings: MakeSettings) -> None:
    await topics.create(settings())
    other = settings(topic_prefix=settings().topic_prefix + "b.", partitions=2)
    report = await topics.create(other)
    assert len(report.created) == len(TOPICS)
    assert await topics.check_topics_async(settings()) == []
    assert await topics.check_topics_async(other) == []


async def test_another_partition_count_is_refused_and_not_changed(settings: MakeSettings) -> None:
    await topics.create(settings(partitions=3))
    report = await topics.create(settings(partitions=4), repair=True)
    assert report.repaired == ()
    sized = [spec for spec in TOPICS if spec.partitions is None]
    assert len(report.differences) == len(sized)
    assert all("CRAWL_PARTITIONS=3" in d.text and d.blocking for d in report.differences)
    assert await topics.check_topics_async(settings(partitions=3)) == []


async def test_drift_is_reported_and_repaired_on_request(settings: MakeSettings) -> None:
    await topics.create(settings())
    declared = next(spec for spec in TOPICS if spec.name == URLS).config
    await alter(
        settings(), URLS, declared | {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    )
    await alter(settings(), RECORDS, declared | {"retention.ms": "1000"})
    problems = await topics.check_topics_async(settings())
    assert [problem.split(": ")[1] for problem in problems] == [
        "cleanup.policy is compact, not delete"
    ]
    assert len(await topics.check(settings())) == 2

    untouched = await topics.create(settings())
    assert len(untouched.differences) == 2
    assert (await config_of(settings(), URLS))["cleanup.policy"] == "compact"

    repaired = await topics.create(settings(), repair=True)
    prefix = settings().topic_prefix
    assert set(repaired.repaired) == {f"{prefix}{URLS}", f"{prefix}{RECORDS}"}
    assert repaired.differences == ()
    now = await config_of(settings(), URLS)
    assert (now["cleanup.policy"], now["min.insync.replicas"]) == ("delete", "1")
    assert now["retention.ms"] == declared["retention.ms"]


async def test_a_topic_that_somebody_else_made_is_compared(settings: MakeSettings) -> None:
    name = physical(FETCH_REQUESTS, settings().topic_prefix)
    async with started(make_admin(settings())) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])
    report = await topics.create(settings())
    assert name in report.existing
    assert {d.topic for d in report.differences} == {name}
    assert any("1 partitions, not 4" in d.text for d in report.differences)


async def test_two_creations_at_once_both_succeed(settings: MakeSettings) -> None:
    reports = await asyncio.gather(*(topics.create(settings()) for _ in range(2)))
    created = [name for report in reports for name in report.created]
    assert sorted(created) == sorted(set(created))
    assert len(created) == len(TOPICS)
    assert all(report.differences == () for report in reports)


async def test_more_copies_than_brokers_are_refused_in_words(settings: MakeSettings) -> None:
    with pytest.raises(ConfigError, match="Kafka refuses to create topics"):
        await topics.create(settings(replication_factor=3))


async def test_no_broker_there(settings: MakeSettings) -> None:
    with pytest.raises(TransientInfraError, match=r"127\.0\.0\.1:9 does not answer"):
        await topics.check(settings(bootstrap_servers="127.0.0.1:9"))


def environment(settings: Settings, **more: str) -> dict[str, str | None]:
    return {
        "KAFKA_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "CRAWL_TOPIC_PREFIX": settings.topic_prefix,
        "CRAWL_DATA_DIR": str(settings.data_dir),
        "CRAWL_PARTITIONS": "4",
    } | more


def test_the_commands(settings: MakeSettings) -> None:
    run: Any = CliRunner(env=environment(settings())).invoke
    app = make_app()
    missing = run(app, ["topics", "check"])
    assert missing.exit_code == 1
    assert "does not exist: run crawl topics create" in missing.output
    created = run(app, ["topics", "create"])
    assert created.exit_code == 0, created.output
    assert created.output.count("created") == len(TOPICS)
    assert run(app, ["topics", "check"]).exit_code == 0
    again = run(app, ["topics", "create"])
    assert again.exit_code == 0
    assert "created" not in again.output
