"""The dedup worker as a process: `faust -A streams worker` against a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition

from schemas import codec
from schemas.records import DeadLetter, FetchRequest, Progress, UrlBatch
from schemas.topics import (
    BY_NAME,
    DEAD_LETTERS,
    DEDUP_APP,
    FETCH_REQUESTS,
    PROGRESS,
    SEEN_CHANGELOG,
    URLS,
    partition_of,
    physical,
)
from schemas.url import url_id
from streams.dedup.seeds import seed_batch
from streams.kafka.clients import make_admin, make_consumer, make_producer, started
from streams.kafka.topics import create
from streams.settings import Settings, env_name

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
HOSTS = [f"h{number}.example" for number in range(16)]


class World:
    """One deployment: its topics, its dedup workers, a plain client to look at all topics."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, Path] = {}
        self.began: dict[str, int] = {}

    def spawn(self, name: str, largest_file: int | None = None) -> subprocess.Popen[bytes]:
        """Start, or start again, the worker of this instance name.

        `largest_file`: bytes after which its writes to a file fail, as on a full disk.
        """
        fields = (
            *("bootstrap_servers", "topic_prefix", "partitions", "data_dir"),
            *("session_timeout_s", "commit_interval_s", "delivery_timeout_s"),
        )
        env = {key: value for key, value in os.environ.items() if not key.startswith("CRAWL_")}
        env |= {env_name(field): str(getattr(self.settings, field)) for field in fields}
        env |= {"CRAWL_INSTANCE": name, "PYTHONPATH": str(ROOT)}
        # Workers start several times a test: compile what they import once.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PYTHONPYCACHEPREFIX"] = str(self.settings.data_dir.parents[1] / "pycache")
        self.settings.data_dir.mkdir(parents=True, exist_ok=True)
        self.logs[name] = self.settings.data_dir / f"{name}.log"
        self.began[name] = self.logs[name].stat().st_size if self.logs[name].exists() else 0
        with self.logs[name].open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "faust", "-A", "streams", "worker"],
                env=env,
                cwd=ROOT,
                stdout=out,
                stderr=out,
            )
        if largest_file is not None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest_file, largest_file))
        self.processes[name] = process
        return process

    async def end(self, name: str, number: signal.Signals, timeout_s: float = 40.0) -> int:
        """Send a signal and wait for the end; the exit code."""
        process = self.processes[name]
        process.send_signal(number)
        return await asyncio.to_thread(process.wait, timeout_s)

    def log(self, name: str) -> str:
        """What the worker has logged since it was started last."""
        return self.logs[name].read_bytes()[self.began[name] :].decode(errors="replace")

    def close(self) -> None:
        """End what is left."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    async def ready(self, name: str) -> None:
        """Wait until the worker, since it was started last, has got partitions."""
        await self.until(lambda: " ready " in self.log(name), f"{name} ready")

    async def until(self, holds: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Poll a condition; on a time-out, fail with the workers' logs."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                logs = "\n".join(f"--- {name}\n{self.log(name)[-3000:]}" for name in self.logs)
                pytest.fail(f"not in {timeout_s} s: {what}\n{logs}")
            await asyncio.sleep(0.1)

    def topic(self, name: str) -> str:
        return physical(name, self.settings.topic_prefix)

    def partitions(self, name: str) -> list[TopicPartition]:
        count = BY_NAME[name].partitions or self.settings.partitions
        return [TopicPartition(self.topic(name), number) for number in range(count)]

    async def produce(self, *messages: tuple[bytes | None, bytes | None]) -> None:
        """Produce (key, value) pairs to `urls`, each to the partition of its key."""
        async with started(make_producer(self.settings)) as producer:
            futures = []
            for key, value in messages:
                partition = None if key is None else partition_of(key, self.settings.partitions)
                futures.append(
                    await producer.send(self.topic(URLS), value, key=key, partition=partition)
                )
            await asyncio.gather(*futures)

    async def read(self, name: str) -> list[Any]:
        """All messages of a topic, as aiokafka has them."""
        messages: list[Any] = []
        async with started(make_consumer(self.settings)) as consumer:
            tps = self.partitions(name)
            consumer.assign(tps)
            ends = await consumer.end_offsets(tps)
            await consumer.seek_to_beginning(*tps)
            while True:
                behind = [tp for tp in tps if await consumer.position(tp) < ends[tp]]
                if not behind:
                    return messages
                for batch in (await consumer.getmany(*behind, timeout_ms=500)).values():
                    messages.extend(batch)

    async def requests(self) -> Counter[str]:
        """How often each URL was requested."""
        decoded: list[FetchRequest] = [
            codec.decode("fetch-request", message.value)
            for message in await self.read(FETCH_REQUESTS)
        ]
        return Counter(request["url"] for request in decoded)

    async def letters(self) -> list[DeadLetter]:
        return [
            codec.decode("dead-letter", message.value) for message in await self.read(DEAD_LETTERS)
        ]

    async def counts(self) -> Counter[str]:
        """Published counters of all partitions and crawls."""
        newest: dict[bytes, Progress] = {}
        for message in await self.read(PROGRESS):
            newest[message.key] = codec.decode("progress", message.value)
        total: Counter[str] = Counter()
        for row in newest.values():
            total.update(row["counters"])
        return total

    async def drained(self, timeout_s: float = 60.0) -> None:
        """Wait until the group has committed everything there is."""
        tps = self.partitions(URLS)
        deadline = time.monotonic() + timeout_s
        async with (
            started(make_admin(self.settings)) as admin,
            started(make_consumer(self.settings)) as consumer,
        ):
            while True:
                group = self.topic(DEDUP_APP)
                committed = await admin.list_consumer_group_offsets(group, partitions=tps)
                ends = await consumer.end_offsets(tps)
                if all(max(0, committed[tp].offset) == ends[tp] for tp in tps):
                    # Counts are published right after the commit.
                    await asyncio.sleep(0.3)
                    return
                if time.monotonic() > deadline:
                    logs = "\n".join(f"{name}\n{self.log(name)[-3000:]}" for name in self.logs)
                    pytest.fail(f"not drained: {committed} of {ends}\n{logs}")
                await asyncio.sleep(0.1)


@pytest.fixture
async def world(settings: Callable[..., Settings]) -> AsyncIterator[World]:
    made = World(settings(delivery_timeout_s=20.0))
    await create(made.settings)
    try:
        yield made
    finally:
        made.close()


def batch(host: str, numbers: list[int]) -> tuple[bytes, bytes]:
    urls = [f"https://{host}/{number}" for number in numbers]
    whole: UrlBatch = {
        **seed_batch(
            "default",
            [
                {"url": url, "url_id": url_id("default", url), "priority": 0, "lastmod_at": None}
                for url in urls
            ],
        ),
        "host": host,
        "via": "link",
        "depth": 1,
        "scope_host": host,
    }
    return host.encode(), codec.encode("url-batch", whole)


def load_of(seed: int, messages: int, *, links: int = 20, space: int = 400) -> list[Any]:
    """Messages with many duplicates, within and between them."""
    rng = random.Random(seed)
    return [
        batch(rng.choice(HOSTS), [rng.randrange(space) for _ in range(links)])
        for _ in range(messages)
    ]


def urls_of(messages: list[tuple[bytes, bytes]]) -> Iterator[str]:
    for _, value in messages:
        for link in codec.decode("url-batch", value)["links"]:
            yield link["url"]


async def test_every_form_of_message(world: World) -> None:
    world.spawn("1")
    away = batch("moved.example", [1, 2])
    await world.produce(
        (None, b"https://a.example/\nhttps://b.example/x#y\nnot a url\n"),
        (None, b'{"urls": ["https://c.example/", "HTTPS://C.example:443/"], "priority": 3}'),
        (None, b'{"url": "https://c.example/", "crawl": "unheard-of"}'),
        (b"k", b"\xff\xfe garbage"),
        (b"k", b"\xc3\x01" + bytes(8) + b"newer"),
        (b"k", b""),
        (b"k", None),
        (b"moved.example", away[1]),
        (b"some other key", away[1]),
    )
    await world.drained()
    assert await world.requests() == Counter(
        [
            "https://a.example/",
            "https://b.example/x",
            "https://c.example/",
            "https://moved.example/1",
            "https://moved.example/2",
        ]
    )
    letters = await world.letters()
    assert Counter(letter["reason"] for letter in letters) == Counter(
        {"undecodable": 2, "unknown_schema": 1, "invalid_url": 1, "unknown_crawl": 1}
    )
    by_reason = {letter["reason"]: letter for letter in letters if letter["payload"]}
    assert by_reason["undecodable"]["payload"] == b"\xff\xfe garbage"
    assert by_reason["undecodable"]["origin_key"] == b"k"
    assert by_reason["invalid_url"]["payload"] == b"not a url"
    assert {letter["origin_topic"] for letter in letters} == {URLS}
    assert await world.counts() == Counter(
        {
            "admitted": 5,
            "duplicates": 3,
            "rejected.invalid_url": 1,
            "rejected.unknown_crawl": 1,
        }
    )
    for message in await world.read(FETCH_REQUESTS):
        assert message.partition == partition_of(message.key, world.settings.partitions)

    other = World(world.settings)
    try:
        process = other.spawn("1")
        assert await asyncio.to_thread(process.wait, 40) == 2
        assert "held by another running worker" in other.log("1")
    finally:
        other.close()
    assert await world.end("1", signal.SIGTERM) == 0


async def test_kills_and_a_zombie_lose_nothing(world: World) -> None:
    """Two workers: kill -9 at random moments, a folder deleted, a pause beyond the session."""
    rng = random.Random(11)
    for name in ("1", "2"):
        world.spawn(name)
    await world.ready("1")
    messages = load_of(1, 1_500)
    feeding = asyncio.create_task(feed(world, messages, parts=30, pause_s=0.5))
    for kill in range(3):
        await asyncio.sleep(rng.uniform(0.3, 2.5))
        name = rng.choice(["1", "2"])
        await world.end(name, signal.SIGKILL)
        if kill == 1:
            shutil.rmtree(world.settings.data_dir / "dedup" / name)
        world.spawn(name)
    await world.ready("2")
    zombie = world.processes["2"]
    zombie.send_signal(signal.SIGSTOP)
    await asyncio.sleep(world.settings.session_timeout_s + 2.0)
    zombie.send_signal(signal.SIGCONT)
    await feeding
    await world.drained(60.0)
    requests = await world.requests()
    assert set(requests) == set(urls_of(messages))
    # What is requested twice was on its way between two acknowledgements when a kill came.
    assert requests.total() - len(requests) <= 4 * 200
    counts = await world.counts()
    assert counts["admitted"] <= len(requests)
    assert counts["admitted"] + counts["duplicates"] <= len(messages) * 20
    assert zombie.poll() is None
    assert await world.end("2", signal.SIGTERM) == 0


async def feed(
    world: World, messages: list[tuple[bytes, bytes]], *, parts: int, pause_s: float
) -> None:
    size = len(messages) // parts
    for start in range(0, len(messages), size):
        await world.produce(*messages[start : start + size])
        await asyncio.sleep(pause_s)


async def test_graceful_steps_request_nothing_twice_and_count_exactly(world: World) -> None:
    messages = load_of(2, 900)
    world.spawn("1")
    await world.ready("1")
    feeding = asyncio.create_task(feed(world, messages, parts=30, pause_s=0.25))
    world.spawn("2")
    await world.ready("2")
    began = time.monotonic()
    assert await world.end("1", signal.SIGTERM) == 0
    assert time.monotonic() - began < 15.0
    world.spawn("1")
    await world.ready("1")
    assert await world.end("2", signal.SIGTERM) == 0
    await feeding
    await world.drained()
    requests = await world.requests()
    assert requests == Counter(set(urls_of(messages)))
    assert await world.counts() == Counter(
        {"admitted": len(requests), "duplicates": len(messages) * 20 - len(requests)}
    )


async def test_the_table_moves_survives_and_is_rebuilt(world: World) -> None:
    messages = load_of(3, 200)
    unique = set(urls_of(messages))
    world.spawn("1")
    await world.produce(*messages)
    await world.drained()
    assert await world.end("1", signal.SIGTERM) == 0

    # Another worker, without any local state: all is known.
    world.spawn("2")
    await world.produce(*messages)
    await world.drained()
    assert f"restored_rows={len(unique) + 4}" in world.log("2")
    assert await world.end("2", signal.SIGTERM) == 0

    # Its folder is deleted.
    shutil.rmtree(world.settings.data_dir / "dedup" / "2")
    world.spawn("2")
    await world.produce(*messages)
    await world.drained()
    assert await world.end("2", signal.SIGTERM) == 0

    # The first again, with what it had: nothing was added since, so nothing is restored.
    world.spawn("1")
    await world.produce(*messages)
    await world.drained()
    assert await world.end("1", signal.SIGTERM) == 0
    assert "restored_rows=0" in world.log("1")
    assert await world.requests() == Counter(unique)
    rows = [message.key for message in await world.read(SEEN_CHANGELOG)]
    assert len(rows) == len(unique) + 4

    # The changelog is made anew: what a folder has of the old one is not trusted.
    async with started(make_admin(world.settings)) as admin:
        await admin.delete_topics([world.topic(SEEN_CHANGELOG)])
    await asyncio.sleep(1.0)
    await create(world.settings)
    world.spawn("1")
    await world.produce(*messages)
    await world.drained()
    assert "it is rebuilt" in world.log("1")
    assert await world.requests() == Counter(dict.fromkeys(unique, 2))


async def test_kills_while_the_table_is_restored(world: World) -> None:
    """Each heir dies in its recovery, later than the one before it; the last one is let live."""
    messages = load_of(5, 300)
    world.spawn("1")
    await world.produce(*messages)
    await world.drained()
    await world.end("1", signal.SIGKILL)
    shutil.rmtree(world.settings.data_dir / "dedup" / "1")
    tables = world.settings.data_dir / "dedup" / "1" / "v1" / "tables"
    for databases in (1, world.settings.partitions, world.settings.partitions):
        world.spawn("1")
        await world.until(
            lambda wanted=databases: len(list(tables.glob("seen-*.db/CURRENT"))) >= wanted,
            f"{databases} databases",
        )
        await world.end("1", signal.SIGKILL)
    world.spawn("1")
    await world.produce(*messages)
    await world.drained()
    assert await world.requests() == Counter(set(urls_of(messages)))
    assert await world.end("1", signal.SIGTERM) == 0


async def test_a_full_disk_ends_the_worker_and_loses_nothing(world: World) -> None:
    messages = load_of(6, 400, links=50, space=2_000)
    process = world.spawn("1", largest_file=100_000)
    await world.produce(*messages)
    assert await asyncio.to_thread(process.wait, 60) == 75
    assert "dedup table" in world.log("1")
    begun = await world.requests()
    assert begun
    world.spawn("1")
    await world.drained()
    requests = await world.requests()
    assert set(requests) == set(urls_of(messages)) > set(begun)


async def test_wrong_topics_end_the_start_with_what_to_run(
    settings: Callable[..., Settings],
) -> None:
    world = World(settings())
    try:
        process = world.spawn("1")
        code = await asyncio.to_thread(process.wait, 40)
        assert code == 2
        assert "crawl topics create" in world.log("1")
    finally:
        world.close()
