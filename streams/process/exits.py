"""Leaving the process when going on would risk a URL."""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

import structlog

log = structlog.get_logger(__name__)

EXIT_CONFIG: Final = 2
EXIT_RETRY: Final = 75
"""EX_TEMPFAIL: nothing was committed that is not done; start again."""


def die(message: str, code: int = EXIT_RETRY) -> NoReturn:
    """Log and end the process at once, without a last commit.

    Everything not committed is redone after the restart, as after kill -9; a tidy shutdown would
    wait for the very thing that failed.
    """
    log.critical(message, exit_code=code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
