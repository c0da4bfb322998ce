from __future__ import annotations

import re

import pytest
from aiokafka.partitioner import DefaultPartitioner, murmur2
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.topics import (
    BY_NAME,
    DEDUP_APP,
    DEDUP_TABLE,
    FETCH_REQUESTS,
    FETCH_RESULTS,
    MAX_MESSAGE_BYTES,
    RETRY_TIERS,
    RETRY_TIERS_S,
    SEEN_CHANGELOG,
    TOPICS,
    URLS,
    TopicSpec,
    logical,
    partition_of,
    physical,
)

QUICK = settings(max_examples=25, deadline=None, database=None)


@QUICK
@given(st.binary(max_size=40), st.integers(1, 10_000))
def test_partitions_are_those_of_kafkas_default_partitioner(key: bytes, partitions: int) -> None:
    every = list(range(partitions))
    assert partition_of(key, partitions) == DefaultPartitioner()(key, every, every)


@pytest.mark.parametrize("length", range(10))
def test_murmur2_at_every_tail_length(length: int) -> None:
    key = bytes(range(0xF5, 0xF5 + length))
    assert partition_of(key, 0x80000000) == murmur2(key) & 0x7FFFFFFF


def test_a_known_partition() -> None:
    # Kafka's own UtilsTest has murmur2("21") = -973932308.
    assert partition_of(b"21", 0x80000000) == -973932308 & 0x7FFFFFFF


def test_names_are_unique_and_legal_in_kafka() -> None:
    names = [spec.name for spec in TOPICS]
    assert len(set(names)) == len(names)
    assert set(BY_NAME) == set(names)
    for name in names:
        assert re.fullmatch(r"[a-z0-9-]{1,80}", name)
        # With a prefix of 60 characters it must fit in Kafka's 249.
        assert len(physical(name, "p" * 60)) <= 249


def test_what_one_process_must_own_together_is_partitioned_alike() -> None:
    for name in (URLS, SEEN_CHANGELOG, FETCH_REQUESTS, *RETRY_TIERS):
        assert BY_NAME[name].partitions is None
    for name in (URLS, FETCH_REQUESTS, *RETRY_TIERS):
        assert BY_NAME[name].key == "host"
    assert BY_NAME[FETCH_RESULTS].key == BY_NAME["records"].key == "URL id"


def test_the_changelog_has_fausts_name() -> None:
    assert SEEN_CHANGELOG == f"{DEDUP_APP}-{DEDUP_TABLE}-changelog" == "crawl-dedup-seen-changelog"


def test_tiers_grow_and_are_named_by_their_delay() -> None:
    units = {"s": 1, "m": 60, "h": 3600}
    named = [float(tier[6:-1]) * units[tier[-1]] for tier in RETRY_TIERS]
    assert named == list(RETRY_TIERS_S) == sorted(set(RETRY_TIERS_S))


@pytest.mark.parametrize("spec", TOPICS, ids=lambda spec: spec.name)
def test_rows(spec: TopicSpec) -> None:
    assert spec.schema == "raw" or spec.schema in codec.NAMES
    assert spec.doc
    assert (spec.retention_ms == -1) is (spec.cleanup == "compact")
    assert spec.config["cleanup.policy"] == spec.cleanup
    assert spec.config["max.message.bytes"] == str(MAX_MESSAGE_BYTES)
    assert spec.config.get("retention.ms") == (
        None if spec.cleanup == "compact" else str(spec.retention_ms)
    )


def test_every_schema_is_on_a_topic() -> None:
    assert {spec.schema for spec in TOPICS} - {"raw"} == set(codec.NAMES)


def test_what_is_read_later_is_kept_longer_than_the_longest_delay() -> None:
    for name in (FETCH_REQUESTS, *RETRY_TIERS):
        assert BY_NAME[name].retention_ms > 24 * RETRY_TIERS_S[-1] * 1000


@pytest.mark.parametrize("prefix", ["", "a.", "crawl-", "urls"])
def test_prefixes(prefix: str) -> None:
    for spec in TOPICS:
        assert logical(physical(spec.name, prefix), prefix) == spec.name
        assert physical(spec.name, prefix) == prefix + spec.name
