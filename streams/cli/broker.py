"""`crawl broker`: the embedded Kafka of the data folder."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from streams.cli._shared import PANEL_OPERATE, load_settings, note, out

ORDER: Final = 70

app = typer.Typer(
    no_args_is_help=True,
    help="""\
The embedded Apache Kafka: one node, on loopback, its data in [bold]CRAWL_DATA_DIR[/bold] (.data).

It needs no Java and no Docker. Other programs reach it at the address that `crawl broker status`
prints, for example:

    kcat -C -b $(crawl broker status --address) -t records

For more than one machine use a Kafka of your own: set KAFKA_BOOTSTRAP_SERVERS and forget this.""",
)


def register(parent: typer.Typer) -> None:
    """Add the command group."""
    parent.add_typer(app, name="broker", rich_help_panel=PANEL_OPERATE)


@app.command()
def start(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Port on 127.0.0.1.", show_default="the last, or any"),
    ] = None,
    heap_mb: Annotated[int, typer.Option(min=128, help="Java heap, MB.")] = 512,
) -> None:
    """Start the broker in the background, and print its address once it serves.

    When it already runs, print its address. The first start fetches Kafka (45 MB, once).

    Example: crawl broker start --port 9092
    """
    from schemas.errors import ConfigError
    from streams.broker import EmbeddedBroker, status

    data_dir = load_settings().data_dir
    running = status(data_dir).bootstrap
    if running and port is not None and not running.endswith(f":{port}"):
        raise ConfigError(
            f"the broker already runs at {running}, not on port {port};"
            " end it first with: crawl broker stop"
        )
    address = EmbeddedBroker(data_dir, port=port, heap_mb=heap_mb).start(attach=True)
    out().print(address, highlight=False)


@app.command()
def stop() -> None:
    """End the broker. Its data stays for the next start.

    Example: crawl broker stop
    """
    from streams import broker

    ended = broker.stop(load_settings().data_dir)
    note("the broker has ended" if ended else "no broker ran")


@app.command()
def status(
    *,
    address: Annotated[
        bool, typer.Option("--address", help="Print host:port alone, for scripts.")
    ] = False,
) -> None:
    """Show whether the broker runs, and where. Exit code 1 when it does not.

    Example: export KAFKA_BOOTSTRAP_SERVERS=$(crawl broker status --address)
    """
    from streams import broker

    data_dir = load_settings().data_dir
    found = broker.status(data_dir)
    if address and found.bootstrap:
        out().print(found.bootstrap, highlight=False)
    elif found.running:
        answers = "serves" if found.ready else "runs but does not answer"
        out().print(
            f"{answers} at {found.bootstrap} (pid {found.pid}, data in {data_dir.absolute()})",
            highlight=False,
        )
    else:
        note(f"no broker runs in {data_dir.absolute()}")
    if not found.ready:
        raise typer.Exit(1)


@app.command()
def prepare() -> None:
    """Do the first start's one-time work now: fetch Kafka, make the start cache.

    Starts then take a third of the time and need no network. `make` does it for you.

    Example: crawl broker prepare
    """
    from streams import broker

    broker.prepare(note)
