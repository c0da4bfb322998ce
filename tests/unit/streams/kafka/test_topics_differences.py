"""What is wrong with topics, and what is merely different."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from schemas.topics import CRAWLS, RECORDS, TOPICS, URLS
from streams.kafka.topics import Difference, Topic, differences
from streams.settings import Settings, load


def made(**overrides: Any) -> Settings:
    return load(
        {}, **({"topic_prefix": "p.", "partitions": 6, "replication_factor": 1} | overrides)
    )


def cluster(
    changes: Mapping[str, Mapping[str, Any]] | None = None, partitions: int = 6
) -> dict[str, Topic]:
    """Topics as declared, but for `changes` (None as a change: the topic does not exist)."""
    found = {}
    for spec in TOPICS:
        change = dict((changes or {}).get(spec.name, {}))
        config = spec.config | change.pop("config", {})
        topic = Topic(spec.partitions or partitions, 1, config)._replace(**change)
        found[f"p.{spec.name}"] = topic
    return found


def only(found: tuple[Difference, ...]) -> Difference:
    (difference,) = found
    return difference


def test_a_cluster_as_declared_has_none() -> None:
    assert differences(cluster(), made()) == ()


def test_an_empty_cluster_lacks_every_topic() -> None:
    found = differences({}, made())
    assert [d.topic for d in found] == [f"p.{spec.name}" for spec in TOPICS]
    assert all(d.blocking and "crawl topics create" in d.text for d in found)


def test_the_changelog_of_the_dedup_table_is_one_of_them() -> None:
    assert "p.crawl-dedup-seen-changelog" in {d.topic for d in differences({}, made())}


def test_topics_of_another_prefix_do_not_count() -> None:
    assert len(differences(cluster(), made(topic_prefix="q."))) == len(TOPICS)


def test_other_topics_of_the_cluster_are_not_our_business() -> None:
    found = cluster() | {"p.other": Topic(1, 1, {}), "urls": Topic(1, 1, {})}
    assert differences(found, made()) == ()


def test_another_partition_count_blocks_and_is_not_repaired() -> None:
    difference = only(differences(cluster({URLS: {"partitions": 3}}), made()))
    assert (difference.topic, difference.blocking, difference.repairable) == ("p.urls", True, False)
    assert "3 partitions, not 6: set CRAWL_PARTITIONS=3" in difference.text


def test_a_topic_of_fixed_partitions_is_not_blamed_on_the_setting() -> None:
    difference = only(differences(cluster({CRAWLS: {"partitions": 3}}), made()))
    assert "not 1" in difference.text
    assert "CRAWL_PARTITIONS" not in difference.text


@pytest.mark.parametrize(
    ("topic", "key", "value", "blocking"),
    [
        (URLS, "cleanup.policy", "compact", True),
        (CRAWLS, "cleanup.policy", "delete", True),
        (CRAWLS, "cleanup.policy", "compact,delete", True),
        (RECORDS, "retention.ms", "1000", False),
        (RECORDS, "retention.ms", "-1", False),
        (RECORDS, "max.message.bytes", "1048588", True),
        (RECORDS, "max.message.bytes", "99999999", False),
    ],
)
def test_other_configuration(topic: str, key: str, value: str, blocking: bool) -> None:
    difference = only(differences(cluster({topic: {"config": {key: value}}}), made()))
    assert (difference.blocking, difference.repairable) == (blocking, True)
    assert f"{key} is {value}" in str(difference)


def test_fewer_copies_than_wanted_are_told_and_more_are_welcome() -> None:
    difference = only(
        differences(
            cluster({spec.name: {"replicas": 3} for spec in TOPICS} | {URLS: {"replicas": 2}}),
            made(replication_factor=3),
        )
    )
    assert (difference.topic, difference.blocking, difference.repairable) == (
        "p.urls",
        False,
        False,
    )
    assert differences(cluster({URLS: {"replicas": 3}}), made()) == ()


def test_a_value_that_the_cluster_does_not_tell_is_no_difference() -> None:
    found = cluster() | {"p.urls": Topic(6, 1, {})}
    assert differences(found, made()) == ()
