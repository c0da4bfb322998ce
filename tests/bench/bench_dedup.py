"""Rate of one dedup worker: URLs a second and a CPU second, by the share of known URLs.

    python tests/bench/bench_dedup.py [--messages N] [--links N] [--known 0.9] [--keys N]

A broker is started (or `KAFKA_BOOTSTRAP_SERVERS` used), the table is filled with `--keys` rows by
a first worker, then the messages to measure are produced while no worker runs, and a worker is
started. Measured is from the end of its
recovery to its last commit. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from aiokafka import TopicPartition

from schemas import codec
from schemas.topics import DEDUP_APP, URLS, partition_of, physical
from schemas.url import url_id
from streams.broker import EmbeddedBroker
from streams.dedup.seeds import seed_batch
from streams.kafka.clients import make_admin, make_consumer, make_producer, started
from streams.kafka.topics import create
from streams.settings import Settings, env_name, load

ROOT = Path(__file__).parents[2]
HOSTS = [f"host-{number}.example" for number in range(48)]


def message(host: str, numbers: list[int]) -> tuple[bytes, bytes]:
    """A batch as parsers write it."""
    links: list[Any] = []
    for number in numbers:
        url = f"https://{host}/section-{number % 97}/article-{number}.html"
        links.append(
            {"url": url, "url_id": url_id("default", url), "priority": 0, "lastmod_at": None}
        )
    batch = {
        **seed_batch("default", links),
        "host": host,
        "via": "link",
        "depth": 3,
        "scope_host": host,
        "referrer": f"https://{host}/",
        "seeded_at": 1,
        "discovered_at": 1,
    }
    return host.encode(), codec.encode("url-batch", batch)


def known_messages(keys: int, links: int) -> list[tuple[bytes, bytes]]:
    """Messages that fill the table with `keys` rows."""
    per_host = keys // len(HOSTS)
    return [
        message(host, list(range(start, min(start + links, per_host))))
        for host in HOSTS
        for start in range(0, per_host, links)
    ]


def measured_messages(
    count: int, links: int, known: float, keys: int, seed: int
) -> list[tuple[bytes, bytes]]:
    """Messages of which a share of links is known."""
    rng = random.Random(seed)
    per_host = keys // len(HOSTS)
    fresh = dict.fromkeys(HOSTS, per_host)
    messages = []
    for _ in range(count):
        host = rng.choice(HOSTS)
        old = rng.sample(range(per_host), round(links * known))
        new = list(range(fresh[host], fresh[host] + links - len(old)))
        fresh[host] += len(new)
        numbers = old + new
        rng.shuffle(numbers)
        messages.append(message(host, numbers))
    return messages


async def produce(settings: Settings, messages: list[tuple[bytes, bytes]]) -> None:
    """Produce to `urls`, keyed by host."""
    topic = physical(URLS, settings.topic_prefix)
    async with started(make_producer(settings)) as producer:
        futures = [
            await producer.send(
                topic, value, key=key, partition=partition_of(key, settings.partitions)
            )
            for key, value in messages
        ]
        await asyncio.gather(*futures)


@contextlib.contextmanager
def spawned(settings: Settings, log: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A worker, ended with SIGTERM at the end of the block."""
    fields = ("bootstrap_servers", "topic_prefix", "partitions", "data_dir", "dedup_memory_mb")
    env = dict(os.environ) | {env_name(field): str(getattr(settings, field)) for field in fields}
    env["PYTHONPATH"] = str(ROOT)
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()


async def drained(settings: Settings) -> float:
    """Wait until the group has committed all of `urls`; the monotonic time."""
    tps = [
        TopicPartition(physical(URLS, settings.topic_prefix), number)
        for number in range(settings.partitions)
    ]
    group = physical(DEDUP_APP, settings.topic_prefix)
    async with (
        started(make_admin(settings)) as admin,
        started(make_consumer(settings)) as consumer,
    ):
        ends = await consumer.end_offsets(tps)
        while True:
            committed = await admin.list_consumer_group_offsets(group, partitions=tps)
            if all(max(0, committed[tp].offset) >= ends[tp] for tp in tps):
                return time.monotonic()
            await asyncio.sleep(0.1)


async def ready_at(log: Path) -> tuple[float, float, int]:
    """Monotonic time at which the worker was ready, its recovery's seconds and rows."""
    while True:
        text = await asyncio.to_thread(log.read_text)
        found = re.search(r"restored_rows=(\d+).*seconds=([0-9.]+)", text)
        if found:
            return time.monotonic(), float(found[2]), int(found[1])
        await asyncio.sleep(0.05)


async def run(args: argparse.Namespace, settings: Settings, folder: Path) -> dict[str, Any]:
    """One measurement."""
    worker = [sys.executable, "-m", "faust", "-A", "streams", "worker"]
    await create(settings)
    await produce(settings, known_messages(args.keys, args.links))
    with spawned(settings, folder / "fill.log", worker):
        await drained(settings)
    if args.recover:
        shutil.rmtree(settings.data_dir / "dedup")
    await produce(
        settings, measured_messages(args.messages, args.links, args.known, args.keys, args.seed)
    )
    log = folder / "measure.log"
    if args.profile:
        worker = [sys.executable, "-m", "cProfile", "-o", args.profile, *worker[1:]]
    with spawned(settings, log, worker) as process:
        began, recovery_s, rows = await ready_at(log)
        cpu = psutil.Process(process.pid).cpu_times()
        ended = await drained(settings)
        after = psutil.Process(process.pid).cpu_times()
        rss = psutil.Process(process.pid).memory_info().rss
    urls = args.messages * args.links
    cpu_s = after.user + after.system - cpu.user - cpu.system
    return {
        "urls": urls,
        "known": args.known,
        "keys": args.keys,
        "links": args.links,
        "seconds": round(ended - began, 2),
        "urls_per_s": round(urls / (ended - began)),
        "cpu_seconds": round(cpu_s, 2),
        "urls_per_cpu_s": round(urls / cpu_s),
        "rss_mb": rss // 2**20,
        "recovery_s": recovery_s,
        "recovered_rows": rows,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--links", type=int, default=50)
    parser.add_argument("--known", type=float, default=0.9)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, default=256)
    parser.add_argument("--recover", action="store_true", help="delete the folder in between")
    parser.add_argument("--profile", help="write cProfile data of the measured worker there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        external = os.environ.pop("KAFKA_BOOTSTRAP_SERVERS", None)
        for key in [key for key in os.environ if key.startswith("CRAWL_")]:
            del os.environ[key]
        values: dict[str, Any] = {
            "topic_prefix": f"bench-{os.getpid()}.",
            "data_dir": folder / "data",
            "dedup_memory_mb": args.memory,
        }
        if external:
            settings = load({}, bootstrap_servers=external, **values)
            result = asyncio.run(run(args, settings, folder))
        else:
            with EmbeddedBroker(folder / "broker") as broker:
                settings = load({}, bootstrap_servers=broker.bootstrap, **values)
                result = asyncio.run(run(args, settings, folder))
        print(json.dumps(result))


if __name__ == "__main__":
    main()
