"""`crawl seed`, `crawl stop` and `crawl crawls`: crawls of a running deployment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli._shared import PANEL_CRAWL, load_settings, note, out

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from schemas.crawl import CrawlSpec
    from streams.crawls.plan import Seed
    from streams.settings import Settings

ORDER: Final = 20


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=PANEL_CRAWL)(seed)
    app.command(rich_help_panel=PANEL_CRAWL)(stop)
    app.command(rich_help_panel=PANEL_CRAWL)(crawls)


def seed(
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="URL", help="URLs to begin from.")
    ] = None,
    *,
    seeds: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="More: one URL or JSON object a line.")
    ] = None,
    crawl: Annotated[str, typer.Option(metavar="ID", help="The crawl they belong to.")] = "default",
    spec: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rules of the crawl (YAML); replaces the stored ones."),
    ] = None,
) -> None:
    """Add seeds to a crawl of a running deployment.

    The crawl `default` needs no rules: it stays on each seed's host. Any other id needs --spec
    the first time. A stopped crawl runs again with a new --spec.

    Try:

        crawl seed https://a.example/

        crawl seed --crawl shop --spec shop.yaml --seeds urls.txt
    """
    from schemas.errors import ConfigError
    from streams.cli._seeds import gather_seeds
    from streams.crawls.plan import build_spec, read_spec_file

    settings = load_settings()
    found, problems = gather_seeds(urls or [], seeds)
    if not found and not problems and spec is None:
        problems.append("no seeds: give a URL, --seeds FILE, or a --spec to submit alone")
    layer = None
    try:
        layer = read_spec_file(spec) if spec else None
        build_spec(crawl, [layer or {}])
    except ConfigError as error:
        problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    asyncio.run(_seed(settings, crawl, found, layer))
    rules = ", its rules submitted" if layer is not None else ""
    note(f"{len(found)} seeds added to crawl {crawl}{rules}")


async def _seed(
    settings: Settings, crawl: str, seeds: list[Seed], layer: Mapping[str, Any] | None
) -> None:
    from schemas.errors import ConfigError
    from streams.crawls.plan import build_spec, seed_messages
    from streams.crawls.submit import Submitter, directory_of
    from streams.process.clock import now_ms

    async with directory_of(settings) as directory, Submitter(settings) as submitter:
        stored = directory.rules(crawl)
        if layer is not None:
            spec = build_spec(crawl, [layer])
            await submitter.submit_spec(spec, directory.revision(crawl) + 1)
        elif stored is None:
            raise ConfigError(
                f"no crawl {crawl}: give its rules with --spec, or see `crawl crawls`"
            )
        elif stored.spec.state == "stopped":
            raise ConfigError(f"crawl {crawl} is stopped: submit it again with --spec")
        await submitter.deliver(seed_messages(crawl, seeds, now_ms()))


def stop(
    crawl: Annotated[str, typer.Argument(metavar="ID", help="The crawl to give up.")],
) -> None:
    """Stop a crawl: whatever of it is queued is dropped with a count, everywhere.

    What was fetched stays in `records`. To continue later, submit its rules again with
    `crawl seed --crawl ID --spec FILE`; links that were dropped meanwhile are not found again.

    Try: crawl stop shop
    """
    asyncio.run(_stop(load_settings(), crawl))
    note(f"crawl {crawl} is stopped")


async def _stop(settings: Settings, crawl: str) -> None:
    from schemas.errors import ConfigError
    from streams.crawls.submit import Submitter, directory_of

    async with directory_of(settings) as directory, Submitter(settings) as submitter:
        stored = directory.rules(crawl)
        if stored is None:
            raise ConfigError(f"no crawl {crawl}: see `crawl crawls`")
        stopped = stored.spec.model_copy(update={"state": "stopped"})
        await submitter.submit_spec(stopped, directory.revision(crawl) + 1)


def crawls(
    *, as_json: Annotated[bool, typer.Option("--json", help="The rules as JSON lines.")] = False
) -> None:
    """List the crawls with their rules.

    Try: crawl crawls --json
    """
    from rich.table import Table

    rows = asyncio.run(_crawls(load_settings()))
    console = out()
    if as_json:
        for spec in rows:
            print(spec.model_dump_json())
        return
    table = Table("crawl", "state", "scope", "max pages", "max depth", "delay", "other rules")
    for spec in rows:
        table.add_row(*_cells(spec))
    console.print(table)


def _cells(spec: CrawlSpec) -> tuple[str, ...]:
    shown = {"crawl", "state", "scope", "max_pages", "max_depth", "delay_s"}
    other = spec.model_dump(mode="json", exclude=shown, exclude_defaults=True)
    return (
        spec.crawl,
        spec.state,
        spec.scope,
        "-" if spec.max_pages is None else f"{spec.max_pages:,}",
        "-" if spec.max_depth is None else str(spec.max_depth),
        f"{spec.delay_s:g} s",
        ", ".join(f"{name}={value}" for name, value in other.items()),
    )


async def _crawls(settings: Settings) -> list[CrawlSpec]:
    from streams.crawls.submit import directory_of

    async with directory_of(settings) as directory:
        return directory.crawls()
