"""The topics as data.

Names here are logical; `physical` adds the deployment's prefix. `urls`, `fetch-requests` and the
retry tiers have equal partition counts and are keyed by host, so that one process owns a host in
each of them; `fetch-results` and `records` are keyed by URL id, so that one big site spreads.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

CRAWLS: Final = "crawls"
PROGRESS: Final = "crawl-progress"
URLS: Final = "urls"
FETCH_REQUESTS: Final = "fetch-requests"
FETCH_RESULTS: Final = "fetch-results"
RECORDS: Final = "records"
DEAD_LETTERS: Final = "dead-letters"

DEDUP_APP: Final = "crawl-dedup"
DEDUP_TABLE: Final = "seen"
FETCHER_GROUP: Final = "fetchers"
PARSER_GROUP: Final = "parsers"
SEEN_CHANGELOG: Final = f"{DEDUP_APP}-{DEDUP_TABLE}-changelog"
"""Named by Faust: `{app id}-{table}-changelog`."""

RETRY_TIERS: Final = ("retry-30s", "retry-2m", "retry-10m", "retry-1h", "retry-6h")
"""Retry topics, shortest first. Their delays are a setting (`CRAWL_RETRY_TIERS_S`)."""

RETRY_TIERS_S: Final = (30.0, 120.0, 600.0, 3600.0, 21600.0)

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024

Cleanup = Literal["delete", "compact"]
Key = Literal["host", "URL id", "crawl id", "partition and crawl", "origin's"]

_DAY_MS = 86_400_000


class TopicSpec(NamedTuple):
    """One topic.

    `partitions` None means the deployment's `CRAWL_PARTITIONS`. `retention_ms` -1 keeps messages
    for ever; compacted topics keep the newest of each key.
    """

    name: str
    key: Key
    schema: str
    partitions: int | None
    cleanup: Cleanup
    retention_ms: int
    doc: str

    @property
    def config(self) -> dict[str, str]:
        """The broker settings that `crawl topics create` sets and `check` compares."""
        config = {
            "cleanup.policy": self.cleanup,
            "max.message.bytes": str(MAX_MESSAGE_BYTES),
            # By the producers' clocks, retention would delete what one that is behind has sent
            # before anybody reads it; and what one that is ahead sends would be refused.
            "message.timestamp.type": "LogAppendTime",
        }
        if self.cleanup == "delete":
            config["retention.ms"] = str(self.retention_ms)
        return config


TOPICS: Final = (
    TopicSpec(CRAWLS, "crawl id", "crawl-spec", 1, "compact", -1, "rules of each crawl"),
    TopicSpec(
        PROGRESS, "partition and crawl", "progress", 1, "compact", -1, "counters of each crawl"
    ),
    TopicSpec(URLS, "host", "url-batch", None, "delete", 7 * _DAY_MS, "seeds and discovered links"),
    TopicSpec(
        SEEN_CHANGELOG, "URL id", "raw", None, "compact", -1, "backup of the dedup table `seen`"
    ),
    TopicSpec(
        FETCH_REQUESTS, "host", "fetch-request", None, "delete", 14 * _DAY_MS, "each URL once"
    ),
    *(
        TopicSpec(name, "host", "fetch-request", None, "delete", 14 * _DAY_MS, "later attempts")
        for name in RETRY_TIERS
    ),
    TopicSpec(FETCH_RESULTS, "URL id", "fetch-result", None, "delete", 3 * _DAY_MS, "responses"),
    TopicSpec(RECORDS, "URL id", "record", None, "delete", 7 * _DAY_MS, "what users consume"),
    TopicSpec(
        DEAD_LETTERS,
        "origin's",
        "dead-letter",
        None,
        "delete",
        30 * _DAY_MS,
        "given up or unreadable, with the reason",
    ),
)

BY_NAME: Final = {spec.name: spec for spec in TOPICS}


def physical(name: str, prefix: str) -> str:
    """Name of a topic, group or application in the cluster."""
    return f"{prefix}{name}"


def logical(name: str, prefix: str) -> str:
    """The inverse of `physical`."""
    return name.removeprefix(prefix)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key as Kafka's default partitioner has it (murmur2)."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    length = len(data)
    m = 0x5BD1E995
    h = (0x9747B28C ^ length) & 0xFFFFFFFF
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little")
        k = (k * m) & 0xFFFFFFFF
        k ^= k >> 24
        k = (k * m) & 0xFFFFFFFF
        h = (h * m) & 0xFFFFFFFF
        h ^= k
    rest = length & 3
    if rest == 3:
        h ^= data[whole + 2] << 16
    if rest >= 2:
        h ^= data[whole + 1] << 8
    if rest >= 1:
        h ^= data[whole]
        h = (h * m) & 0xFFFFFFFF
    h ^= h >> 13
    h = (h * m) & 0xFFFFFFFF
    h ^= h >> 15
    return h
