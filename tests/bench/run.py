"""The pipeline beside Scrapy: same site, same pages, same machine, taking turns.

    make bench [ARGS="--rounds 3 --concurrency 64 --quick"]

The site is served by nginx on loopback, the embedded broker runs beforehand; both share the
machine with whoever is measured, and their CPU is reported apart. Each round crawls the whole site
once with Scrapy (in a virtual environment of its own, made at the first run) and once with `crawl
run`. Scrapy uses one CPU of the machine and ours all of them, so Scrapy runs once more with a
process for each CPU. Then: 1 and 2 fetchers and parsers over several hosts, latency on the idle
system, and the benches of single stages. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

import arena
import pipeline

from streams.broker import EmbeddedBroker

_SCALE_HOSTS = 8
_LATENCY_SEEDS = 300
_SPEC = "store_outlinks: false\nsimhash: false\n"
"""Records without what the peer does not extract either, as far as a crawl can choose."""


def scrapy(
    python: str, urls: list[str], concurrency: int, output: Path, include: str, processes: int = 1
) -> pipeline.Crawl:
    """One crawl of the whole site by Scrapy; by several processes, each has hosts of its own."""
    script = str(Path(__file__).with_name("scrapy_site.py"))
    running = []
    for number in range(processes):
        part = output.with_suffix(f".{number}.jsonl")
        mine = ",".join(urls[number::processes])
        command = [python, script, mine, "0", str(concurrency // processes), str(part)]
        command += [include, arena.EXCLUDE]
        running.append((subprocess.Popen(command, stdout=subprocess.PIPE, text=True), part))
    found: set[str] = set()
    said = []
    for process, part in running:
        printed, _ = process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
        said.append(json.loads(printed.splitlines()[-1]))
        with part.open(encoding="utf-8") as lines:
            found |= {urldefrag(json.loads(line)["url"])[0] for line in lines}
    seconds = max(one["seconds"] for one in said)
    cpu_s = sum(one["cpu_s"] for one in said)
    report = {
        "pages": len(found),
        "seconds": round(seconds, 2),
        "pages_per_s": round(len(found) / seconds, 1),
        "cpu_s": round(cpu_s, 2),
        "cpu_ms_per_page": round(1000 * cpu_s / len(found), 3),
        "cpu_total_s": round(sum(one["cpu_total_s"] for one in said), 2),
        "rss_mb": round(sum(one["rss_mb"] for one in said), 1),
    }
    return pipeline.Crawl(report, found)


def median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of all numbers of equal reports, nested ones included."""
    found: dict[str, Any] = {}
    for key, value in rounds[0].items():
        values = [one.get(key, 0) for one in rounds]
        if isinstance(value, dict):
            found[key] = median(values)
        elif isinstance(value, (int, float)):
            found[key] = round(statistics.median(values), 3)
    return found


