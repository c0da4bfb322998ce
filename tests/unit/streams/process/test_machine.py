"""Cores and memory under control groups of both versions, by files as the kernel writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.process.machine import Machine, machine

_GIB = 1 << 30
_MEMINFO = "MemTotal:       16000000 kB\nMemAvailable:    8388608 kB\n"


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def tree(root: Path, files: dict[str, str]) -> Machine:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return machine(root)


def test_without_limits_it_is_the_machine(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        {
            "proc/meminfo": _MEMINFO,
            "proc/self/cgroup": "0::/user.slice/x\n",
            "sys/fs/cgroup/user.slice/x/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/x/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/x/memory.current": "123\n",
        },
    )
    assert found == Machine(8.0, 8 * _GIB)


def test_a_quota_of_any_ancestor_holds(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        {
            "proc/meminfo": _MEMINFO,
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/box/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pod/memory.max": f"{4 * _GIB}\n",
            "sys/fs/cgroup/pod/memory.current": f"{3 * _GIB}\n",
            "sys/fs/cgroup/pod/memory.stat": f"anon 5\ninactive_file {_GIB}\n",
        },
    )
    assert found == Machine(1.5, 2 * _GIB)


def test_a_container_that_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}
    assert tree(tmp_path, files) == Machine(0.5, None)


def test_the_first_version_with_the_hosts_path(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        {
            "proc/meminfo": _MEMINFO,
            "proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/x\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * _GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{_GIB}\n",
            "sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {_GIB // 2}\n",
        },
    )
    assert found == Machine(3.0, _GIB + _GIB // 2)


def test_the_first_version_without_limits(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        {
            "proc/meminfo": _MEMINFO,
            "proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
        },
    )
    assert found == Machine(8.0, 8 * _GIB)


def test_a_group_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        {
            "proc/meminfo": _MEMINFO,
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "1000\n",
            "sys/fs/cgroup/memory.current": "2000\n",
        },
    )
    assert found.free_bytes == 0


def test_a_system_without_these_files_has_its_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tree(tmp_path, {}) == Machine(8.0, None)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert tree(tmp_path, {}) == Machine(3.0, None)


def test_this_machine_can_be_read() -> None:
    assert machine().cores > 0
