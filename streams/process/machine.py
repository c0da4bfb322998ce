"""What of the machine is ours: cores and memory, as a container or an affinity mask leaves them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

_GROUPS: Final = Path("sys/fs/cgroup")
_NO_LIMIT: Final = 1 << 60
"""Above this a limit of cgroups v1 is none."""


class Machine(NamedTuple):
    """Cores and memory that a process here may use."""

    cores: float
    """Less than 1 in a container with a small quota."""
    free_bytes: int | None
    """None: this system does not tell."""


def machine(root: Path = Path("/")) -> Machine:
    """Read it.

    Args:
        root: where `proc` and `sys` are.
    """
    quotas = [quota for folder in _folders(root, "cpu") if (quota := _quota(folder)) is not None]
    free = [left for folder in _folders(root, "memory") if (left := _left(folder)) is not None]
    if (available := _available(root)) is not None:
        free.append(available)
    return Machine(min([float(_allowed()), *quotas]), min(free, default=None))


def _allowed() -> int:
    """Cores that the affinity mask leaves."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The control groups of this process with their ancestors: a limit of any of them holds.

    A container may see its own group as the root, while `/proc/self/cgroup` has the host's path.
    Folders that are not there are left to the reader.
    """
    for row in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = row.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            mount = root / _GROUPS
        elif controller in names.split(","):
            mount = root / _GROUPS / controller
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for part in (inside, *inside.parents) if inside.parts else (inside,):
            yield mount / part


def _quota(folder: Path) -> float | None:
    """Cores that a control group may use; None: all."""
    words = _read(folder / "cpu.max").split() or [
        _read(folder / "cpu.cfs_quota_us").strip(),
        _read(folder / "cpu.cfs_period_us").strip(),
    ]
    try:
        quota, period = map(int, words)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def _left(folder: Path) -> int | None:
    """Bytes that a control group may still take; None: it has no limit.

    Files that were read lately count as its use, but make way for it.
    """
    limit = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
    used = _number(folder / "memory.current", folder / "memory.usage_in_bytes")
    if limit is None or limit >= _NO_LIMIT:
        return None
    rows = dict(
        row.split(maxsplit=1)
        for row in _read(folder / "memory.stat").splitlines()
        if len(row.split()) == 2
    )
    files = rows.get("total_inactive_file", rows.get("inactive_file", "0"))
    return max(0, limit - (used or 0) + int(files))


def _available(root: Path) -> int | None:
    """Bytes that the kernel could give out without swapping."""
    for row in _read(root / "proc/meminfo").splitlines():
        name, _, rest = row.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def _number(*paths: Path) -> int | None:
    """What the first of these files that has a number says."""
    for path in paths:
        with contextlib.suppress(ValueError):
            return int(_read(path))
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""
