"""The background supervisor: `python -m streams.supervise dedup=1 fetcher=2 parser=1`.

With an autoscaler `--autoscale={...}` is added: the fields of `Sizing` as JSON.
"""

from __future__ import annotations

import json
import sys

from schemas.errors import ConfigError
from streams import settings
from streams.autoscale.sizing import Sizing
from streams.supervise.children import ROLES, Role
from streams.supervise.foreground import run
from streams.telemetry import logs


def parse_counts(arguments: list[str]) -> dict[Role, int]:
    """Numbers of workers from `role=number` arguments. Raises ConfigError."""
    counts: dict[Role, int] = {}
    for argument in arguments:
        role, _, number = argument.partition("=")
        if role not in ROLES or not number.isdigit():
            raise ConfigError(f"{argument!r} is not one of dedup=N, fetcher=N, parser=N")
        counts[role] = int(number)
    return counts


def parse_sizing(arguments: list[str]) -> Sizing | None:
    """What the autoscaler shall do; None: there is none. Takes its argument out of the list."""
    for argument in arguments:
        name, _, text = argument.partition("=")
        if name == "--autoscale":
            arguments.remove(argument)
            return Sizing(**json.loads(text))
    return None


def main() -> int:
    """Run until SIGTERM or SIGINT; 0 then, 1 when a worker was given up, 2 on a wrong setting."""
    try:
        loaded = settings.load()
        arguments = sys.argv[1:]
        sizing = parse_sizing(arguments)
        counts = parse_counts(arguments)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    logs.configure(loaded, "supervisor")
    return run(loaded, counts, sizing=sizing)


if __name__ == "__main__":
    sys.exit(main())
