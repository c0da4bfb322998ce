"""`python -m parsers`: one parser process and its parse processes."""

from __future__ import annotations

import sys

from parsers.worker.stage import ParseStage
from schemas.errors import ConfigError
from streams.delivery.worker import run_worker
from streams.settings import load


def main() -> int:
    """Run until told to stop; the exit code says why it ended."""
    try:
        settings = load()
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 - logging is not set up yet
        return 2
    return run_worker(ParseStage(), settings)


if __name__ == "__main__":
    sys.exit(main())
