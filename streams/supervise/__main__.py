"""The background supervisor: `python -m streams.supervise dedup=1 fetcher=2 parser=1`."""

from __future__ import annotations

import sys

from schemas.errors import ConfigError
from streams import logs, settings
from streams.supervise.children import ROLES, Role
from streams.supervise.foreground import run


def parse_counts(arguments: list[str]) -> dict[Role, int]:
    """Numbers of workers from `role=number` arguments. Raises ConfigError."""
    counts: dict[Role, int] = {}
    for argument in arguments:
        role, _, number = argument.partition("=")
        if role not in ROLES or not number.isdigit():
            raise ConfigError(f"{argument!r} is not one of dedup=N, fetcher=N, parser=N")
        counts[role] = int(number)
    return counts


def main() -> int:
    """Run until SIGTERM or SIGINT; 0 then, 1 when a worker was given up, 2 on a wrong setting."""
    try:
        loaded = settings.load()
        counts = parse_counts(sys.argv[1:])
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    logs.configure(loaded, "supervisor")
    return run(loaded, counts)


if __name__ == "__main__":
    sys.exit(main())
