"""`crawl up` and `crawl down`: real workers under a supervisor in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psutil
import pytest

from streams import supervise
from streams.settings import Settings
from streams.supervise import children

MakeSettings = Callable[..., Settings]


class Deployment:
    """The command line against one deployment."""

    def __init__(self, settings: Settings, bootstrap: str) -> None:
        self.settings = settings
        self._env = children.environment(settings, bootstrap)

    def crawl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "streams.cli", *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def workers(self) -> dict[str, Mapping[str, Any]]:
        found = supervise.status(self.settings.data_dir).workers
        return {worker["name"]: worker for worker in found}


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def deployment(settings: MakeSettings, kafka: str) -> Iterator[Deployment]:
    made = Deployment(settings(), kafka)
    yield made
    made.crawl("down", "--keep-broker", check=False)


@pytest.mark.timeout(300)
def test_up_runs_workers_that_outlive_the_command_and_down_ends_them(
    deployment: Deployment,
) -> None:
    shown = deployment.crawl("up", "--fetchers", "2")
    workers = deployment.workers()
    assert sorted(workers) == ["dedup-0", "fetcher-0", "fetcher-1", "parser-0"]
    assert all(name in shown.stdout for name in workers)
    assert supervise.status(deployment.settings.data_dir).phase == "ready"

    again = deployment.crawl("up", check=False)
    assert again.returncode == 1
    assert "already run" in again.stderr
    assert "Traceback" not in again.stderr

    os.kill(workers["fetcher-1"]["pid"], signal.SIGKILL)
    assert within(30, lambda: deployment.workers()["fetcher-1"]["restarts"] == 1)

    pids = [worker["pid"] for worker in deployment.workers().values()]
    deployment.crawl("down")
    assert not [pid for pid in pids if pid and psutil.pid_exists(pid)]
    assert supervise.status(deployment.settings.data_dir).pid is None
    assert "no workers ran" in deployment.crawl("down").stderr


@pytest.mark.timeout(300)
def test_workers_do_not_outlive_a_supervisor_that_was_killed(deployment: Deployment) -> None:
    deployment.crawl("up", "--parsers", "0")
    pids = [worker["pid"] for worker in deployment.workers().values()]
    assert len(pids) == 2
    supervisor = supervise.status(deployment.settings.data_dir).pid
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    assert within(30, lambda: not any(map(psutil.pid_exists, pids)))


@pytest.mark.timeout(300)
def test_workers_that_cannot_run_are_told_with_their_last_words(
    settings: MakeSettings, kafka: str
) -> None:
    broken = Deployment(settings(blob_url="nonsense://x"), kafka)
    done = broken.crawl("up", "--dedup", "0", check=False)
    assert done.returncode == 1
    assert "the workers did not get ready" in done.stderr
    assert "is given up" in done.stderr
    assert "Traceback (most recent call last)" not in done.stderr.split("Last lines")[0]
    assert supervise.status(broken.settings.data_dir).pid is None
