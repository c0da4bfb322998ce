"""`crawl autoscale`: keep the number of workers at what the work needs."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

from streams.cli._shared import PANEL_OPERATE, load_settings

ORDER: Final = 70


def register(app: typer.Typer) -> None:
    """Add the command to `crawl`."""
    app.command(name="autoscale", rich_help_panel=PANEL_OPERATE)(autoscale)


def autoscale(
    backend: Annotated[
        Literal["none", "docker", "kubernetes"],
        typer.Option(help="Where workers run; none: only say what would be done."),
    ] = "none",
    size: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=LEAST:MOST workers, for dedup, fetcher, parser; default: fetcher=1:20 and"
            " parser=1:20."
        ),
    ] = None,
    eligible: Annotated[
        str | None,
        typer.Option(help="Fetchers' metrics: dns://NAME:PORT, or http://HOST:PORT (Prometheus)."),
    ] = None,
    drain: Annotated[float, typer.Option(min=1, help="Seconds to work off a backlog in.")] = 300,
    down_window: Annotated[
        float, typer.Option(min=0, help="Seconds of lower need before a group shrinks.")
    ] = 300,
    interval: Annotated[float, typer.Option(min=1, help="Seconds between decisions.")] = 15.0,
    project: Annotated[
        str, typer.Option(help="Compose project, for the back end docker.")
    ] = "crawlstream",
    namespace: Annotated[
        str | None, typer.Option(help="For the back end kubernetes; unset: our own.")
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Before the role in the names of Deployments.")
    ] = "crawl-",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Decide and log; change nothing.")
    ] = False,
) -> None:
    """Keep the number of workers at what the work needs.

    Every decision is printed as one line of JSON with its reasons.
    """
    import asyncio

    from streams.autoscale.run import Options, serve
    from streams.autoscale.sizing import DEFAULT_SIZES

    options = Options(
        backend=backend,
        sizes=tuple(size) if size else DEFAULT_SIZES,
        eligible=eligible,
        drain_s=drain,
        down_window_s=down_window,
        interval_s=interval,
        project=project,
        namespace=namespace,
        prefix=prefix,
        dry_run=dry_run,
    )
    asyncio.run(serve(load_settings(), options))
