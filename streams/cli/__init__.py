"""The command `crawl`.

Each module here that does not begin with `_` registers its commands with `register(app)`; its
`ORDER` (a number, 50 when absent) is its place in the help. Commands of the packages above join
by entry points of the group `crawlstream.commands`: plain functions that typer turns into
commands. All of them import what they need when they run, so that the help stays quick.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import typer

from streams.process.exits import EXIT_CONFIG, EXIT_RETRY

_GROUP: Final = "crawlstream.commands"
_PANEL_CHECK: Final = "Look at one page (no Kafka needed)"

_HELP: Final = """\
A web crawl pipeline whose only stateful system is Apache Kafka.

Try it on the sample site, with no network:  [bold]crawl run --sample[/bold]

Crawl a site:  [bold]crawl run https://a.example/ --max-pages 100 --output pages.jsonl[/bold]

Settings are environment variables: [bold]CRAWL_AGENT[/bold] and [bold]CRAWL_CONTACT[/bold] say \
who you are and are needed for every crawl; [bold]KAFKA_BOOTSTRAP_SERVERS[/bold] names a Kafka of \
your own in place of the embedded broker.
"""


def make_app() -> typer.Typer:
    """The typer application with all commands that are installed."""
    app = typer.Typer(
        name="crawl",
        help=_HELP,
        rich_markup_mode="rich",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    found = (
        importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
        if not module.name.startswith("_")
    )
    for module in sorted(found, key=lambda m: (getattr(m, "ORDER", 50), m.__name__)):
        module.register(app)
    for entry in sorted(entry_points(group=_GROUP), key=lambda e: e.name):
        _add(app, entry)
    return app


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    """Register a command of another package; one that cannot be loaded says so when called."""
    try:
        command = entry.load()
    except (ImportError, AttributeError) as error:
        reason = str(error)

        def broken() -> None:
            sys.stderr.write(f"crawl {entry.name} cannot be loaded: {reason}\n")
            raise typer.Exit(1)

        broken.__doc__ = f"Cannot be loaded: {reason}"
        command = broken
    app.command(entry.name, rich_help_panel=_PANEL_CHECK)(command)


def main() -> None:
    """Entry point of `crawl`.

    Exit codes: 0 done; 1 failed; 2 a setting, an argument or a topic is wrong; 75 Kafka did not
    answer; 130 interrupted. Faults that a user can act on are told in words, without a traceback.
    """
    from schemas.errors import ConfigError, CrawlError, TransientInfraError

    try:
        make_app()()
    except CrawlError as error:
        sys.stderr.write(f"{error}\n")
        code = {ConfigError: EXIT_CONFIG, TransientInfraError: EXIT_RETRY}.get(type(error), 1)
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone, which is its right. What is still
        # buffered for it must not fail again when the interpreter flushes.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
