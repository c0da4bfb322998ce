"""`python -m fetchers`: one fetcher process."""

from __future__ import annotations

import sys

from fetchers.worker.stage import FetchStage
from schemas.errors import ConfigError
from streams.delivery.worker import run_worker
from streams.settings import load


def main() -> int:
    """Run until told to stop; the exit code says why it ended."""
    try:
        settings = load()
        settings.identity()
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 - logging is not set up yet
        return 2
    return run_worker(FetchStage(), settings)


if __name__ == "__main__":
    sys.exit(main())
