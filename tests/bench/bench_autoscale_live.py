"""`crawl up --autoscale` under a burst and under politeness, on this machine.

    python tests/bench/bench_autoscale_live.py [--urls 20000] [--hosts 200] [--polite-s 90]

Burst: all URLs are seeded at once, spread over loopback hosts, with no delay. Polite: 1,000 URLs of
one host with 1 s delay (which would take 1,000 s), watched for `--polite-s`. Prints one line of
JSON: the time to the last record beside the drain target, cores left idle, peak sizes, the least
time between two changes of one role, and all changes with their reasons.

Fails when a URL is lost, when nothing grew (a role whose one worker meets the target need not),
when a role did not become small again, when it changed twice within a window, or when the polite
crawl was scaled. A drain target that was missed is told and is no failure: the web server, the
broker and all workers share this machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.broker import status

ROOT = Path(__file__).resolve().parents[2]
CRAWL = [sys.executable, "-c", "from streams.cli import main; main()"]
WINDOW_S = 20.0
INTERVAL_S = 5.0
PARTITIONS = 12
PAGE = b"<!doctype html><title>page</title><h1>Page</h1><p>" + b"words " * 300
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (
    len(PAGE),
    PAGE,
)


def serve(hosts: int, ready: Connection) -> None:
    """A web server on 127.0.1.1, 127.0.1.2 and so on, all on one port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET /robots.txt"):
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                else:
                    writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        first = await asyncio.start_server(answer, "127.0.1.1", 0)
        port = first.sockets[0].getsockname()[1]
        others = [f"127.0.1.{number}" for number in range(2, hosts + 1)]
        if others:
            await asyncio.start_server(answer, others, port)
        ready.send(port)
        await asyncio.Event().wait()

    asyncio.run(main())


