"""What other processes can learn of a supervisor: a lock that lives with it, and a state file."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import CrawlError


class SupervisorError(CrawlError):
    """Workers cannot be started or kept running.

    Operator action: read the message, which ends with the last lines of the worker's log; all logs
    are in the data folder's `logs`.
    """


class SupervisorStatus(NamedTuple):
    """The supervisor of a data folder as others see it.

    `phase`: starting, ready, stopping or failed; None when none runs. `workers` are rows of the
    state file: name, pid (None between two runs), restarts, metrics_port, log.
    """

    pid: int | None
    phase: str | None
    failure: str | None
    workers: tuple[Mapping[str, Any], ...]


def status(data_dir: Path) -> SupervisorStatus:
    """Whether a supervisor runs in a data folder, and what it does."""
    state = read_state(data_dir) if held(data_dir) else None
    if state is None:
        return SupervisorStatus(pid=None, phase=None, failure=None, workers=())
    return SupervisorStatus(
        pid=int(state["pid"]),
        phase=str(state["phase"]),
        failure=state.get("failure"),
        workers=tuple(state.get("workers", ())),
    )


def read_state(data_dir: Path) -> dict[str, Any] | None:
    """The state file; None when there is none."""
    try:
        found = json.loads(state_path(data_dir).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def state_path(data_dir: Path) -> Path:
    """State of the supervisor of a data folder, for other processes."""
    return data_dir.absolute() / "supervisor.json"


def lock_path(data_dir: Path) -> Path:
    """Locked (flock) while a supervisor runs in a data folder."""
    return data_dir.absolute() / "supervisor.lock"


def write_state(data_dir: Path, state: Mapping[str, object]) -> None:
    """Replace the state file, so that a reader sees the old or the new one."""
    path = state_path(data_dir)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(state, indent=1), "utf-8")
    new.replace(path)


def acquire(data_dir: Path) -> int:
    """The lock of a data folder. Two sets of workers would fight over its dedup state.

    Raises SupervisorError when another supervisor has it.
    """
    path = lock_path(data_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    for _ in range(5):  # `status` elsewhere holds it for an instant
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return fd
    os.close(fd)
    raise SupervisorError(
        f"workers already run in {data_dir.absolute()}; end them with: crawl down"
    )


def held(data_dir: Path) -> bool:
    """Whether a live supervisor has the data folder."""
    try:
        fd = os.open(lock_path(data_dir), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)