def tell(text: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def compare(
    options: argparse.Namespace, bootstrap: str, urls: list[str], include: str
) -> dict[str, Any]:
    """All rounds of both, and what differs between their pages."""
    python = arena.tool_python(arena.SCRAPY)
    theirs, mine, differences = [], [], []
    spec = arena.FOLDER / "spec.yaml"
    spec.write_text(_SPEC, encoding="utf-8")
    for number in range(options.rounds):
        output = arena.FOLDER / "runs" / f"scrapy-{number}.jsonl"
        output.parent.mkdir(parents=True, exist_ok=True)
        peer = scrapy(python, urls, options.concurrency, output, include)
        tell(f"round {number + 1}: scrapy {json.dumps(peer.report)}")
        name = f"bench-{os.getpid()}-{number}"
        own = pipeline.crawl(
            bootstrap, name, urls, concurrency=options.concurrency,
            options=["--include", include, "--spec", str(spec)],
        )  # fmt: skip
        tell(f"round {number + 1}: ours   {json.dumps(own.report)}")
        theirs.append(peer.report)
        mine.append(own.report)
        only = {"scrapy": sorted(peer.urls - own.urls), "ours": sorted(own.urls - peer.urls)}
        differences.append({side: [len(urls), urls[:3]] for side, urls in only.items()})
    processes = min(len(urls), os.cpu_count() or 1)
    full = scrapy(python, urls, options.concurrency, output, include, processes).report
    tell(f"scrapy, {processes} processes: {json.dumps(full)}")
    whole = pipeline.crawl(
        bootstrap, f"bench-{os.getpid()}-whole", urls, concurrency=options.concurrency,
        options=["--include", include],
    ).report  # fmt: skip
    tell(f"ours, whole records: {json.dumps(whole)}")
    result = median(mine)
    peer_median = median(theirs)
    result["scrapy"] = peer_median
    result["scrapy_all_cpus"] = full
    result["whole_records"] = whole
    result["pages_only_in"] = differences[-1]
    result["ratio_cpu_vs_scrapy"] = round(
        peer_median["cpu_ms_per_page"] / result["cpu_ms_per_page"], 2
    )
    total_ms = 1000 * arena.ours(result["cpu_total_s"]) / result["pages"]
    result["cpu_ms_per_page_with_start"] = round(total_ms, 3)
    peer_total_ms = 1000 * peer_median["cpu_total_s"] / peer_median["pages"]
    result["ratio_cpu_with_start"] = round(peer_total_ms / total_ms, 2)
    result["ratio_cpu_vs_scrapy_all_cpus"] = round(
        full["cpu_ms_per_page"] / result["cpu_ms_per_page"], 2
    )
    result["ratio_rate_vs_scrapy_all_cpus"] = round(result["pages_per_s"] / full["pages_per_s"], 2)
    result["ratio_rate_vs_scrapy"] = round(result["pages_per_s"] / peer_median["pages_per_s"], 2)
    return result


def scaling(options: argparse.Namespace, bootstrap: str, port: int) -> dict[str, Any]:
    """The same pages on several hosts, by one and by two fetchers and parsers."""
    seeds = [f"http://127.0.1.{number + 1}:{port}/" for number in range(_SCALE_HOSTS)]
    within = ["--include", r"^http://[0-9.:]+/($|error_codes/|edition-guide/)"]
    found = {}
    for count in (1, 2):
        name = f"scale-{os.getpid()}-{count}"
        done = pipeline.crawl(
            bootstrap, name, seeds, concurrency=options.concurrency,
            workers=(1, count, count), options=within,
        )  # fmt: skip
        tell(f"{count} fetchers, {count} parsers: {json.dumps(done.report)}")
        keys = ("pages", "seconds", "pages_per_s", "cpu_ms_per_page", "cpu_s", "rss_mb")
        found[str(count)] = {key: done.report[key] for key in keys}
    return found


def stages() -> dict[str, Any]:
    """The benches of single stages, as far as they are here."""
    found = {}
    for stage in ("fetch", "parse", "dedup"):
        script = Path(__file__).with_name(f"bench_{stage}.py")
        if script.exists():
            tell(f"stage {stage}")
            found[stage] = pipeline.last_json([str(script)])
    return found


def main() -> int:
    """Run it all; 1 when something is missing on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--hosts", type=int, default=2, help="addresses that serve the site")
    parser.add_argument("--quick", action="store_true", help="rounds alone")
    options = parser.parse_args()
    arena.FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        site = arena.make_site()
        shutil.rmtree(arena.FOLDER / "kafka", ignore_errors=True)
        with arena.nginx(site) as (port, server), EmbeddedBroker(arena.FOLDER / "kafka") as broker:
            meter = arena.Meter({server: "nginx", broker.pid: "broker"}, every_s=1.0)
            meter.start()
            urls = [f"http://127.0.0.{at + 1}:{port}/" for at in range(options.hosts)]
            result = compare(options, broker.bootstrap, urls, arena.include(site))
            if not options.quick:
                result["scaling"] = scaling(options, broker.bootstrap, port)
                pages = sorted(site.rglob("E0*.html"))[:_LATENCY_SEEDS]
                urls = [f"http://127.0.0.1:{port}/{page.relative_to(site)}" for page in pages]
                name = f"latency-{os.getpid()}"
                result["latency_ms"] = pipeline.idle_latency(broker.bootstrap, name, urls)
            meter.stop()
            result["apart_cpu_s"] = meter.cpu_s(meter.samples[0].at)
        if not options.quick:
            result["stages"] = stages()
    except arena.BenchError as error:
        print(error, file=sys.stderr)
        return 1
    result["machine"] = {
        "cpus": os.cpu_count(),
        "model": next(
            (
                line.partition(":")[2].strip()
                for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                if line.startswith("model name")
            ),
            platform.processor(),
        ),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
