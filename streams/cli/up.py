"""`crawl up` and `crawl down`: broker and workers of one machine in the background."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli._shared import PANEL_OPERATE, load_settings, note, out

if TYPE_CHECKING:
    from streams.autoscale.sizing import Sizing
    from streams.settings import Settings
    from streams.supervise import Role

ORDER: Final = 40
AUTOSCALED: Final[tuple[Role, ...]] = ("fetcher", "parser")
"""Dedup is left alone: its need moves slowly, and each change makes it move tables."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=PANEL_OPERATE)(up)
    app.command(rich_help_panel=PANEL_OPERATE)(down)


def up(
    *,
    fetchers: Annotated[int, typer.Option(min=0, max=64, help="Fetcher processes.")] = 1,
    parsers: Annotated[int, typer.Option(min=0, max=64, help="Parser processes.")] = 1,
    dedup: Annotated[int, typer.Option(min=0, max=64, help="Dedup processes.")] = 1,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay until Ctrl-C or SIGTERM.")
    ] = False,
    autoscale: Annotated[
        bool, typer.Option("--autoscale", help="Keep fetchers and parsers at what the work needs.")
    ] = False,
    most: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="With --autoscale: most of each; default: processors."),
    ] = None,
    drain: Annotated[
        float, typer.Option(min=1, help="With --autoscale: seconds to work off a backlog in.")
    ] = 300,
    down_window: Annotated[
        float, typer.Option(min=0, help="With --autoscale: seconds of lower need to shrink.")
    ] = 300,
    interval: Annotated[
        float, typer.Option(min=1, help="With --autoscale: seconds between decisions.")
    ] = 15,
) -> None:
    """Start the pipeline on this machine: broker, topics, workers.

    With KAFKA_BOOTSTRAP_SERVERS set, no broker is started and workers join that cluster. Workers
    that die are started again. Logs are in the data folder's `logs`; with --autoscale each
    decision is a line of `autoscale.jsonl` there.

    Example: crawl up --fetchers 2 && crawl seed https://a.example/ && crawl records --follow
    """
    settings = load_settings()
    settings.identity()
    counts: dict[Role, int] = {"dedup": dedup, "fetcher": fetchers, "parser": parsers}
    sizing = None
    if autoscale:
        from streams.autoscale.run import with_ports
        from streams.autoscale.sizing import Sizing

        settings = with_ports(settings)
        limit = most or max(2, os.cpu_count() or 1)
        sizing = Sizing(
            sizes=tuple(f"{role}={counts[role]}:{max(limit, counts[role])}" for role in AUTOSCALED),
            drain_s=drain,
            down_window_s=down_window,
            interval_s=interval,
        )
        sizing.rules()
    else:
        settings = _shared(settings, parsers)
    if foreground:
        raise typer.Exit(_foreground(settings, counts, sizing))
    _background(settings, counts, sizing)


def _shared(settings: Settings, parsers: int) -> Settings:
    """The machine's cores for the parsers. With --autoscale it is their number that grows."""
    from streams.process.machine import machine
    from streams.supervise.share import parse_processes

    settings, share = parse_processes(settings, parsers, machine())
    if share:
        note(share)
    return settings


def _background(settings: Settings, counts: dict[Role, int], sizing: Sizing | None) -> None:
    from streams import supervise
    from streams.broker import EmbeddedBroker
    from streams.kafka import topics
    from streams.kafka.clients import bootstrap

    if not settings.bootstrap_servers:
        EmbeddedBroker(settings.data_dir).start(attach=True)
    topics.create_topics(settings)
    started = supervise.launch(settings, bootstrap(settings), counts, sizing=sizing)
    console = out()
    console.print(f"Kafka at {bootstrap(settings)}", highlight=False)
    for worker in started.workers:
        console.print(f"{worker['name']} (pid {worker['pid']}): {worker['log']}", highlight=False)
    note("end them with: crawl down")


def _foreground(settings: Settings, counts: dict[Role, int], sizing: Sizing | None) -> int:
    from streams import supervise
    from streams.broker import serving
    from streams.kafka import topics

    with nullcontext() if settings.bootstrap_servers else serving(settings.data_dir):
        topics.create_topics(settings)
        return supervise.run(settings, counts, lambda _: note("ready; Ctrl-C ends"), sizing)


def down(
    *,
    keep_broker: Annotated[
        bool, typer.Option("--keep-broker", help="Leave the embedded broker running.")
    ] = False,
) -> None:
    """End what `crawl up` started: first the workers, in order, then the broker.

    Started work is finished (CRAWL_DRAIN_TIMEOUT_S at most); the rest is done after the next
    `crawl up`. Data stays.

    Example: crawl down
    """
    from streams import broker, supervise

    settings = load_settings()
    note("workers have ended" if supervise.end(settings) else "no workers ran")
    if not keep_broker and not settings.bootstrap_servers:
        note("the broker has ended" if broker.stop(settings.data_dir) else "no broker ran")
