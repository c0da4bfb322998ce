"""What came out, against what must: read from the topics by a plain consumer."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from schemas import codec
from schemas.topics import (
    DEAD_LETTERS,
    FETCH_REQUESTS,
    FETCH_RESULTS,
    RECORDS,
    RETRY_TIERS,
    SEEN_CHANGELOG,
    URLS,
)
from streams.kafka.reader import Message, TopicReader
from streams.settings import Settings
from tests.chaos.site import Site

TOPICS: Final = (
    RECORDS,
    DEAD_LETTERS,
    FETCH_REQUESTS,
    *RETRY_TIERS,
    FETCH_RESULTS,
    SEEN_CHANGELOG,
    URLS,
)
# Of one fetch, and so of one record id, these differ when the fetch was repeated.
_OF_THE_FETCH: Final = frozenset(
    {"fetch_id", "attempt", "fetched_at", "parsed_at", "duration_ms", "discovered_at", "seeded_at"}
)


class Findings(NamedTuple):
    """A sound run has no entry in any of the first four."""

    lost: list[str]
    """Reachable URLs without an outcome."""
    unexpected: list[str]
    """URLs with another outcome than theirs, or with two."""
    duplicate_records: list[str]
    """Record ids, and URLs, with two contents."""
    unburied: list[str]
    """Unreadable messages that no dead letter tells of."""
    refetches: Counter[str]
    """Requests beyond those of a crawl without faults, by URL."""
    repeated_records: int
    """Records beyond the first of their URL, all equal to it."""


async def read_all(settings: Settings) -> dict[str, list[Message]]:
    """Every message of every topic that matters."""
    found: dict[str, list[Message]] = {topic: [] for topic in TOPICS}
    async with TopicReader(settings, *TOPICS) as reader:
        starts, ends = await reader.starts(), await reader.ends()
        async for message in reader.bounded(starts, ends):
            found[message.source.topic].append(message)
    return found


def examine(
    site: Site, messages: Mapping[str, list[Message]], garbage: list[tuple[str, int, int]]
) -> Findings:
    """The verdict.

    Args:
        site: what there was.
        messages: of all topics.
        garbage: topic, partition and offset of unreadable messages.
    """
    outcomes: defaultdict[str, set[str]] = defaultdict(set)
    contents: defaultdict[tuple[str, bytes], set[str]] = defaultdict(set)
    count: defaultdict[str, int] = defaultdict(int)
    for message in messages[RECORDS]:
        record = codec.decode("record", message.value or b"")
        outcomes[record["url"]].add("record")
        count[record["url"]] += 1
        content = _content(record)
        contents["fetch id", record["fetch_id"]].add(content)
        contents["URL id", record["url_id"]].add(content)
    buried = set()
    for message in messages[DEAD_LETTERS]:
        letter = codec.decode("dead-letter", message.value or b"")
        buried.add((letter["origin_topic"], letter["origin_partition"], letter["origin_offset"]))
        if letter["url"]:
            outcomes[letter["url"]].add(letter["reason"])
    expected = site.expected()
    return Findings(
        lost=[url for url in expected if url not in outcomes],
        unexpected=[
            f"{url}: {sorted(found)} instead of {expected.get(url)}"
            for url, found in outcomes.items()
            if url in expected and found != {expected[url]}
        ],
        duplicate_records=[
            f"{kind} {key.hex()}" for (kind, key), found in contents.items() if len(found) > 1
        ],
        unburied=[str(where) for where in garbage if where not in buried],
        refetches=+Counter({url: len(hits) - site.planned(url) for url, hits in site.hits.items()}),
        repeated_records=sum(number - 1 for number in count.values()),
    )


def _content(record: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in record.items() if name not in _OF_THE_FETCH}
    kept["headers"] = [row for row in record["headers"] if row["name"] != "date"]
    text = json.dumps(kept, sort_keys=True, default=lambda value: value.hex())
    return hashlib.sha256(text.encode()).hexdigest()
