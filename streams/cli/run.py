"""`crawl run`: one crawl on one machine, from start to summary."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from streams.cli._shared import PANEL_CRAWL, load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from streams.crawls.plan import Seed
    from streams.run.crawl import RunOptions
    from streams.run.summary import Summary
    from streams.sample.server import SampleServer
    from streams.settings import Settings

ORDER: Final = 10
_SAMPLE_HOST: Final = "127.0.0.1"
_SAMPLE_AGENT: Final = "crawlstream-sample"
_SAMPLE_CONTACT: Final = "sample@crawlstream.example"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PANEL_CRAWL)(run)


def run(
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="URL", help="Where the crawl begins.")
    ] = None,
    *,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-", help="More seeds: one URL or JSON object a line, # for comments."
        ),
    ] = None,
    max_pages: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many pages (2xx answers).")
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(min=0, help="Links to follow from a seed; 0: seeds only.")
    ] = None,
    scope: Annotated[
        Literal["host", "domain", "any"] | None,
        typer.Option(help="Stay on each seed's host (default), its registrable domain, or go on."),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="RE", help="URLs must match one of these.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="RE", help="URLs must match none of these.")
    ] = None,
    delay: Annotated[
        float | None, typer.Option(min=0, help="Seconds between requests to a host (default 1).")
    ] = None,
    per_host: Annotated[
        int | None, typer.Option(min=1, help="Requests in flight to a host (default 1).")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|-",
            help="Records as JSON lines; -: standard output. Without it, a short line each.",
        ),
    ] = None,
    fetchers: Annotated[int, typer.Option(min=1, max=64, help="Fetcher processes.")] = 1,
    parsers: Annotated[int, typer.Option(min=1, max=64, help="Parser processes.")] = 1,
    dedup: Annotated[int, typer.Option(min=1, max=64, help="Dedup processes.")] = 1,
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Crawl spec (YAML): all rules, extraction too. Options win."
        ),
    ] = None,
    crawl: Annotated[
        str | None, typer.Option(metavar="ID", help="Name of the new crawl; else one is made.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Continue this crawl, and its output file."),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(min=0, help="Seconds to wait for the next retry when all else is done."),
    ] = 120.0,
    sample: Annotated[
        bool, typer.Option("--sample", help="Serve and crawl the sample site; no network needed.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the embedded Kafka running afterwards.")
    ] = False,
) -> None:
    """Crawl: start everything on this machine, end when done, print a summary.

    Ctrl-C finishes what was begun and stops; --resume goes on from there. A second Ctrl-C ends at
    once. Exit code 0: the crawl was drained or its page budget spent, and there was a page.

    Try:

        crawl run --sample --output sample.jsonl

        crawl run https://a.example/ --max-pages 500 --scope domain -o pages.jsonl

        crawl run --seeds seeds.txt --spec shop.yaml --fetchers 2 --parsers 2 -o - | jq .title
    """
    options: dict[str, Any] = {
        "max_pages": max_pages,
        "max_depth": max_depth,
        "scope": scope,
        "include": include or None,
        "exclude": exclude or None,
        "delay_s": delay,
        "per_host": per_host,
    }
    settings, run_options = _prepare(
        urls or [],
        seeds,
        options,
        spec=spec,
        output=output,
        workers=(dedup, fetchers, parsers),
        crawl=crawl,
        resume=resume,
        patience_s=patience,
        sample=sample,
        keep=keep,
    )
    raise typer.Exit(asyncio.run(_main(settings, run_options, sample=sample)))


def _prepare(
    urls: list[str],
    seeds_file: str | None,
    options: dict[str, Any],
    *,
    spec: Path | None,
    output: str | None,
    workers: tuple[int, int, int],
    crawl: str | None,
    resume: str | None,
    patience_s: float,
    sample: bool,
    keep: bool,
) -> tuple[Settings, RunOptions]:
    """Everything that can be wrong before anything starts, told at once."""
    from schemas.errors import ConfigError
    from streams.cli._seeds import gather_seeds
    from streams.crawls.plan import build_spec, crawl_id, read_spec_file
    from streams.run.crawl import RunOptions

    problems: list[str] = []
    settings, layers = None, []
    seeds, seed_problems = gather_seeds(urls, seeds_file)
    problems += seed_problems
    if sample and (urls or seeds_file):
        problems.append("--sample brings its own seed: leave out URL and --seeds")
    if not seeds and not seed_problems and not sample and resume is None:
        problems.append("no seeds: give a URL, --seeds FILE, or --sample")
    if crawl and resume:
        problems.append("--crawl names a new crawl, --resume an old one: give one of them")
    name = resume or crawl or crawl_id(datetime.now().astimezone(), seeds)
    try:
        settings = load_settings(**(_sample_overrides() if sample else {}))
        settings.identity()
    except ConfigError as error:
        problems.append(str(error))
    try:
        layers = [*_sample_layers(sample=sample), read_spec_file(spec) if spec else {}, options]
        build_spec(name, layers)
    except ConfigError as error:
        problems.append(str(error))
    target = Path(output) if output not in (None, "-") else None
    if target is not None and (target.is_dir() or not target.parent.is_dir()):
        problems.append(f"--output {target}: no file in an existing folder")
    if settings is None or problems:
        raise ConfigError("\n".join(problems))
    return settings, RunOptions(
        crawl=name,
        layers=tuple(layers),
        seeds=tuple(seeds),
        output=target,
        stream=sys.stdout if output == "-" else None,
        workers=dict(zip(("dedup", "fetcher", "parser"), workers, strict=True)),
        patience_s=patience_s,
        resume=resume is not None,
        keep=keep,
    )


def _sample_overrides() -> dict[str, Any]:
    """Settings for the sample site: a name if there is none, its address alone, quick retries."""
    from streams.sample.site import RETRY_TIERS_S

    return {
        "agent": os.environ.get("CRAWL_AGENT") or _SAMPLE_AGENT,
        "contact": os.environ.get("CRAWL_CONTACT") or _SAMPLE_CONTACT,
        "allow_networks": (ip_network(f"{_SAMPLE_HOST}/32"),),
        "retry_tiers_s": RETRY_TIERS_S,
    }


def _sample_layers(*, sample: bool) -> list[dict[str, Any]]:
    from streams.sample.site import Site

    return [Site.spec()] if sample else []


async def _main(settings: Settings, options: RunOptions, *, sample: bool) -> int:
    from dataclasses import replace

    from streams.process.machine import machine
    from streams.run.crawl import CrawlRun
    from streams.run.display import make_display
    from streams.supervise.share import parse_processes

    _log_to_file(settings)
    settings, share = parse_processes(settings, options.workers["parser"], machine())
    async with _sample_site(settings, options.crawl, wanted=sample) as server:
        if server is not None:
            options = replace(options, seeds=(_seed_of(server),))
        with make_display() as display:
            run_ = CrawlRun(options, settings, display)
            display.note(f"crawl {options.crawl}")
            if share:
                display.note(share)
            with _signals(run_, display):
                summary = await run_.run()
    _report(summary, settings)
    return summary.exit_code


@contextlib.asynccontextmanager
async def _sample_site(
    settings: Settings, crawl: str, *, wanted: bool
) -> AsyncIterator[SampleServer | None]:
    """The sample site's server; a resumed crawl finds it on the port that its URLs have."""
    if not wanted:
        yield None
        return
    from streams.sample.server import SampleServer

    folder = settings.data_dir / "sample"
    folder.mkdir(parents=True, exist_ok=True)
    remembered = folder / f"{crawl}.port"
    port = int(remembered.read_text("ascii")) if remembered.exists() else 0
    async with SampleServer(_SAMPLE_HOST, port, folder / f"{crawl}.access.jsonl") as server:
        remembered.write_text(server.site.base.rpartition(":")[2], "ascii")
        yield server


