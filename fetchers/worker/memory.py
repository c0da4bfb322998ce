"""How much of the memory that this process may use is in use."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNLIMITED = 1 << 50


def memory_share() -> float:
    """Resident memory over the control group's limit; 0.0 when no limit is set or known."""
    limit = _limit_bytes()
    if not limit:
        return 0.0
    try:
        resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return resident * os.sysconf("SC_PAGE_SIZE") / limit


@cache
def _limit_bytes() -> int:
    for name in _LIMITS:
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < _UNLIMITED:
            return int(text)
    return 0