class Deployment:
    """`crawl up --autoscale` in a data folder of its own."""

    def __init__(self, folder: Path, hosts: int) -> None:
        self.folder = folder
        ours = ("CRAWL_", "KAFKA_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.env = env | {
            "CRAWL_DATA_DIR": str(folder / "data"),
            "CRAWL_AGENT": "crawlstream-bench",
            "CRAWL_CONTACT": "https://bot.example/",
            "CRAWL_ALLOW_NETWORKS": "127.0.0.0/8",
            "CRAWL_PARTITIONS": str(PARTITIONS),
            "CRAWL_SESSION_TIMEOUT_S": "10",
        }
        here, there = multiprocessing.Pipe()
        self.server = multiprocessing.Process(target=serve, args=(hosts, there), daemon=True)
        self.server.start()
        self.port = int(here.recv())

    def crawl(self, *arguments: str) -> str:
        done = subprocess.run(
            [*CRAWL, *arguments], env=self.env, cwd=ROOT, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"crawl {arguments}: {done.stderr[-3000:]}")
        return done.stdout

    def up(self, drain_s: float) -> None:
        self.crawl(
            "up", "--autoscale", "--most", "4", "--drain", str(drain_s),
            "--down-window", str(WINDOW_S), "--interval", str(INTERVAL_S),
        )  # fmt: skip

    def seed(self, name: str, urls: list[str], delay_s: float) -> None:
        spec = self.folder / f"{name}.yaml"
        rules = {"scope": "host", "delay_s": delay_s, "adaptive_factor": 0.0, "max_depth": 0}
        spec.write_text(yaml.safe_dump(rules), encoding="utf-8")
        seeds = self.folder / f"{name}.txt"
        seeds.write_text("\n".join(urls), encoding="utf-8")
        self.crawl("seed", "--crawl", name, "--spec", str(spec), "--seeds", str(seeds))

    def urls(self, name: str) -> set[str]:
        text = self.crawl("records", "--crawl", name, "--fields", "url")
        return {json.loads(line)["url"] for line in text.splitlines() if line}

    def records(self) -> int:
        """Messages on `records`, repeats included: a look at log ends, which costs nothing."""

        async def count() -> int:
            bootstrap = status(self.folder / "data").bootstrap
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
            await consumer.start()
            try:
                ends = await consumer.end_offsets(
                    [TopicPartition("records", number) for number in range(PARTITIONS)]
                )
            finally:
                await consumer.stop()
            return sum(ends.values())

        return asyncio.run(count())

    def decisions(self) -> list[dict[str, Any]]:
        path = self.folder / "data" / "logs" / "autoscale.jsonl"
        text = path.read_text("utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # the last line may be half written
        return [json.loads(line) for line in whole.splitlines()]

    def close(self) -> None:
        self.crawl("down")
        self.server.terminate()


def burst(deployment: Deployment, urls: int, hosts: int) -> dict[str, Any]:
    """All at once; until every URL has a record and the groups are small again."""
    wanted = {
        f"http://127.0.1.{number % hosts + 1}:{deployment.port}/{number}" for number in range(urls)
    }
    began, idle_before = time.monotonic(), idle_s()
    deployment.seed("burst", sorted(wanted), 0.0)
    seeded_s = time.monotonic() - began
    found: set[str] = set()
    while len(found) < urls and time.monotonic() - began < 900:
        while deployment.records() < urls and time.monotonic() - began < 900:
            time.sleep(1)
        drained_s, idle_after = time.monotonic() - began, idle_s()
        found = deployment.urls("burst")
    # Back to one: a window of evidence each, and the cooldowns between.
    while time.monotonic() - began < drained_s + 240:
        last = {line["role"]: line for line in deployment.decisions()[-4:]}
        if all(line["workers"] == 1 for line in last.values()):
            break
        time.sleep(2)
    return {
        "urls": urls,
        "lost": len(wanted - found),
        "seeded_s": round(seeded_s, 1),
        "drained_s": round(drained_s, 1),
        "pages_per_s": round(urls / drained_s, 1),
        "cores_idle": round((idle_after - idle_before) / drained_s, 2),
        "peak": {
            role: max(
                line["target"] or 0 for line in deployment.decisions() if line["role"] == role
            )
            for role in ("fetcher", "parser")
        },
        "last": {role: line["workers"] for role, line in last.items()},
    }


def polite(deployment: Deployment, seconds: float) -> dict[str, Any]:
    """One host, 1,000 URLs, 1 s delay."""
    before = len(deployment.decisions())
    urls = [f"http://127.0.1.1:{deployment.port}/polite/{number}" for number in range(1_000)]
    deployment.seed("polite", urls, 1.0)
    time.sleep(seconds)
    lines = [line for line in deployment.decisions()[before:] if line["role"] == "fetcher"]
    return {
        "changes": [line for line in lines if line["action"] != "hold"],
        "reasons": lines[-1]["reasons"],
        "lag": lines[-1]["lag"],
        "eligible": lines[-1]["eligible"],
    }


def idle_s() -> float:
    """Seconds that this machine's cores were idle since it started, summed over the cores."""
    idle, waiting = Path("/proc/stat").read_text("ascii").split()[4:6]
    return (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")


def least_gap_s(lines: list[dict[str, Any]]) -> float | None:
    """The least time between two changes of one role; None when none has changed twice."""
    gaps = [
        (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
        for role in ("fetcher", "parser")
        for earlier, later in pairwise(line["at"] for line in lines if line["role"] == role)
    ]
    return min(gaps, default=None)


def changes(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decisions that changed a size."""
    names = ("at", "role", "action", "workers", "target", "need", "rate", "reasons")
    return [{key: line[key] for key in names} for line in lines if line["action"] != "hold"]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=20_000)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--drain-s", type=float, default=60.0)
    parser.add_argument("--polite-s", type=float, default=90.0)
    parser.add_argument("--log", type=Path, help="file for all decisions")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="autoscale-") as folder:
        deployment = Deployment(Path(folder), options.hosts)
        try:
            deployment.up(options.drain_s)
            result: dict[str, Any] = {"bench": "autoscale_live", "cores": os.cpu_count()}
            result["drain_target_s"] = options.drain_s
            result["burst"] = burst(deployment, options.urls, options.hosts)
            result["changes"] = changes(deployment.decisions())
            result["window_s"] = WINDOW_S
            result["least_gap_s"] = least_gap_s(result["changes"])
            result["polite"] = polite(deployment, options.polite_s)
            if options.log:
                lines = [json.dumps(line) + "\n" for line in deployment.decisions()]
                options.log.write_text("".join(lines), encoding="utf-8")
        finally:
            deployment.close()
    print(json.dumps(result))
    assert result["burst"]["lost"] == 0, "URLs were lost"
    assert max(result["burst"]["peak"].values()) > 1, "nothing grew"
    for role, workers in result["burst"]["last"].items():
        assert workers == 1, f"{role} did not shrink back"
    assert (result["least_gap_s"] or WINDOW_S) >= WINDOW_S, "two changes within a window"
    assert not result["polite"]["changes"], "a polite crawl was scaled"


if __name__ == "__main__":
    main()
