"""Children do not outlive a parent that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from streams.process.guard import Guard

PARENT = """
import subprocess, sys, time
from streams.process.guard import Guard
guard = Guard(grace_s=1)
watched = subprocess.Popen(["sleep", "60"])
released = subprocess.Popen(["sleep", "60"])
for child in (watched, released):
    guard.watch(child.pid)
guard.release(released.pid)
print(watched.pid, released.pid, flush=True)
time.sleep(60)
"""


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A zombie whose new parent has not looked at it yet has ended too.
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_kill_9_of_the_parent_ends_what_is_watched_and_nothing_else() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        watched, released = map(int, parent.stdout.readline().split())
        try:
            assert not gone(watched)
            parent.kill()
            assert within(5, lambda: gone(watched))
            assert not gone(released)
        finally:
            os.kill(released, signal.SIGKILL)


def test_closing_the_guard_leaves_children_alone() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        with Guard(grace_s=1) as guard:
            guard.watch(child.pid)
        time.sleep(0.05)
        assert child.poll() is None
        child.kill()


def test_a_guard_that_was_killed_does_not_break_its_owner() -> None:
    guard = Guard(grace_s=1)
    guard._shell.kill()
    guard._shell.wait()
    guard.watch(1)
    guard.release(1)
    guard.close()
