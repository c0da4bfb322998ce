"""A supervisor in the background: `crawl up` starts it, `crawl down` ends it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Final

from streams.autoscale.sizing import Sizing
from streams.settings import Settings
from streams.supervise import children
from streams.supervise.children import ROLES, Role
from streams.supervise.state import (
    SupervisorError,
    SupervisorStatus,
    held,
    state_path,
    status,
)

_POLL_S: Final = 0.1
_MARGIN_S: Final = 15.0


def launch(
    settings: Settings,
    bootstrap: str,
    counts: Mapping[Role, int],
    timeout_s: float = 90.0,
    sizing: Sizing | None = None,
) -> SupervisorStatus:
    """Start a supervisor in the background and wait until its workers are ready.

    With `sizing` it changes their number as the work needs.

    Raises SupervisorError, and leaves nothing running, when they do not get ready.
    """
    if held(settings.data_dir):
        raise SupervisorError(
            f"workers already run in {settings.data_dir.absolute()}; end them with: crawl down"
        )
    state_path(settings.data_dir).unlink(missing_ok=True)
    wanted = [f"{role}={counts.get(role, 0)}" for role in ROLES]
    if sizing is not None:
        wanted.append(f"--autoscale={json.dumps(dataclasses.asdict(sizing))}")
    log = children.log_path("supervisor", 0, settings)
    process = children.spawn(
        [sys.executable, "-m", "streams.supervise", *wanted],
        children.environment(settings, bootstrap),
        log,
    )
    deadline = time.monotonic() + timeout_s
    while (found := status(settings.data_dir)).phase != "ready":
        late = time.monotonic() > deadline
        if late or process.poll() is not None or found.phase == "failed":
            why = found.failure or f"Last lines of {log}:\n{children.tail(log)}"
            _end(process)
            raise SupervisorError(f"the workers did not get ready. {why}")
        time.sleep(_POLL_S)
    return found


def end(settings: Settings) -> bool:
    """End the supervisor of the data folder and its workers. False when none runs."""
    found = status(settings.data_dir)
    if found.pid is None:
        return False
    patience_s = len(ROLES) * (settings.drain_timeout_s + _MARGIN_S)
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.pid, number)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if not held(settings.data_dir):
                return True
            time.sleep(_POLL_S)
    raise SupervisorError(f"the supervisor (pid {found.pid}) cannot be ended")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_MARGIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
