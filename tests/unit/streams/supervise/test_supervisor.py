"""The supervisor with workers that are shell commands."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streams.settings import load
from streams.supervise import (
    ChildInfo,
    RestartPolicy,
    Role,
    Supervisor,
    SupervisorError,
    status,
    supervisor,
)

FAST = RestartPolicy(base_s=0.01, cap_s=0.02, healthy_s=60, attempts=3)
SLEEP = "exec sleep 60"
# Leaves its mark when it is asked to end.
POLITE = "trap 'echo ended >> {}; exit 0' TERM; while :; do sleep 0.02; done"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_TICK_S", 0.01)


@asynccontextmanager
async def supervised(
    data_dir: Path, script: str | Callable[[Role], str] = SLEEP, margin_s: float = 5, **counts: int
) -> AsyncIterator[Supervisor]:
    settings = load({}, data_dir=data_dir, bootstrap_servers="127.0.0.1:1", drain_timeout_s=0)
    made = Supervisor(
        settings,
        counts,  # type: ignore[arg-type]
        policy=FAST,
        command=lambda role: ["/bin/sh", "-c", script if isinstance(script, str) else script(role)],
    )
    made._stop_timeout_s = margin_s
    async with made:
        yield made


async def until(condition: Callable[[], bool], timeout_s: float = 5) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - processes set no events
            await asyncio.sleep(0.01)


def running(made: Supervisor) -> list[ChildInfo]:
    return [worker for worker in made.workers() if worker.pid is not None]


def alive(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_workers_run_for_the_length_of_the_block(tmp_path: Path) -> None:
    async with supervised(tmp_path, dedup=1, fetcher=2) as made:
        workers = running(made)
        assert sorted(worker.name for worker in workers) == ["dedup-0", "fetcher-0", "fetcher-1"]
        assert all(alive(worker.pid) for worker in workers)
    assert not any(alive(worker.pid) for worker in workers)
    assert made.workers() == ()


async def test_a_killed_worker_is_started_again(tmp_path: Path) -> None:
    async with supervised(tmp_path, fetcher=1) as made:
        (before,) = running(made)
        os.kill(before.pid or 0, signal.SIGKILL)
        await until(lambda: [w.restarts for w in running(made)] == [1])
        assert running(made)[0].pid != before.pid
        assert made.failure is None


async def test_a_worker_that_cannot_run_is_given_up_with_its_last_words(tmp_path: Path) -> None:
    async with supervised(tmp_path, "echo the reason; exit 1", parser=1) as made:
        reason = await asyncio.wait_for(made.failed(), 5)
        assert "parser-0 is given up: it ended 4 times in a row" in reason
        assert reason.endswith("the reason")
        assert made.failure == reason
        assert made.workers()[0].restarts == 3


async def test_a_wrong_setting_is_given_up_at_once(tmp_path: Path) -> None:
    async with supervised(tmp_path, "exit 2", parser=1) as made:
        assert "exit code 2" in await asyncio.wait_for(made.failed(), 5)
        assert made.workers()[0].restarts == 0


async def test_scaling_up_and_down(tmp_path: Path) -> None:
    async with supervised(tmp_path, fetcher=1) as made:
        (first,) = running(made)
        made.scale("fetcher", 3)
        await until(lambda: len(running(made)) == 3)
        made.scale("fetcher", 1)
        await until(lambda: len(made.workers()) == 1)
        assert running(made) == [first]
        assert made.counts() == {"dedup": 0, "fetcher": 1, "parser": 0}
        made.scale("fetcher", 0)
        await until(lambda: not made.workers())
        assert made.failure is None


async def test_scaling_up_while_the_same_worker_drains(tmp_path: Path) -> None:
    script = "trap 'sleep 0.1; exit 0' TERM; while :; do sleep 0.02; done"
    async with supervised(tmp_path, script, fetcher=1) as made:
        (first,) = running(made)
        await asyncio.sleep(0.05)
        made.scale("fetcher", 0)
        await asyncio.sleep(0.03)
        made.scale("fetcher", 1)
        await until(lambda: [w.pid for w in running(made)] not in ([], [first.pid]))
        assert not alive(first.pid)


async def test_a_negative_number_is_a_mistake(tmp_path: Path) -> None:
    async with supervised(tmp_path) as made:
        with pytest.raises(ValueError, match="-1 workers of parser"):
            made.scale("parser", -1)


async def test_roles_end_in_order(tmp_path: Path) -> None:
    mark = tmp_path / "order"
    script = "trap 'echo {} >> {}; exit 0' TERM; while :; do sleep 0.02; done"
    async with supervised(
        tmp_path, lambda role: script.format(role, mark), parser=1, fetcher=1, dedup=1
    ):
        await asyncio.sleep(0.1)
    assert mark.read_text().split() == ["dedup", "fetcher", "parser"]


async def test_a_worker_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; while :; do sleep 0.02; done"
    async with supervised(tmp_path, script, margin_s=0.1, fetcher=1) as made:
        (worker,) = running(made)
        await asyncio.sleep(0.05)
    assert not alive(worker.pid)


async def test_two_supervisors_do_not_share_a_data_folder(tmp_path: Path) -> None:
    async with supervised(tmp_path, fetcher=1) as first:
        with pytest.raises(SupervisorError, match="already run"):
            async with supervised(tmp_path, fetcher=1):
                pass
        assert len(running(first)) == 1
    async with supervised(tmp_path, fetcher=1):
        pass


async def test_other_processes_see_the_workers(tmp_path: Path) -> None:
    assert status(tmp_path).pid is None
    async with supervised(tmp_path, fetcher=1) as made:
        made._write_state()
        found = status(tmp_path)
        assert (found.pid, found.phase, found.failure) == (os.getpid(), "starting", None)
        assert [(w["name"], w["pid"]) for w in found.workers] == [
            ("fetcher-0", running(made)[0].pid)
        ]
    assert status(tmp_path) == (None, None, None, ())


async def test_each_worker_has_its_own_log_and_state_folder(tmp_path: Path) -> None:
    async with supervised(tmp_path, "echo $CRAWL_INSTANCE; exec sleep 60", dedup=2) as made:
        logs = [worker.log for worker in made.workers()]
        await until(lambda: [log.read_text() for log in logs] == ["1\n", "2\n"])


@pytest.mark.parametrize(("base", "fixed"), [(None, None), (0, None), (9000, [9000, 9100, 9101])])
async def test_metrics_ports_do_not_clash(
    tmp_path: Path, base: int | None, fixed: list[int] | None
) -> None:
    settings = load(
        {}, data_dir=tmp_path, bootstrap_servers="127.0.0.1:1", metrics_port=base, drain_timeout_s=0
    )
    made = Supervisor(
        settings,
        {"dedup": 1, "fetcher": 2},
        command=lambda _: ["/bin/sh", "-c", "echo ${CRAWL_METRICS_PORT-none}; exec sleep 60"],
    )
    async with made:
        ports = [worker.metrics_port for worker in made.workers()]
        if fixed is None:
            assert len(set(ports)) == 3
            assert all(20_000 <= port < 30_000 for port in ports)
        else:
            assert ports == fixed
        rows = status(tmp_path).workers
        assert [row["metrics_port"] for row in rows] == ports
        told = [str(port) for port in ports]
        logs = [worker.log for worker in made.workers()]
        await until(lambda: [log.read_text().strip() for log in logs] == told)
