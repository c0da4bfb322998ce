"""`python -m streams.sample`: serve the sample site until interrupted."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from streams.sample.server import SampleServer


async def _serve(host: str, port: int, access_log: Path | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with SampleServer(host, port, access_log) as server:
        sys.stdout.write(f"{server.site.seed}\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """Parse the arguments and serve. The first line printed is the site's URL."""
    parser = argparse.ArgumentParser(prog="python -m streams.sample", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--access-log", type=Path, help="file for one JSON object a request")
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.host, arguments.port, arguments.access_log))


if __name__ == "__main__":
    main()
