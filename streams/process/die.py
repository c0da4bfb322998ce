"""Leaving the process at once, when going on would risk a URL."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import structlog

from streams.process.exits import EXIT_RETRY

log = structlog.get_logger(__name__)


def die(message: str, code: int = EXIT_RETRY) -> NoReturn:
    """Log and end the process at once, without a last commit.

    Everything not committed is redone after the restart, as after kill -9; a tidy shutdown would
    wait for the very thing that failed.
    """
    log.critical(message, exit_code=code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
