"""Our side of the benches: whole crawls with CPU by role, and latency on an idle system."""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena import EXCLUDE, ROOT, Meter, environment, ours

from schemas import codec
from schemas.crawl import CrawlSpec
from schemas.topics import RECORDS, URLS, physical
from schemas.url import CrawlUrl, parse
from streams.crawls.submit import Submitter
from streams.kafka.clients import make_consumer, started
from streams.kafka.messages import Out
from streams.kafka.topics import create
from streams.settings import load
from streams.supervise import Supervisor
from streams.telemetry.logs import configure

CRAWL = [sys.executable, "-c", "from streams.cli import main; main()"]
_SETTLE_S = 1.5
"""What a page costs is not over with its record: commits and changelogs follow."""


class Crawl(NamedTuple):
    """One finished crawl."""

    report: dict[str, Any]
    urls: set[str]


def crawl(
    bootstrap: str,
    name: str,
    seeds: Sequence[str],
    *,
    concurrency: int,
    workers: tuple[int, int, int] = (1, 1, 1),
    options: Sequence[str] = (),
    **settings: str,
) -> Crawl:
    """Crawl from these seeds to the end, under topics of its own.

    Args:
        bootstrap: the broker.
        name: of the crawl and of its topics.
        seeds: URLs.
        concurrency: requests in flight, per fetcher and per host.
        workers: dedup, fetchers, parsers.
        options: more of `crawl run`.
        settings: of the workers.
    """
    env = environment(bootstrap, f"{name}.", concurrency=str(concurrency), **settings)
    folder = Path(env["CRAWL_DATA_DIR"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    output = folder / "records.jsonl"
    (folder / "seeds.txt").write_text("\n".join(seeds) + "\n", encoding="utf-8")
    dedup, fetchers, parsers = map(str, workers)
    arguments = [
        "run", "--seeds", str(folder / "seeds.txt"), "--crawl", name, "-o", str(output),
        "--delay", "0", "--per-host", str(concurrency), "--exclude", EXCLUDE,
        "--patience", "0", "--dedup", dedup, "--fetchers", fetchers, "--parsers", parsers,
        *options,
    ]  # fmt: skip
    with (folder / "run.out").open("w", encoding="utf-8") as log:
        process = subprocess.Popen([*CRAWL, *arguments], env=env, cwd=ROOT, stdout=log, stderr=log)
    meter = Meter({process.pid: None})
    meter.start()
    try:
        code = process.wait()
    finally:
        process.terminate()
        meter.stop()
    if code != 0:
        raise RuntimeError(f"crawl run ended with {code}:\n{(folder / 'run.out').read_text()}")
    return _report(output, meter, folder)


def _report(output: Path, meter: Meter, folder: Path) -> Crawl:
    urls: set[str] = set()
    first, last, bodies = float("inf"), 0.0, 0
    with output.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            first = min(first, instant(record["fetched_at"]) - record["duration_ms"] / 1000)
            last = max(last, instant(record["parsed_at"]))
            if 200 <= record["status"] < 300:
                urls.add(record["url"])
                bodies += record["body_bytes"]
    seconds = last - first
    used = meter.cpu_s(first - 0.2, last + _SETTLE_S)
    pages = len(urls)
    report = {
        "pages": pages,
        "seconds": round(seconds, 2),
        "pages_per_s": round(pages / seconds, 1),
        "cpu_s": used,
        "cpu_ms_per_page": round(1000 * ours(used) / pages, 3),
        "cpu_total_s": meter.cpu_s(),
        "rss_mb": meter.rss_mb(),
        "body_mb": round(bodies / 2**20, 1),
        "logs": str(folder / "logs"),
    }
    return Crawl(report, urls)


def instant(value: Any) -> float:
    """An instant of a record (milliseconds, or ISO 8601 text) as seconds since the epoch."""
    if isinstance(value, (int, float)):
        return value / 1000
    from datetime import datetime

    return datetime.fromisoformat(value).timestamp()


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and the greatest."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    found = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(values)}
    return {name: round(value, 1) for name, value in found.items()}


def idle_latency(bootstrap: str, name: str, urls: Sequence[str]) -> dict[str, float]:
    """Milliseconds from producing a seed to having its record, one seed at a time."""
    return asyncio.run(_idle_latency(bootstrap, name, urls))


async def _idle_latency(bootstrap: str, name: str, urls: Sequence[str]) -> dict[str, float]:
    settings = load(environment(bootstrap, f"{name}."))
    configure(settings, "bench")
    shutil.rmtree(settings.data_dir, ignore_errors=True)
    await create(settings)
    topic = physical(RECORDS, settings.topic_prefix)
    waits: list[float] = []
    counts: Any = {"dedup": 1, "fetcher": 1, "parser": 1}
    async with (
        Supervisor(settings, counts) as supervisor,
        started(make_consumer(settings)) as consumer,
        Submitter(settings) as submitter,
    ):
        await supervisor.ready()
        spec = CrawlSpec(crawl=name, max_depth=0, delay_s=0.0, per_host=8)
        await submitter.submit_spec(spec, 1)
        consumer.assign([_tp(topic, number) for number in range(settings.partitions)])
        for number, url in enumerate(urls):
            began_at = time.perf_counter()
            await submitter.deliver([_seed(name, url)])
            # Not `getone`: it keeps a partition that it emptied out of the next request.
            found = await consumer.getmany(timeout_ms=60_000)
            waits.append(1000 * (time.perf_counter() - began_at))
            (message,) = [one for messages in found.values() for one in messages]
            assert codec.decode("record", message.value)["url"] == url
            if number == 0:
                waits.clear()  # start-up: robots.txt, first connections, first batch of each kind
            await asyncio.sleep(0.05 + 0.1 * (number % 7) / 7)
    return percentiles(waits)


def _tp(topic: str, partition: int) -> Any:
    from aiokafka import TopicPartition

    return TopicPartition(topic, partition)


def _seed(crawl_id: str, url: str) -> Out:
    parsed = parse(url)
    assert isinstance(parsed, CrawlUrl)
    value = json.dumps({"crawl": crawl_id, "url": url}).encode()
    return Out(URLS, parsed.host.encode(), value)


def last_json(arguments: Sequence[str]) -> dict[str, Any]:
    """Run a bench of one stage; its last line, or all of it where that is no JSON."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"error": (done.stderr or done.stdout)[-400:]}
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except ValueError:
        return {"lines": lines}
    return found
