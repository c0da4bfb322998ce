"""`crawl version`."""

from __future__ import annotations

from typing import Final

import typer

from streams.cli._shared import PANEL_OPERATE

ORDER: Final = 90


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PANEL_OPERATE)(version)


def version() -> None:
    """Print the versions of this program, Python and the embedded Kafka."""
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    from streams.broker.jars import KAFKA

    try:
        ours = installed("crawlstream")
    except PackageNotFoundError:
        ours = "(not installed)"
    kafka = KAFKA.rpartition(":")[2]
    print(f"crawlstream {ours}, Python {platform.python_version()}, ", end="")
    print(f"embedded Kafka {kafka}, aiokafka {installed('aiokafka')}")
