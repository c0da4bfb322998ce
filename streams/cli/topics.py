"""`crawl topics`: create and compare the topics of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli._shared import PANEL_OPERATE, load_settings, note, out

if TYPE_CHECKING:
    from streams.kafka.topics import Difference
    from streams.settings import Settings

ORDER: Final = 60

app = typer.Typer(
    no_args_is_help=True,
    help="""\
The topics of the pipeline, the dedup table's changelog included.

Workers never create topics: they refuse to start on missing or different ones. Their number of
partitions is CRAWL_PARTITIONS, of copies CRAWL_REPLICATION_FACTOR, their prefix
CRAWL_TOPIC_PREFIX (so that deployments share a cluster).

    KAFKA_BOOTSTRAP_SERVERS=kafka:9092 CRAWL_REPLICATION_FACTOR=3 crawl topics create""",
)


def register(parent: typer.Typer) -> None:
    """Add the command group."""
    parent.add_typer(app, name="topics", rich_help_panel=PANEL_OPERATE)


@app.command()
def create(
    *,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Also set the declared cleanup policy, retention and message size on topics"
            " that have others.",
        ),
    ] = False,
) -> None:
    """Create the missing topics and compare the others. Safe to repeat.

    Exit code 1 when a topic differs so that workers would refuse to start.

    Example: crawl topics create
    """
    from streams.kafka.topics import create_topics

    settings = load_settings()
    report = create_topics(settings, repair=repair)
    made = dict.fromkeys(report.created, "created") | dict.fromkeys(report.repaired, "repaired")
    _show(settings, report.differences, made)


@app.command()
def check() -> None:
    """Compare the topics with the declared ones and change nothing.

    Exit code 1 when one is missing or differs so that workers would refuse to start.

    Example: crawl topics check
    """
    import asyncio

    from streams.kafka import topics

    settings = load_settings()
    _show(settings, asyncio.run(topics.check(settings)), {})


def _show(settings: Settings, differences: tuple[Difference, ...], made: dict[str, str]) -> None:
    from rich.table import Table

    from schemas.topics import TOPICS, physical

    wrong = {difference.topic for difference in differences if difference.blocking}
    other = {difference.topic for difference in differences} - wrong
    table = Table("topic", "key", "partitions", "cleanup", "kept", "state", box=None)
    for spec in TOPICS:
        name = physical(spec.name, settings.topic_prefix)
        state = made.get(name, "ok")
        if name in wrong:
            state = "[red]wrong[/red]"
        elif name in other:
            state = "[yellow]differs[/yellow]"
        kept = f"{spec.retention_ms / 86_400_000:g} days" if spec.cleanup == "delete" else "newest"
        partitions = str(spec.partitions or settings.partitions)
        table.add_row(name, spec.key, partitions, spec.cleanup, kept, state)
    out().print(table)
    for difference in differences:
        note(f"{'wrong' if difference.blocking else 'differs'}: {difference}")
    if wrong:
        raise typer.Exit(1)