def _seed_of(server: SampleServer) -> Seed:
    from streams.crawls.plan import Seed

    return Seed(server.site.seed, _SAMPLE_HOST)


@contextlib.contextmanager
def _signals(run_: Any, display: Any) -> Any:
    """First Ctrl-C (or SIGTERM): drain. Second: end now; workers and broker end by their guards."""
    loop = asyncio.get_running_loop()
    asked: list[datetime] = []

    def on_signal() -> None:
        asked.append(datetime.now(UTC))
        if len(asked) == 1:
            display.note("finishing what was begun; Ctrl-C again ends at once")
            run_.interrupt()
            return
        display.__exit__(None, None, None)
        run_.flush()
        sys.stderr.write(f"ended at once; continue with --resume {run_.crawl}\n")
        sys.stderr.flush()
        os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _log_to_file(settings: Settings) -> None:
    """Our own log goes beside the workers': the terminal is for progress."""
    path = settings.data_dir / "logs" / "run.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(path.open("a", encoding="utf-8"))


def _report(summary: Summary, settings: Settings) -> None:
    """The summary on standard error, and as JSON beside the logs."""
    path = settings.data_dir / "runs" / f"{summary.crawl}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary.as_json(), indent=2) + "\n", encoding="utf-8")
    sys.stderr.write("\n".join([*summary.lines(), ""]))
