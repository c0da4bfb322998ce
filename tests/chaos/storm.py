"""The run: a crawl, the faults of a schedule, rest, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from aiokafka.errors import GroupIdNotFound, KafkaError
from aiokafka.protocol.admin import DeleteGroupsRequest

from schemas import codec
from schemas.crawl import CrawlSpec
from schemas.errors import TransientInfraError
from schemas.topics import (
    FETCH_REQUESTS,
    FETCH_RESULTS,
    URLS,
    physical,
)
from streams.broker import EmbeddedBroker
from streams.broker.probe import is_free
from streams.crawls.submit import Submitter
from streams.dedup.seeds import seed_batch
from streams.kafka.clients import make_admin, make_producer, started
from streams.kafka.messages import Out
from streams.kafka.topics import create
from streams.settings import Settings, load
from streams.supervise.children import GROUPS
from tests.chaos.schedule import ROLES, Fault
from tests.chaos.site import Site
from tests.chaos.verdict import account, rebalances, rest, say
from tests.chaos.watch import Watch
from tests.chaos.workers import Worker, Workers

CRAWL: Final = "chaos"
FEED_S: Final = 4.0
FAULT_S: Final = 900.0
"""The most that a fault may take to strike; those of the broker wait for each other."""
STEP_S: Final = 6.0
"""How long a clock stays wrong."""
HEIR_S: Final = 60.0
"""The most that a dedup worker is given to begin its recovery."""
_ALL: Final = ("fetcher", "dedup")
_DISK: Final = "64m"


class Storm:
    """One run.

    Args:
        folder: for everything.
        seed: of the site, and of what the schedule leaves open.
        faults: the schedule.
        full_disk: whether a small disk of its own can be mounted for one dedup worker.
        overrides: of settings.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        faults: list[Fault],
        *,
        full_disk: bool = False,
        **overrides: Any,
    ) -> None:
        self._folder = folder
        self._rng = random.Random(seed)
        self._seed = seed
        self._faults = faults
        self._site = Site(seed)
        self._small_disk = full_disk
        self._overrides = overrides
        self._broker = EmbeddedBroker(folder / "broker", port=_port(), heap_mb=384)
        self._broker_turn = asyncio.Lock()
        self._turns = {role: asyncio.Lock() for role in ROLES}
        """Held by faults that need a role's workers for themselves."""
        self._over = asyncio.Event()
        self._spoiled: list[tuple[str, int, int]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: list[str] = []
        """Failures of the harness itself: a run with any proves nothing."""
        self.kills: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        """Faults that struck, by kind."""

    async def run(self) -> dict[str, Any]:
        """The verdict, as the JSON object that is printed."""
        began = time.monotonic()
        with self._broker as broker, self._disk():
            self._settings = self._make_settings(broker.bootstrap)
            await self._prepare()
            self._watch = Watch(self._settings)
            self._workers = Workers(self._settings, self._folder, self._exited)
            try:
                async with self._site:
                    await self._storm()
                    rested = await rest(self._settings)
                    return await self._verdict(rested, time.monotonic() - began)
            finally:
                for task in self._tasks:
                    task.cancel()
                self._workers.end()

    def _make_settings(self, bootstrap: str) -> Settings:
        return load(
            {},
            agent="chaosbot",
            contact="https://chaos.example/",
            bootstrap_servers=bootstrap,
            partitions=6,
            data_dir=self._folder / "data",
            blob_url=f"file://{self._folder / 'blobs'}",
            allow_networks="127.0.0.0/8",
            session_timeout_s=8.0,
            commit_interval_s=0.5,
            drain_timeout_s=15.0,
            delivery_timeout_s=15.0,
            retry_tiers_s="0.5,1,2,4,8",
            concurrency=16,
            window=200,
            dedup_memory_mb=32,
            log_format="json",
        ).model_copy(update=self._overrides)

    async def _prepare(self) -> None:
        """Topics and the crawl's spec; a new broker on a busy machine takes its time."""
        for last in (False, False, True):
            try:
                await create(self._settings)
                async with Submitter(self._settings) as submitter:
                    spec = CrawlSpec(crawl=CRAWL, scope="any", delay_s=0.0, per_host=4)
                    await submitter.submit_spec(spec, 1)
            except TransientInfraError:
                if last:
                    raise
            else:
                return

    # The storm.

    async def _storm(self) -> None:
        looker = self._begin(self._look())
        feeder = self._begin(self._feed())
        began = time.monotonic()
        for fault in self._faults:
            await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
            say(f"{fault.at:7.1f} s  {fault.kind} {fault.role} {fault.seconds or ''}")
            self._begin(self._strike(fault))
        while left := self._tasks - {looker, feeder}:
            await asyncio.wait(left)
        self._over.set()
        await feeder
        self._workers.wanted = dict.fromkeys(ROLES, 2)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            say(f"harness: {error!r}")
            self._broken.append(repr(error))

    async def _look(self) -> None:
        while True:
            self._workers.look()
            await asyncio.sleep(0.1)

    async def _feed(self) -> None:
        while not self._over.is_set():
            await self._seed_island()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), FEED_S)

    async def _seed_island(self) -> None:
        url = self._site.grow()
        batch = seed_batch(CRAWL, [{"url": url, "url_id": None, "priority": 0, "lastmod_at": None}])
        await self._produce([Out(URLS, b"seed", codec.encode("url-batch", batch))])

    async def _produce(self, outs: list[Out]) -> None:
        """Produce, however long the broker is away; a seed may come twice."""
        while True:
            try:
                async with Submitter(self._settings) as submitter:
                    await submitter.deliver(outs)
            except (TransientInfraError, KafkaError, TimeoutError, OSError):
                await asyncio.sleep(0.5)
            else:
                return

    def _exited(self, worker: Worker, code: int) -> None:
        """A process ended by itself: what it had in flight is done again."""
        say(f"           {worker.role}-{worker.number} ended with {code}")
        if worker.role != "parser":
            self._begin(self._watch.take(f"exit {code} of a {worker.role}", [worker.role]))

    async def _verdict(self, rested: bool, seconds: float) -> dict[str, Any]:
        found = await account(self._settings, self._site, self._spoiled, self._watch.snapshots)
        return {
            "kills": dict(self.kills),
            "faults": dict(self.done),
            **found,
            "rebalances": rebalances(self._folder),
            "exits": dict(self._workers.exits),
            "at_rest": rested,
            "harness_failures": self._broken,
            "seconds": round(seconds, 1),
            "seed": self._seed,
        }

    # Faults.

    async def _strike(self, fault: Fault) -> None:
        step = getattr(self, "_" + fault.kind.replace("-", "_"))
        async with asyncio.timeout(FAULT_S):
            await step(fault)
        self.done[fault.kind] += 1

    async def _victim(self, fault: Fault) -> Worker:
        while (worker := self._workers.pick(fault.role, fault.pick)) is None:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.2)
        return worker

    async def _kill(self, fault: Fault) -> None:
        worker = await self._victim(fault)
        self._workers.kill(worker)
        self.kills[fault.role] += 1
        if fault.role != "parser":
            await self._watch.take(f"kill {fault.role}", [fault.role])

    async def _kill_child(self, fault: Fault) -> None:
        while not (children := self._workers.children(await self._victim(fault))):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(children[fault.pick % len(children)], signal.SIGKILL)
            self.kills["parse process"] += 1

    async def _kill_recovering(self, fault: Fault) -> None:
        """A worker without data is killed as soon as it has opened its databases."""
        async with self._turns["dedup"]:
            while True:
                worker = await self._restoring(await self._kill_and_wipe(fault))
                if worker is None:
                    continue
                self._workers.kill(worker)
                self.kills["dedup"] += 1
                await self._watch.take("kill of a dedup that recovers", ["dedup"])
                if '"ready"' not in self._workers.log(worker):
                    return

    async def _restoring(self, number: int) -> Worker | None:
        """The heir of an emptied folder, once it restores its table; None: none in time."""
        deadline = time.monotonic() + HEIR_S
        while time.monotonic() < deadline:
            for worker in self._workers.of("dedup"):
                tables = self._workers.data_dir(number).glob("dedup/1/v1/tables/seen-*.db")
                if worker.number == number and any(tables):
                    return worker
            await asyncio.sleep(0.005)
        return None

    async def _kill_rebalancing(self, fault: Fault) -> None:
        """A member more begins a rebalance; in the middle of it another is killed."""
        group = physical(GROUPS[fault.role], self._settings.topic_prefix)
        async with self._turns[fault.role]:
            self._workers.wanted[fault.role] += 1
            try:
                await self._rebalancing(group)
                worker = await self._victim(fault)
                self._workers.kill(worker)
                self.kills[fault.role] += 1
            finally:
                self._workers.wanted[fault.role] = max(1, self._workers.wanted[fault.role] - 1)
            if fault.role != "parser":
                await self._watch.take(f"kill {fault.role} in a rebalance", [fault.role])

    async def _rebalancing(self, group: str) -> None:
        while True:
            with contextlib.suppress(KafkaError, OSError, TimeoutError):
                async with started(make_admin(self._settings)) as admin:
                    while True:
                        [answer] = await admin.describe_consumer_groups([group])
                        if answer.groups[0][2] in ("PreparingRebalance", "CompletingRebalance"):
                            return
                        await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)

    async def _clock(self, fault: Fault) -> None:
        worker = await self._victim(fault)
        self._watch.clock_steps.append((time.time(), fault.seconds))
        self._workers.step(worker, fault.seconds)
        await asyncio.sleep(STEP_S)
        self._watch.clock_steps.append((time.time(), fault.seconds))
        self._workers.step(worker, 0.0)

    async def _wipe(self, fault: Fault) -> None:
        await self._kill_and_wipe(fault)

    async def _kill_and_wipe(self, fault: Fault) -> int:
        worker = await self._victim(fault)
        self._workers.kill(worker)
        self.kills["dedup"] += 1
        shutil.rmtree(self._workers.data_dir(worker.number) / "dedup", ignore_errors=True)
        await self._watch.take("wipe dedup", ["dedup"])
        return worker.number

    async def _stop(self, fault: Fault) -> None:
        worker = await self._victim(fault)
        self._workers.stop(worker)
        if fault.role != "parser":
            self._begin(self._watch.take(f"stop {fault.role}", [fault.role]))
        await asyncio.sleep(fault.seconds)
        self._workers.go_on(worker)

    async def _term(self, fault: Fault) -> None:
        self._workers.term(await self._victim(fault))

    async def _scale(self, fault: Fault) -> None:
        self._workers.scale(fault.role, fault.number)

    async def _kill_broker(self, fault: Fault) -> None:
        async with self._broker_turn:
            gone = time.time()
            assert self._broker.pid is not None
            os.kill(self._broker.pid, signal.SIGKILL)
            self.kills["broker"] += 1
            await asyncio.sleep(1.0)
            await self._bring_back(gone)

    async def _broker_away(self, fault: Fault) -> None:
        async with self._broker_turn:
            gone = time.time()
            await asyncio.to_thread(self._broker.stop)
            await asyncio.sleep(fault.seconds)
            await self._bring_back(gone)

    async def _bring_back(self, gone: float) -> None:
        await asyncio.to_thread(self._broker.stop)
        await asyncio.to_thread(self._broker.start)
        await self._watch.take("broker away", _ALL, since=gone)

    async def _garbage(self, fault: Fault) -> None:
        async with self._broker_turn:
            await self._spoil()

    async def _spoil(self) -> None:
        """Messages that nobody can read, and tombstones, on every topic that is consumed."""
        strange = b"\xc3\x01" + self._rng.randbytes(8) + b"from a newer version"
        wrong = codec.encode("progress", _PROGRESS)
        rows = [
            (topic, value)
            for topic in (URLS, FETCH_REQUESTS, FETCH_RESULTS)
            for value in (strange, b"\x00\xff" + self._rng.randbytes(30), wrong)
        ]
        async with started(make_producer(self._settings)) as producer:
            for topic, value in rows:
                name = physical(topic, self._settings.topic_prefix)
                sent = await producer.send_and_wait(name, value, key=self._rng.randbytes(4))
                self._spoiled.append((topic, sent.partition, sent.offset))
                await producer.send_and_wait(name, None, key=self._rng.randbytes(4))

    async def _forget_offsets(self, fault: Fault) -> None:
        group = GROUPS[fault.role]
        async with self._turns[fault.role], self._broker_turn:
            self._workers.wanted[fault.role] = 0
            while self._workers.of(fault.role):
                for worker in self._workers.of(fault.role):
                    if not worker.stopped:
                        self._workers.term(worker)
                await asyncio.sleep(0.2)
            await self._delete_group(physical(group, self._settings.topic_prefix))
            self._workers.wanted[fault.role] = 2

    async def _delete_group(self, group: str) -> None:
        """Delete a group once it is empty: its dead members need a session time-out."""
        while True:
            async with started(make_admin(self._settings)) as admin:
                coordinator = await admin.find_coordinator(group)
                answer = await admin._client.send(coordinator, DeleteGroupsRequest([group]))
                if answer.results[0][1] in (0, GroupIdNotFound.errno):
                    return
            await asyncio.sleep(0.5)

    async def _full_disk(self, fault: Fault) -> None:
        filler = self._disk_dir() / "filler"
        free = shutil.disk_usage(self._disk_dir()).free
        with contextlib.suppress(OSError), filler.open("wb") as out:
            while True:
                out.write(bytes(min(free, 1 << 16)))
        await asyncio.sleep(fault.seconds)
        filler.unlink()

    def _disk_dir(self) -> Path:
        return self._folder / "dedup-0"

    @contextlib.contextmanager
    def _disk(self) -> Any:
        """A small disk for the first dedup worker's folder."""
        self._disk_dir().mkdir()
        if self._small_disk:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs"]
            subprocess.run([*mount, str(self._disk_dir())], check=True)
        try:
            yield
        finally:
            if self._small_disk:
                subprocess.run(["umount", "-l", str(self._disk_dir())], check=True)


def _port() -> int:
    """A free port below those that outgoing connections get.

    While the broker is away its clients try to connect all the time, and sooner or later one of
    them is given the very port that it wants to reach.
    """
    return next(port for port in iter(lambda: random.randrange(12_000, 32_000), 0) if is_free(port))


_PROGRESS: Final = {
    "stage": "fetcher",
    "topic": "fetch-requests",
    "partition": 0,
    "crawl": CRAWL,
    "offset": 0,
    "at": 0,
    "counters": {},
}
