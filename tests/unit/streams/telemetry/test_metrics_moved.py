"""The metrics that a healthy small crawl does not move, each moved by its fault."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fetchers.policy.breaker import Breaker
from fetchers.policy.robots_file import MAX_LINE_BYTES
from parsers.worker.stage import ParseStage
from schemas.crawl import CrawlSpec
from schemas.reasons import Reason
from streams.dedup.app import DedupApp
from streams.dedup.policy import Letter
from streams.dedup.work import DedupWork
from streams.delivery.runtime import Runtime
from streams.telemetry.metrics import Metrics
from tests.metrics_faults import NEED_A_FAULT
from tests.unit.fetchers.fakes import FakeRuntime, Web, request_for, response, running

Move = Callable[[Metrics, Path], Awaitable[None]]


def complete(metrics: Metrics, name: str) -> None:
    """What the runtime does with the counters of a completed message."""
    nothing = SimpleNamespace(complete=lambda *_: None, ended=lambda *_: None, add=lambda *_: None)
    runtime = SimpleNamespace(
        epoch=1, ledgers={"s": nothing}, _beginnings=nothing, book=nothing, metrics=metrics
    )
    delivery = SimpleNamespace(epoch=1, source="s", offset=0)
    Runtime.complete(cast("Runtime", runtime), cast("Any", delivery), {"c": {name: 1}})


async def fetch_rejected(metrics: Metrics, _: Path) -> None:
    complete(metrics, f"rejected.{Reason.CRAWL_STOPPED.value}")


async def parse_failed(metrics: Metrics, _: Path) -> None:
    complete(metrics, f"failed.{Reason.PARSE_DEADLINE.value}")


async def breaker_open(metrics: Metrics, folder: Path) -> None:
    async with running(folder, CrawlSpec(crawl="c")) as runtime:
        host = runtime.stage.window.host("a.example", 0)
        host.breaker = Breaker(openings=1, until=time.monotonic() + 60)
        runtime.stage._refresh(metrics)


def count_into(metrics: Metrics, runtime: FakeRuntime) -> None:
    runtime.stage._context.metrics._children = metrics._children
    runtime.stage._context.metrics._metrics = metrics._metrics


async def deferred(metrics: Metrics, folder: Path) -> None:
    async with running(folder, CrawlSpec(crawl="c", delay_s=100.0)) as runtime:
        count_into(metrics, runtime)
        runtime.seed(*(request_for(f"http://192.0.2.1/{number}") for number in range(4)))
        await runtime.until(lambda: runtime.counts["deferrals"] > 0)


async def no_connection_free(metrics: Metrics, folder: Path) -> None:
    async with running(folder, CrawlSpec(crawl="c", delay_s=0.0)) as runtime:
        runtime.stage.limit = 0
        runtime.seed(request_for("http://192.0.2.1/"))
        async with asyncio.timeout(10):
            while not runtime.stage.window.hosts:  # noqa: ASYNC110 - a dictionary to watch
                await asyncio.sleep(0.005)
        runtime.stage._refresh(metrics)


async def robots_cut(metrics: Metrics, folder: Path) -> None:
    async with Web() as web, running(folder, CrawlSpec(crawl="c", delay_s=0.0)) as runtime:
        count_into(metrics, runtime)
        long = b"User-agent: *\nDisallow: /" + b"x" * 2 * MAX_LINE_BYTES
        web.pages["/robots.txt"] = response(200, long)
        runtime.seed(request_for(web.url("/a")))
        await runtime.until(lambda: bool(web.paths()))
    assert 'crawler_robots_cut_total{bound="line"} 1.0' in metrics.render().decode()


async def child_died(metrics: Metrics, _: Path) -> None:
    stage = ParseStage()
    stage.pool = cast("Any", SimpleNamespace(deaths=Counter(crash=2)))
    stage._refresh(metrics)
    stage.pool.deaths["crash"] += 1
    stage._refresh(metrics)
    assert 'crawler_parse_process_deaths_total{cause="crash"} 3.0' in metrics.render().decode()


async def odd_document(metrics: Metrics, _: Path) -> None:
    stage = ParseStage()
    stage._context = cast("Any", SimpleNamespace(metrics=metrics))
    facts = {"kind": "html", "cpu_s": 0.1, "seeded_at": 0, "discovered_at": 0}
    for issues in (["json_ld_invalid"], [], ["json_ld_invalid", "extract"]):
        stage._observe({**facts, "issues": issues}, {})
    text = metrics.render().decode()
    assert 'crawler_parse_issues_total{issue="json_ld_invalid"} 2.0' in text
    assert 'crawler_parse_issues_total{issue="extract"} 1.0' in text


async def no_batch(metrics: Metrics, _: Path) -> None:
    work = cast("DedupWork", SimpleNamespace(metrics=metrics))
    message = SimpleNamespace(partition=0, offset=0, key=b"k", value=b"\x00")
    DedupWork._letter(work, message, Letter(Reason.UNDECODABLE, "no batch", None))


async def recovering(metrics: Metrics, _: Path) -> None:
    app = SimpleNamespace(
        recovering=True,
        source_topic="urls",
        table=SimpleNamespace(store=SimpleNamespace(estimated_keys=1)),
        work=SimpleNamespace(held=0, last_commit_at=time.monotonic()),
        pulse=SimpleNamespace(take_lag=lambda: 0.0),
        consumer=SimpleNamespace(lags=lambda _: {}),
    )
    DedupApp._refresh(cast("DedupApp", app), metrics)


MOVES: dict[tuple[str, str], Move] = {
    ("fetcher", "crawler_breakers_open"): breaker_open,
    ("fetcher", "crawler_deferrals_total"): deferred,
    ("fetcher", "crawler_robots_cut_total"): robots_cut,
    ("fetcher", "crawler_ready_requests"): no_connection_free,
    ("fetcher", "crawler_rejected_urls_total"): fetch_rejected,
    ("parser", "crawler_parse_process_deaths_total"): child_died,
    ("parser", "crawler_parse_issues_total"): odd_document,
    ("parser", "crawler_dead_letters_total"): parse_failed,
    ("dedup", "crawler_dead_letters_total"): no_batch,
    ("dedup", "crawler_table_recovering"): recovering,
}


@pytest.mark.parametrize(("role", "name"), NEED_A_FAULT)
async def test_moves(role: str, name: str, tmp_path: Path) -> None:
    metrics = Metrics(role)
    await MOVES[role, name](metrics, tmp_path)
    lines = metrics.render().decode().splitlines()
    values = [float(line.split()[-1]) for line in lines if line.startswith(name)]
    assert sum(values) > 0
