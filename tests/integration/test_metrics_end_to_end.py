"""Every declared metric moves while the sample site is crawled, or is one that needs a fault."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from schemas.crawl import CrawlSpec
from schemas.topics import URLS
from streams.crawls.submit import Submitter
from streams.kafka.messages import Out
from streams.kafka.topics import create
from streams.sample.server import SampleServer
from streams.sample.site import RETRY_TIERS_S, Site
from streams.settings import Settings
from streams.supervise import Supervisor
from streams.telemetry.metrics import ROLES, Metric
from tests.metrics_faults import NEED_A_FAULT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WORKERS = ("dedup", "fetcher", "parser")
PATIENCE_S = 150.0


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read(), "utf-8")


def moved_in(text: str, declared: tuple[Metric, ...]) -> dict[str, float]:
    """Greatest value of each declared metric in an exposition; of histograms, their counts."""
    values: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removesuffix("_count")
            values[name] = max(values[name], sample.value)
    return {metric.name: values[metric.name] for metric in declared}


def missing(seen: dict[str, dict[str, float]]) -> list[tuple[str, str]]:
    return [
        (role, metric.name)
        for role in WORKERS
        for metric in ROLES[role]
        if not seen[role].get(metric.name) and (role, metric.name) not in NEED_A_FAULT
    ]


async def follow(supervisor: Supervisor) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Scrape all workers until nothing is missing; the greatest values, and the last texts."""
    seen: dict[str, dict[str, float]] = {role: {} for role in WORKERS}
    texts: dict[str, str] = {}
    deadline = time.monotonic() + PATIENCE_S
    while missing(seen) and time.monotonic() < deadline:
        for worker in supervisor.workers():
            text = await asyncio.to_thread(scrape, worker.metrics_port)
            texts[worker.role] = text
            for name, value in moved_in(text, ROLES[worker.role]).items():
                seen[worker.role][name] = max(seen[worker.role].get(name, 0.0), value)
        await asyncio.sleep(0.1)
    return seen, texts


async def test_every_declared_metric_moves(
    settings: Callable[..., Settings], tmp_path: Path
) -> None:
    made = settings(retry_tiers_s=RETRY_TIERS_S, commit_interval_s=1.0)
    await create(made)
    counts: Any = dict.fromkeys(WORKERS, 1)
    async with (
        SampleServer("127.0.0.1", 0, tmp_path / "access.jsonl") as server,
        Supervisor(made, counts) as supervisor,
        Submitter(made) as submitter,
    ):
        await supervisor.ready()
        await submitter.submit_spec(CrawlSpec(crawl="default", **Site.spec()), 1)
        await submitter.deliver([Out(URLS, b"127.0.0.1", server.site.seed.encode())])
        seen, texts = await follow(supervisor)
    assert missing(seen) == []
    undeclared = {
        (role, family.name)
        for role, text in texts.items()
        for family in text_string_to_metric_families(text)
        if family.name.startswith(("crawler_", "http_"))
    } - {(role, metric.name.removesuffix("_total")) for role in WORKERS for metric in ROLES[role]}
    assert undeclared == set()
    for role, text in texts.items():
        assert "process_cpu_seconds_total" in text, role
        assert "process_resident_memory_bytes" in text, role


def test_the_list_of_exceptions_names_declared_metrics() -> None:
    declared = {(role, metric.name) for role in WORKERS for metric in ROLES[role]}
    assert NEED_A_FAULT.keys() <= declared
