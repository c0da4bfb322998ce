"""The chaos suite: `make chaos [KILLS=N] [SEED=S]`.

Prints what happens to standard error, and one JSON object as the last line of standard output:
kills by role, URLs, lost, duplicate records, refetches and their bound, rebalances, seconds, seed.
Exit code 0 when nothing is lost, no record differs from its double, and refetches are within what
was in flight.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Run the suite."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.chaos.schedule import make
    from tests.chaos.storm import Storm
    from tests.chaos.verdict import sound

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.randrange(100_000))
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    options = parser.parse_args()
    # Told to end, it takes its processes and its mount with it, as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    small_disk = os.geteuid() == 0 and shutil.which("mount") is not None
    away_s = (6.0, 60.0) if options.kills >= 100 else (4.0,)
    faults = make(options.kills, options.seed, away_s=away_s, full_disk=small_disk)
    folder = Path(tempfile.mkdtemp(prefix="crawlstream-chaos-"))
    sys.stderr.write(f"seed {options.seed}, {len(faults)} faults, logs in {folder}\n")
    try:
        storm = Storm(folder, options.seed, faults, full_disk=small_disk)
        verdict = asyncio.run(storm.run())
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(verdict))
    return 0 if sound(verdict) else 1


if __name__ == "__main__":
    sys.exit(main())
