"""Toy workers as processes, and what can be asked of them and of Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaConnectionError
from aiokafka.structs import OffsetAndMetadata

from schemas import codec
from schemas.topics import DEAD_LETTERS, FETCH_REQUESTS, FETCHER_GROUP, RECORDS, physical
from streams.kafka.clients import bootstrap, make_admin, make_consumer, make_producer, started
from streams.kafka.topics import create
from streams.settings import Settings, env_name
from tests.jsonl import written_rows

ROOT = Path(__file__).resolve().parents[2]


def environment(settings: Settings) -> dict[str, str]:
    """The process environment that loads equal settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CRAWL_")}
    for field, value in settings.model_dump(exclude_defaults=True).items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        env[env_name(field)] = text
    env["KAFKA_BOOTSTRAP_SERVERS"] = bootstrap(settings)
    env["PYTHONUNBUFFERED"] = "1"
    # Without compiled modules a worker's start takes seconds, and these tests start many.
    if env.pop("PYTHONDONTWRITEBYTECODE", None):
        env.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / "test-pycache"))
    return env


class Worker:
    """One toy worker process."""

    def __init__(
        self, settings: Settings, folder: Path, tag: str, room: int, outage_every_s: float
    ) -> None:
        self.tag = tag
        self.err = folder / f"{tag}-{time.monotonic_ns()}.err"
        options = json.dumps(
            {"folder": str(folder), "tag": tag, "room": room, "outage_every_s": outage_every_s}
        )
        with self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.toy_worker", options],
                cwd=ROOT,
                env=environment(settings),
                stdout=err,
                stderr=err,
            )

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    async def ended(self, timeout_s: float = 60.0) -> int:
        """Exit code. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while (code := self.process.poll()) is None:  # noqa: ASYNC110 - it is a process
                await asyncio.sleep(0.02)
        return code

    async def stop(self, timeout_s: float = 60.0) -> int:
        self.signal(signal.SIGTERM)
        return await self.ended(timeout_s)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    @property
    def output(self) -> str:
        return self.err.read_text("utf-8", "replace")


class Scene:
    """One test's deployment: topics, workers, log."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.workers: list[Worker] = []

    def worker(
        self, tag: str = "a", *, room: int = 50, outage_every_s: float = 60.0, **overrides: Any
    ) -> Worker:
        settings = self.settings.model_copy(update=overrides)
        worker = Worker(settings, self.folder, tag, room, outage_every_s)
        self.workers.append(worker)
        return worker

    def flag(self, name: str) -> None:
        (self.folder / name).touch()

    def unflag(self, name: str) -> None:
        (self.folder / name).unlink()

    def log(self, what: str | None = None, tag: str | None = None) -> list[dict[str, Any]]:
        found = written_rows(self.folder / "log.jsonl")
        return [row for row in found if what in (None, row["what"]) and tag in (None, row["tag"])]

    def times(self, what: str) -> Counter[Any]:
        """How often each message id is in the log under `what`."""
        return Counter(row["id"] for row in self.log(what))

    def shares(self, tag: str) -> int:
        """How many partitions a worker has by its last assignment."""
        found = self.log("assigned", tag)
        return len(found[-1]["partitions"]) if found else 0

    async def until(
        self, true: Callable[[], bool], timeout_s: float = 60.0, what: str = ""
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while not true():
            if time.monotonic() > deadline:
                tails = "\n".join(f"--- {w.tag}\n{w.output[-3000:]}" for w in self.workers)
                raise AssertionError(f"not within {timeout_s} s: {what or true}\n{tails}")
            await asyncio.sleep(0.05)

    async def until_said(self, what: str, tag: str, more_than: int = 0) -> None:
        await self.until(
            lambda: len(self.log(what, tag)) > more_than,
            what=f"{tag} said {what} more than {more_than} times",
        )

    async def until_ready(self, timeout_s: float = 60.0) -> None:
        """Until clients can start, time and again.

        A broker that was stopped is, some moments after it goes on, thrown out of its own cluster,
        and then comes back.
        """
        deadline = time.monotonic() + timeout_s
        times = 0
        while times < 10:
            try:
                async with started(make_admin(self.settings)):
                    times += 1
            except KafkaConnectionError:
                times = 0
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)

    async def until_committed(self, wanted: Mapping[int, int], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        async with started(make_admin(self.settings)) as admin:
            while True:
                found = {p: row.offset for p, row in (await self._committed(admin)).items()}
                if all(found.get(partition, 0) >= offset for partition, offset in wanted.items()):
                    return
                if time.monotonic() > deadline:
                    raise AssertionError(f"committed {found}, wanted {dict(wanted)}")
                await asyncio.sleep(0.1)

    async def committed(self) -> dict[int, OffsetAndMetadata]:
        """Committed offset and metadata, by partition of `fetch-requests`."""
        async with started(make_admin(self.settings)) as admin:
            return await self._committed(admin)

    async def _committed(self, admin: Any) -> dict[int, OffsetAndMetadata]:
        prefix = self.settings.topic_prefix
        try:
            rows = await admin.list_consumer_group_offsets(physical(FETCHER_GROUP, prefix))
        except GroupCoordinatorNotAvailableError:
            return {}
        topic = physical(FETCH_REQUESTS, prefix)
        return {
            partition.partition: row
            for partition, row in rows.items()
            if partition.topic == topic and row.offset >= 0
        }

    async def produce(
        self, jobs: Sequence[Mapping[str, Any]], topic: str = FETCH_REQUESTS
    ) -> dict[int, int]:
        """Produce jobs, to `partition` (or `id` modulo their number); the ends, by partition."""
        name = physical(topic, self.settings.topic_prefix)
        ends: dict[int, int] = {}
        async with started(make_producer(self.settings)) as producer:
            futures = [
                await producer.send(
                    name,
                    json.dumps(job).encode(),
                    key=b"k",
                    partition=job.get("partition", job["id"] % self.settings.partitions),
                )
                for job in jobs
            ]
            for future in futures:
                sent = await future
                ends[sent.partition] = max(ends.get(sent.partition, 0), sent.offset + 1)
        return ends

    async def read(self, topic: str) -> list[Any]:
        """All messages of a topic."""
        name = physical(topic, self.settings.topic_prefix)
        async with started(make_consumer(self.settings)) as consumer:
            partitions = [
                TopicPartition(name, number) for number in range(self.settings.partitions)
            ]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            ends = await consumer.end_offsets(partitions)
            rows: list[Any] = []
            while len(rows) < sum(ends.values()):
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    rows += batch
            return rows

    async def outputs(self) -> Counter[Any]:
        """How often each id was produced."""
        return Counter(json.loads(row.value)["id"] for row in await self.read(RECORDS))

    async def dead_letters(self) -> list[dict[str, Any]]:
        return [codec.decode("dead-letter", row.value) for row in await self.read(DEAD_LETTERS)]


@contextlib.asynccontextmanager
async def scene(settings: Settings, folder: Path) -> AsyncIterator[Scene]:
    """A scene with its topics; its workers are killed at the end."""
    await create(settings)
    made = Scene(settings, folder)
    try:
        yield made
    finally:
        for worker in made.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
