"""`crawl status`: what the crawls have done, and how far behind each stage is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli._shared import PANEL_OPERATE, load_settings, out

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from streams.crawls.directory import Directory
    from streams.settings import Settings
    from streams.standing.drain import PipelineReader
    from streams.standing.status import Counters, Status

ORDER: Final = 45
_SPAN_S: Final = 3.0
_TRAPS: Final = 5
"""Hosts named for each crawl; `--json` has all that are counted."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PANEL_OPERATE)(status)


def status(
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object; one a line with --watch.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on; Ctrl-C ends.")] = False,
) -> None:
    """Show the crawls (pages, outcomes, rate, time left) and the stages (lag, oldest message).

    Numbers are those of committed work. Rates are taken over three seconds, which is how long
    this takes. The time left is for the URLs known now: more may be found.

    Try: crawl status --watch
    """
    settings = load_settings()
    asyncio.run(_status(settings, as_json=as_json, watch=watch))


async def _status(settings: Settings, *, as_json: bool, watch: bool) -> None:
    from rich.live import Live

    from streams.crawls.submit import directory_of
    from streams.standing.drain import PipelineReader

    async with directory_of(settings) as directory, PipelineReader(settings) as pipeline:
        live = Live(console=out(), auto_refresh=False) if watch and not as_json else None
        with live or contextlib.nullcontext():
            earlier, earlier_at = directory.counters(), time.monotonic()
            while True:
                await asyncio.sleep(_SPAN_S)
                found = await _look(directory, pipeline, earlier, time.monotonic() - earlier_at)
                earlier, earlier_at = directory.counters(), time.monotonic()
                if as_json:
                    print(json.dumps(found.as_json()), flush=True)
                elif live is not None:
                    live.update(tables(found), refresh=True)
                else:
                    out().print(tables(found))
                if not watch:
                    return


async def _look(
    directory: Directory, pipeline: PipelineReader, earlier: Counters, span_s: float
) -> Status:
    from streams.standing.status import Status, crawl_statuses, stage_statuses

    reading = await pipeline.read()
    oldest = await pipeline.oldest_ms(reading)
    crawls = crawl_statuses(directory.crawls(), directory.counters(), earlier, span_s)
    return Status(reading.at, crawls, stage_statuses(reading, oldest))


def tables(found: Status) -> Group:
    """What a person is shown."""
    from rich.console import Group

    tables = [_crawl_table(found), _stage_table(found)]
    if any(crawl.counts.trapped for crawl in found.crawls):
        tables.insert(1, _trap_table(found))
    return Group(*tables)


def _crawl_table(found: Status) -> Table:
    from rich import box
    from rich.table import Table

    from streams.run.summary import duration

    table = Table("crawl", box=box.SIMPLE)
    for name in ("pages", "records", "outcomes", "to do", "pages/s", "time left"):
        table.add_column(name, justify="left" if name == "outcomes" else "right")
    for crawl in found.crawls:
        counts, eta_s = crawl.counts, crawl.eta_s
        sums = {
            "redirects": counts.redirects,
            "not modified": counts.not_modified,
            "failed": sum(counts.failed.values()),
            "disregarded": sum(counts.disregarded.values()),
            "rejected": sum(counts.rejected.values()),
        }
        table.add_row(
            crawl.crawl + ("" if crawl.state == "running" else f" ({crawl.state})"),
            f"{counts.pages:,}" + (f" of {crawl.budget:,}" if crawl.budget else ""),
            f"{counts.records:,}",
            ", ".join(f"{count:,} {name}" for name, count in sums.items() if count),
            f"{crawl.outstanding:,}",
            f"{crawl.pages_per_s:.1f}",
            "-" if eta_s is None else duration(eta_s),
        )
    if not found.crawls:
        table.add_row("no crawl yet")
    return table


def _trap_table(found: Status) -> Table:
    """The hosts whose spaces were found to be endless, the worst first."""
    from rich import box
    from rich.table import Table

    table = Table("crawl", "endless space", box=box.SIMPLE)
    table.add_column("links refused", justify="right")
    for crawl in found.crawls:
        for host, refused in list(crawl.counts.trapped.items())[:_TRAPS]:
            table.add_row(crawl.crawl, host, f"{refused:,}")
    return table


def _stage_table(found: Status) -> Table:
    from rich import box
    from rich.table import Table

    from streams.run.summary import duration

    table = Table("stage", box=box.SIMPLE)
    for name in ("lag", "oldest", "in retry tiers", "by topic"):
        table.add_column(name, justify="left" if name == "by topic" else "right")
    for stage in found.stages:
        age = stage.oldest_age_s
        table.add_row(
            stage.stage,
            f"{stage.lag:,}",
            "-" if age is None else duration(age),
            f"{stage.waiting:,}",
            ", ".join(f"{topic} {count:,}" for topic, count in stage.topics.items()),
        )
    return table
