"""What commands have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

    from streams.settings import Settings

PANEL_CRAWL: Final = "Crawl"
PANEL_OPERATE: Final = "Operate"


def load_settings(**overrides: Any) -> Settings:
    """Settings of a command, with logging set up. Raises ConfigError naming every problem."""
    from streams import settings
    from streams.telemetry import logs

    loaded = settings.load(**overrides)
    logs.configure(loaded, "cli")
    return loaded


def out() -> Console:
    """Console for a command's result; tables and colours only where they can be seen."""
    from rich.console import Console

    return Console(soft_wrap=True)


def note(text: str) -> None:
    """A line for the user that is not the command's result (standard error)."""
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(text, highlight=False, markup=False)
