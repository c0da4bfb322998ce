"""A wall clock that steps: for processes with this folder on their path and CHAOS_CLOCK set.

Python imports this module at its start. CHAOS_CLOCK names a file of eight bytes: nanoseconds, added
to what `time.time` and `time.time_ns` say from the moment they are written.
"""

from __future__ import annotations

import mmap
import os
import time


def _step(path: str) -> None:
    with open(path, "rb") as file:  # noqa: PTH123 - at the start of Python: no imports
        ahead = memoryview(mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)).cast("q")
    real_ns = time.time_ns

    def time_ns() -> int:
        return real_ns() + ahead[0]

    def seconds() -> float:
        return time_ns() / 1e9

    time.time_ns = time_ns
    time.time = seconds


if "CHAOS_CLOCK" in os.environ:
    _step(os.environ["CHAOS_CLOCK"])
