"""`crawl dead-letters`, `records`, `seed`, `stop`, `crawls` and `status` on a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from schemas import codec
from schemas.crawl import CrawlSpec
from schemas.reasons import Reason
from schemas.topics import (
    DEAD_LETTERS,
    DEDUP_APP,
    FETCH_REQUESTS,
    FETCHER_GROUP,
    RECORDS,
    RETRY_TIERS,
    URLS,
    physical,
)
from streams.cli import make_app
from streams.crawls.submit import Submitter
from streams.deadletters.letter import dead_letter
from streams.kafka import topics
from streams.kafka.clients import make_consumer, started
from streams.kafka.messages import Out, Source
from streams.kafka.reader import Message, TopicReader
from streams.process.clock import now_ms
from streams.settings import Settings
from streams.standing.drain import PipelineReader, decide
from streams.supervise import environment

pytestmark = pytest.mark.integration
MakeSettings = Callable[..., Settings]
Crawl = Callable[..., Any]


@pytest.fixture
def deployment(settings: MakeSettings) -> Settings:
    made = settings()
    asyncio.run(topics.create(made))
    return made


@pytest.fixture
def crawl(deployment: Settings) -> Crawl:
    """Runs a command in this process; the result, or a failure with its output."""
    env = environment(deployment, str(deployment.bootstrap_servers), {})

    def run(*arguments: str, code: int = 0, text: str | None = None) -> Any:
        result = CliRunner().invoke(make_app(), arguments, env=env, input=text)
        if code == 0:
            assert result.exit_code == 0, (result.output, result.exception)
        else:
            assert result.exit_code != 0, result.output
        return result

    return run


def request(number: int, **over: Any) -> Any:
    return {
        "crawl": "c",
        "url_id": number.to_bytes(16, "big"),
        "url": f"http://a.example/{number}",
        "host": "a.example",
        "depth": 0,
        "scope_host": "a.example",
        "via": "seed",
        "referrer": "",
        "redirects": [],
        "seeded_at": 1,
        "discovered_at": 1,
        "attempt": 4,
        "first_attempt_at": 7,
        "first_reason": "http_500",
    } | over


def letter(number: int, reason: Reason = Reason.HTTP_500, **over: Any) -> Out:
    row = request(number, **over)
    return dead_letter(
        Source(RETRY_TIERS[1], 0),
        number,
        b"a.example",
        codec.encode("fetch-request", row),
        reason=reason,
        stage="fetcher",
        detail=f"detail {number}",
        request=row,
        attempts=4,
        now_ms=now_ms(),
    )


async def produce(settings: Settings, *messages: Out) -> None:
    async with Submitter(settings) as submitter:
        await submitter.deliver(messages)


async def read_all(settings: Settings, topic: str) -> list[Message]:
    async with TopicReader(settings, topic) as reader:
        ends = await reader.ends()
        return [message async for message in reader.bounded(await reader.starts(), ends)]


async def commit(settings: Settings, group: str, topic: str, offset: int) -> None:
    """Commit every partition of a topic at its end, minus `offset` messages where there are any."""
    async with started(make_consumer(settings, group)) as consumer:
        async with TopicReader(settings, topic) as reader:
            ends = await reader.ends()
        partitions = {
            _partition(settings, source): end - offset for source, end in ends.items() if end
        }
        consumer.assign(list(partitions))
        await consumer.commit(partitions)


def _partition(settings: Settings, source: Source) -> Any:
    from aiokafka import TopicPartition

    return TopicPartition(physical(source.topic, settings.topic_prefix), source.partition)


def test_list_show_and_redrive_once(deployment: Settings, crawl: Crawl) -> None:
    asyncio.run(
        produce(
            deployment,
            letter(1),
            letter(2, Reason.HTTP_503),
            letter(3, Reason.ROBOTS_DENIED),
            Out(DEAD_LETTERS, b"a.example", b"junk"),
        )
    )
    listed = crawl("dead-letters", "list").output
    assert "3 dead letters" in listed
    assert "http_503" in listed
    assert "1 messages are no dead letters" in listed
    rows = [json.loads(row) for row in crawl("dead-letters", "list", "--json").stdout.splitlines()]
    assert [row["url"][-1] for row in rows] == ["1", "2", "3"]
    shown = json.loads(crawl("dead-letters", "show", rows[1]["position"]).stdout)
    assert (shown["reason"], shown["message"]["attempt"]) == ("http_503", 4)

    dry = crawl("dead-letters", "redrive", "--dry-run").output
    assert "2 messages would be sent" in dry
    assert "disregarded by a rule" in dry
    assert asyncio.run(read_all(deployment, FETCH_REQUESTS)) == []

    crawl("dead-letters", "redrive", "--reason", "http_503")
    sent = asyncio.run(read_all(deployment, FETCH_REQUESTS))
    again = codec.decode("fetch-request", sent[0].value or b"")
    assert (again["url"], again["attempt"], again["replays"]) == ("http://a.example/2", 5, 1)
    assert (again["first_attempt_at"], again["first_reason"]) == (7, "http_500")

    assert "1 messages to send" in crawl("dead-letters", "redrive").output
    assert "0 messages to send" in crawl("dead-letters", "redrive").output
    assert len(asyncio.run(read_all(deployment, FETCH_REQUESTS))) == 2
    rows = [json.loads(row) for row in crawl("dead-letters", "list", "--json").stdout.splitlines()]
    assert [row["redriven"] for row in rows] == [True, True, False]

    crawl("dead-letters", "redrive", "--reason", "robots_denied")
    assert len(asyncio.run(read_all(deployment, FETCH_REQUESTS))) == 3


def test_wrong_arguments_are_refused(crawl: Crawl) -> None:
    assert "no such reason: nope" in str(
        crawl("dead-letters", "redrive", "--reason", "nope", code=2).exception
    )
    assert "is no time" in str(crawl("dead-letters", "list", "--since", "x", code=2).exception)
    assert "no dead letter 9/9" in str(crawl("dead-letters", "show", "9/9", code=2).exception)


def test_seed_stop_and_list_crawls(deployment: Settings, crawl: Crawl, tmp_path: Any) -> None:
    spec = tmp_path / "shop.yaml"
    spec.write_text("scope: domain\nmax_pages: 7\n")
    missing = crawl("seed", "--crawl", "shop", "https://a.example/", code=2)
    assert "--spec" in str(missing.exception)
    assert asyncio.run(read_all(deployment, URLS)) == []

    crawl(
        "seed", "--crawl", "shop", "--spec", str(spec), "--seeds", "-", text="https://a.example/\n"
    )
    crawl("seed", "https://b.example/x")
    batches = [
        codec.decode("url-batch", message.value or b"")
        for message in asyncio.run(read_all(deployment, URLS))
    ]
    assert {batch["crawl"]: batch["links"][0]["url"] for batch in batches} == {
        "shop": "https://a.example/",
        "default": "https://b.example/x",
    }
    crawl("stop", "shop")
    rows = [json.loads(row) for row in crawl("crawls", "--json").stdout.splitlines()]
    found = {row["crawl"]: CrawlSpec(**row) for row in rows}
    assert (found["shop"].state, found["shop"].max_pages) == ("stopped", 7)
    stopped = crawl("seed", "--crawl", "shop", "https://a.example/", code=2)
    assert "is stopped" in str(stopped.exception)
    assert "no crawl nope" in str(crawl("stop", "nope", code=2).exception)


def record(number: int, name: str) -> Out:
    row = request(number, crawl=name)
    for field in ("attempt", "first_attempt_at", "first_reason"):
        del row[field]
    words = (
        "location canonical_url content_type charset charset_source language body_ref address "
        "description author text main_text parser_version config_hash"
    )
    text = dict.fromkeys(words.split(), "")
    lists = ("headers", "headings", "outlinks", "assets", "entries", "issues")
    empty: dict[str, Any] = {name: [] for name in lists}
    flags = dict.fromkeys(("truncated", "noindex", "nofollow"), False)
    value = (
        row
        | text
        | empty
        | flags
        | {
            "fetch_id": number.to_bytes(16, "big"),
            "kind": "html",
            "status": 200,
            "attempt": 1,
            "fetched_at": 5,
            "duration_ms": 1,
            "body_bytes": 0,
            "body_sha256": b"",
            "title": f"Title {number}",
            "published_at": None,
            "modified_at": None,
            "simhash": 0,
            "json_ld": "[]",
            "meta": {},
            "microdata": "[]",
            "extracted": "{}",
            "parsed_at": 6,
        }
    )
    return Out(RECORDS, number.to_bytes(16, "big"), codec.encode("record", value))


def test_records_are_printed_once_and_filtered(deployment: Settings, crawl: Crawl) -> None:
    rows = [record(1, "a"), record(2, "b"), record(1, "a"), record(3, "a")]
    asyncio.run(produce(deployment, *rows, Out(RECORDS, b"k", b"junk")))
    found = crawl("records", "--crawl", "a", "--fields", "title,url_id").stdout.splitlines()
    titles = sorted(json.loads(row)["title"] for row in found)
    assert titles == ["Title 1", "Title 3"]
    assert list(json.loads(found[0])) == ["title", "url_id"]
    assert len(crawl("records", "--max", "2").stdout.splitlines()) == 2
    assert crawl("records", "--new").stdout == ""
    assert crawl("records", "--since", "1h").stdout.count("\n") == 3
    brief = crawl("records", "--format", "brief", "--crawl", "b").stdout
    assert brief == "200 html     http://a.example/2  Title 2\n"
    assert "no such fields: nope" in str(crawl("records", "--fields", "nope", code=2).exception)


def test_status_and_drain_see_lag_and_retries(deployment: Settings, crawl: Crawl) -> None:
    soon = request(1, not_before=now_ms() + 30_000)
    late = request(2, not_before=now_ms() + 3_600_000)

    async def readings() -> list[Any]:
        found = []
        async with PipelineReader(deployment) as pipeline:
            found.append(decide(await pipeline.read(), patience_s=120))
            await produce(deployment, Out(URLS, b"a.example", b"http://a.example/"))
            found.append(decide(await pipeline.read(), patience_s=120))
            await commit(deployment, DEDUP_APP, URLS, 0)
            found.append(decide(await pipeline.read(), patience_s=120))
            for tier, row in ((RETRY_TIERS[0], soon), (RETRY_TIERS[3], late)):
                value = codec.encode("fetch-request", row)
                await produce(deployment, Out(tier, b"a.example", value))
            found.append(decide(await pipeline.read(), patience_s=120))
            found.append(decide(await pipeline.read(), patience_s=5))
            found.append(decide(await pipeline.read(), patience_s=7_200))
            await commit(deployment, FETCHER_GROUP, RETRY_TIERS[0], 0)
            found.append(decide(await pipeline.read(), patience_s=120))
        return found

    empty, seeded, caught_up, waiting, impatient, patient, later = asyncio.run(readings())
    assert empty.drained
    assert (seeded.drained, seeded.backlog) == (False, {URLS: 1})
    assert caught_up.drained
    assert (waiting.drained, waiting.next_due_at) == (False, soon["not_before"])
    assert (impatient.drained, impatient.later) == (True, 2)
    assert not patient.drained
    assert (later.drained, later.later) == (True, 1)

    asyncio.run(produce(deployment, Out(URLS, b"a.example", b"http://a.example/2")))
    found = json.loads(crawl("status", "--json").stdout)
    assert found["stages"]["dedup"]["lag"] == 1
    assert 0 <= found["stages"]["dedup"]["oldest_age_s"] < 60
    assert found["stages"]["fetcher"]["waiting"] == 1
    assert "no crawl yet" in crawl("status").stdout


def test_commands_say_what_to_do_without_topics(settings: MakeSettings) -> None:
    made = settings(topic_prefix="nothing-here.")
    env = environment(made, str(made.bootstrap_servers), {})
    for arguments in (["records"], ["crawls"], ["status"], ["dead-letters", "list"]):
        result = CliRunner().invoke(make_app(), arguments, env=env)
        assert "crawl topics create" in str(result.exception), arguments
