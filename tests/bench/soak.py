"""A long crawl: does everything succeed, does memory stay flat, do answers stay quick?

    make soak [N=300000]

Hub pages with a thousand links each, over twenty hosts on loopback, lead to N pages of the bench's
site. Every ten seconds all workers' metrics are read. The last line is one JSON object; a picture
of the run is drawn beside it in `.data/bench/soak` (matplotlib, in the benches' own environment).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import arena
import pipeline

from streams.broker import EmbeddedBroker

_HOSTS: Final = 20
_HUB_LINKS: Final = 1_000
_EVERY_S: Final = 10.0
_WARM: Final = 0.2
"""Share of the run that does not count for the slope of memory."""
_ROLES: Final = ("dedup", "fetchers", "parsers", "parse processes")
MATPLOTLIB: Final = "matplotlib==3.11.2"
LATENCIES: Final = {
    "fetch": "crawler_request_duration_seconds",
    "parse": "crawler_parse_duration_seconds",
}
FOLDER: Final = arena.FOLDER / "soak"


def make_hubs(site: Path, number: int) -> list[str]:
    """Write pages with links to `number` pages, all different; their paths."""
    pages = [str(page.relative_to(site)) for page in sorted(site.rglob("E0*.html"))]
    pages += [str(page.relative_to(site)) for page in sorted((site / "rust-by-example").rglob("*"))]
    pages = [page for page in pages if page.endswith(".html")]
    folder = site / "hub"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    endless = itertools.cycle(pages)
    paths = []
    for first in range(0, number, _HUB_LINKS):
        count = min(_HUB_LINKS, number - first)
        links = (f'<a href="/s/{first + at}/{next(endless)}">{at}</a>' for at in range(count))
        path = f"hub/{first}.html"
        (site / path).write_text(f"<!doctype html><title>Hub</title>{''.join(links)}", "utf-8")
        paths.append(path)
    return paths


def read_metrics(port: int) -> dict[str, float]:
    """Series of a worker by text; empty when it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = str(answer.read(), "utf-8")
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def workers_of(data_dir: Path) -> list[tuple[str, int]]:
    """Names and metrics ports of the running workers."""
    try:
        state = json.loads((data_dir / "supervisor.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [(worker["name"], worker["metrics_port"]) for worker in state["workers"]]


def buckets_of(series: Mapping[str, float], metric: str) -> dict[float, float]:
    """Cumulative counts of a histogram by upper bound, summed over its labels."""
    found: dict[float, float] = defaultdict(float)
    for name, value in series.items():
        if name.startswith(f"{metric}_bucket{{"):
            bound = name.partition('le="')[2].partition('"')[0]
            found[float(bound)] += value
    return dict(found)


def quantile(before: Mapping[float, float], now: Mapping[float, float], share: float) -> float:
    """A quantile of what a histogram took in between two reads; 0 when that is nothing."""
    grown = {bound: now[bound] - before.get(bound, 0.0) for bound in sorted(now)}
    total = max(grown.values(), default=0.0)
    lower, below = 0.0, 0.0
    for bound, count in grown.items():
        if total and count >= share * total:
            if bound == float("inf") or count == below:
                return lower
            return lower + (bound - lower) * (share * total - below) / (count - below)
        lower, below = bound, count
    return 0.0


def watch(process: subprocess.Popen[bytes], data_dir: Path, meter: arena.Meter) -> Iterator[Any]:
    """Rows of the report while the crawl runs: time, pages, memory, latencies."""
    before: dict[str, dict[float, float]] = {}
    began_at = time.time()
    while process.poll() is None:
        time.sleep(_EVERY_S)
        merged: dict[str, float] = {}
        for _, port in workers_of(data_dir):
            merged |= read_metrics(port)
        if not meter.samples or not merged:
            continue
        row: dict[str, Any] = {"s": round(time.time() - began_at, 1)}
        row["pages"] = merged.get('crawler_requests_total{outcome="http_2xx"}', 0.0) or sum(
            value for name, value in merged.items() if name.startswith("crawler_requests_total")
        )
        row["records"] = sum(
            value for name, value in merged.items() if name.startswith("crawler_records_total")
        )
        row["rss_mb"] = {
            role: round(size / 2**20, 1) for role, size in sorted(meter.samples[-1].rss.items())
        }
        for label, metric in LATENCIES.items():
            now = buckets_of(merged, metric)
            row[f"{label}_p99_ms"] = round(1000 * quantile(before.get(label, {}), now, 0.99), 1)
            before[label] = now
        yield row


def slope_mb(rows: Sequence[Mapping[str, Any]], role: str) -> float:
    """Growth of a role's memory in MiB per 100,000 records, by least squares, after the warm-up."""
    late = rows[int(len(rows) * _WARM) :]
    points = [(row["records"] / 1e5, row["rss_mb"].get(role, 0.0)) for row in late]
    if len(points) < 3:
        return 0.0
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    if not spread:
        return 0.0
    return round(sum((x - x_mean) * (y - y_mean) for x, y in points) / spread, 2)


_PICTURE: Final = """
import json, sys
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
rows = json.load(open(sys.argv[1]))["rows"]
minutes = [row["s"] / 60 for row in rows]
figure, (rate, memory, latency) = pyplot.subplots(3, 1, sharex=True, figsize=(8, 9))
steps = list(zip(rows, rows[1:]))
for name, label in (("pages", "fetched"), ("records", "parsed")):
    rates = [(b[name] - a[name]) / (b["s"] - a["s"]) for a, b in steps]
    rate.plot(minutes[1:], rates, label=label)
rate.set_ylabel("pages/s")
rate.legend()
for role in sys.argv[3:]:
    memory.plot(minutes, [row["rss_mb"].get(role, 0) for row in rows], label=role)
memory.set_ylabel("RSS, MiB")
memory.legend()
for name in ("fetch", "parse"):
    latency.plot(minutes, [row[f"{name}_p99_ms"] for row in rows], label=f"{name} p99")
latency.set_ylabel("ms")
latency.set_xlabel("minutes")
latency.legend()
for axes in (rate, memory, latency):
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
figure.tight_layout()
figure.savefig(sys.argv[2], dpi=110)
"""


def crawl(bootstrap: str, number: int, port: int, hubs: Sequence[str]) -> dict[str, Any]:
    """The whole crawl; its report."""
    name = f"soak-{os.getpid()}"
    env = arena.environment(bootstrap, f"{name}.")
    data_dir = Path(env["CRAWL_DATA_DIR"])
    data_dir.mkdir(parents=True)
    seeds = [f"http://127.0.2.{at % _HOSTS + 1}:{port}/{hub}" for at, hub in enumerate(hubs)]
    (data_dir / "seeds.txt").write_text("\n".join(seeds), encoding="utf-8")
    arguments = [
        "run", "--seeds", str(data_dir / "seeds.txt"), "--crawl", name, "--max-depth", "1",
        "--delay", "0", "--per-host", "64", "--patience", "600",
    ]  # fmt: skip
    with (data_dir / "run.out").open("wb") as log:
        process = subprocess.Popen(
            [*pipeline.CRAWL, *arguments], env=env, cwd=arena.ROOT, stdout=log, stderr=log
        )
    meter = arena.Meter({process.pid: None}, every_s=1.0)
    meter.start()
    rows = []
    for row in watch(process, data_dir, meter):
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    meter.stop()
    summary = json.loads((data_dir / "runs" / f"{name}.json").read_text(encoding="utf-8"))
    counts = summary["counts"]
    wanted = number + len(hubs)
    used = meter.cpu_s()
    return {
        "requests": wanted,
        "pages": counts["pages"],
        "records": counts["records"],
        "success_share": round(counts["records"] / wanted, 6),
        "seconds": rows[-1]["s"] if rows else 0.0,
        "pages_per_s": round(counts["pages"] / summary["crawl_s"], 1),
        "cpu_ms_per_page": round(1000 * arena.ours(used) / max(1, counts["pages"]), 3),
        "rss_mb": meter.rss_mb(),
        "rss_mb_per_100k_records": {role: slope_mb(rows, role) for role in _ROLES},
        "fetch_p99_ms": [row["fetch_p99_ms"] for row in rows],
        "parse_p99_ms": [row["parse_p99_ms"] for row in rows],
        "counts": counts,
        "rows": rows,
    }


def main() -> int:
    """Run it; 1 when a page is missing or something is not installed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, nargs="?", default=300_000)
    options = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        site = arena.make_site()
        hubs = make_hubs(site, options.number)
        with arena.nginx(site) as (port, _), EmbeddedBroker(FOLDER / "kafka") as broker:
            report = crawl(broker.bootstrap, options.number, port, hubs)
        python = arena.tool_python(MATPLOTLIB)
    except arena.BenchError as error:
        print(error, file=sys.stderr)
        return 1
    (FOLDER / "report.json").write_text(json.dumps(report), encoding="utf-8")
    shutil.rmtree(FOLDER / "kafka", ignore_errors=True)
    picture = [python, "-c", _PICTURE, str(FOLDER / "report.json"), str(FOLDER / "soak.png")]
    picture += _ROLES
    subprocess.run(picture, check=True)
    del report["rows"]
    print(json.dumps(report))
    return 0 if report["records"] >= report["requests"] else 1


if __name__ == "__main__":
    sys.exit(main())
