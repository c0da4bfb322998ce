"""The kinds of worker: their command lines, environment and log files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from schemas.topics import DEDUP_APP, FETCHER_GROUP, PARSER_GROUP
from streams.settings import Settings, env_name

Role = Literal["dedup", "fetcher", "parser"]

ROLES: Final[tuple[Role, ...]] = ("dedup", "fetcher", "parser")
"""In the order in which they are ended: upstream first, so that what is under way flows out."""

GROUPS: Final[Mapping[Role, str]] = {
    "dedup": DEDUP_APP,
    "fetcher": FETCHER_GROUP,
    "parser": PARSER_GROUP,
}
"""Consumer group of each role, logical."""

_LOG_KEEP_BYTES: Final = 10 * 1024 * 1024


def command(role: Role) -> list[str]:
    """Command line of a worker; all else it reads from its environment."""
    arguments = {
        "dedup": ["faust", "-A", "streams", "worker"],
        "fetcher": ["fetchers"],
        "parser": ["parsers"],
    }
    return [sys.executable, "-m", *arguments[role]]


def environment(
    settings: Settings, bootstrap: str, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Environment in which a child reads exactly these settings.

    Args:
        settings: what the child shall see, whatever our own environment says.
        bootstrap: address of the brokers, which settings may leave open.
        base: the rest of the environment; None: this process's.
    """
    names = {env_name(field) for field in Settings.model_fields}
    inherited = os.environ if base is None else base
    env = {name: value for name, value in inherited.items() if name not in names}
    for field, info in Settings.model_fields.items():
        value = getattr(settings, field)
        if value != info.default:
            env[env_name(field)] = _text(value)
    env[env_name("data_dir")] = str(settings.data_dir.absolute())
    env[env_name("bootstrap_servers")] = bootstrap
    # Lines reach the log file when they are written, not when a buffer is full.
    env["PYTHONUNBUFFERED"] = "1"
    return env


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Path):
        return str(value.absolute())
    # Not any iterable: a network iterates over its addresses.
    if isinstance(value, tuple | list):
        return ",".join(_text(part) for part in value)
    return str(value)


def log_path(role: str, index: int, settings: Settings) -> Path:
    """Log file of a worker."""
    return settings.data_dir.absolute() / "logs" / f"{role}-{index}.log"


def spawn(arguments: list[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a worker in a session of its own, so that Ctrl-C on the terminal is not for it.

    Its output is appended to `log`; a file that has grown large is set aside first.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_KEEP_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - our own command line
            arguments,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def tail(log: Path, lines: int = 15) -> str:
    """Last lines of a log file; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
