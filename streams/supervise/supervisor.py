"""The supervisor: desired numbers of workers in, running processes out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import structlog

from schemas.topics import physical
from streams.kafka.clients import bootstrap, make_admin, started
from streams.process.guard import Guard
from streams.settings import Settings
from streams.supervise import children
from streams.supervise.children import GROUPS, ROLES, Role
from streams.supervise.policy import (
    DEFAULT,
    GiveUp,
    History,
    Restart,
    RestartPolicy,
    describe_end,
    on_end,
)
from streams.supervise.state import SupervisorError, acquire, state_path, write_state

log = structlog.get_logger(__name__)

_TICK_S: Final = 0.1
_READY_POLL_S: Final = 0.25
_FREE_PORTS: Final = (20_000, 30_000)
_PORT_TRIES: Final = 50
# A worker's own drain is bounded by `drain_timeout_s`; the rest is for its last commit and exit.
_EXIT_MARGIN_S: Final = 10.0

CommandLine = Callable[[Role], list[str]]


class ChildInfo(NamedTuple):
    """One worker. `pid` is None between two runs."""

    role: Role
    number: int
    pid: int | None
    log: Path
    restarts: int
    metrics_port: int

    @property
    def name(self) -> str:
        """Role and number, e.g. fetcher-0."""
        return f"{self.role}-{self.number}"


@dataclass(slots=True, eq=False)
class _Child:
    role: Role
    index: int
    log: Path
    env: dict[str, str]
    metrics_port: int = 0
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    history: History = field(default_factory=History)
    starts: int = 0
    unwanted_since: float | None = None

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"


class Supervisor:
    """Keeps the wanted number of workers of each role running.

    Used as an asynchronous context manager: workers start with the block, and at its end are ended
    in the order dedup, fetchers, parsers. All methods run on its event loop.

    Args:
        settings: for the workers; the broker must run.
        counts: workers of each role; a role that is left out has none.
        policy: restarts of workers that die.
        command: command line of a worker; tests pass their own.
    """

    def __init__(
        self,
        settings: Settings,
        counts: Mapping[Role, int],
        *,
        policy: RestartPolicy = DEFAULT,
        command: CommandLine = children.command,
    ) -> None:
        self._settings = settings
        self._counts: dict[Role, int] = {role: counts.get(role, 0) for role in ROLES}
        self._policy = policy
        self._command = command
        self._children: dict[tuple[Role, int], _Child] = {}
        self._guard: Guard | None = None
        self._lock: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._failed = asyncio.Event()
        self._failure: str | None = None
        self._phase = "starting"
        self._stop_timeout_s = settings.drain_timeout_s + _EXIT_MARGIN_S
        self._env: dict[str, str] = {}
        self._random = random.Random()  # noqa: S311 - jitter

    async def start(self) -> None:
        """Start all workers. Raises SupervisorError when others run in this data folder."""
        self._lock = acquire(self._settings.data_dir)
        self._env = children.environment(self._settings, bootstrap(self._settings))
        self._guard = Guard(grace_s=int(self._stop_timeout_s))
        self._reconcile(time.monotonic())
        self._write_state()
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """End all workers, role by role, each within the drain time and a margin."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        self._phase = "stopping"
        for role in ROLES:
            await self._end([c for c in self._children.values() if c.role == role])
        self._children.clear()
        if self._guard is not None:
            self._guard.close()
            self._guard = None
        if self._lock is not None:
            state_path(self._settings.data_dir).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def scale(self, role: Role, count: int) -> None:
        """Want this many workers of a role from now on. Returns at once.

        Fewer: the newest are asked to drain and end. More: started within a tick.
        """
        if count < 0:
            raise ValueError(f"{count} workers of {role}")
        if count != self._counts[role]:
            log.info("scale", worker=role, before=self._counts[role], now=count)
            self._counts[role] = count

    def counts(self) -> dict[Role, int]:
        """Workers wanted, by role."""
        return dict(self._counts)

    def workers(self) -> tuple[ChildInfo, ...]:
        """All workers, those between two runs included."""
        return tuple(
            ChildInfo(
                child.role,
                child.index,
                child.process.pid if child.process else None,
                child.log,
                max(0, child.starts - 1),
                child.metrics_port,
            )
            for child in self._children.values()
        )

    @property
    def failure(self) -> str | None:
        """Why a worker was given up; None while all is well."""
        return self._failure

    async def failed(self) -> str:
        """Wait until a worker is given up, and say why. Never returns while all is well."""
        await self._failed.wait()
        return self._failure or ""

    async def ready(self, timeout_s: float = 120.0) -> None:
        """Wait until every role's consumer group has its members and is stable.

        Raises SupervisorError when a worker is given up or the time is over.
        """
        deadline = time.monotonic() + timeout_s
        async with started(make_admin(self._settings)) as admin:
            while waiting := await self._unready(admin):
                if self._failure is not None:
                    raise SupervisorError(self._failure)
                if time.monotonic() > deadline:
                    logs = self._settings.data_dir.absolute() / "logs"
                    raise SupervisorError(
                        f"not ready within {timeout_s:g} s: {', '.join(waiting)}; see {logs}"
                    )
                await asyncio.sleep(_READY_POLL_S)
        self._phase = "ready"
        self._write_state()

    async def _unready(self, admin: object) -> list[Role]:
        from aiokafka.errors import KafkaError

        waiting: list[Role] = []
        for role in ROLES:
            if not self._counts[role]:
                continue
            group = physical(GROUPS[role], self._settings.topic_prefix)
            try:
                (answer,) = await admin.describe_consumer_groups([group])  # type: ignore[attr-defined]
            except KafkaError:
                waiting.append(role)
                continue
            (_, _, state, _, _, members, *_) = answer.groups[0]
            if state != "Stable" or len(members) < self._counts[role]:
                waiting.append(role)
        return waiting

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            changed = self._reap(now)
            if self._reconcile(now) or changed:
                self._write_state()

    def _reap(self, now: float) -> bool:
        """Notice workers that ended; True when there were any."""
        ended = [c for c in self._children.values() if c.process and c.process.poll() is not None]
        for child in ended:
            assert child.process is not None
            code = child.process.returncode
            self._forget(child)
            if child.unwanted_since is not None:
                log.info("worker ended", worker=child.name, how=describe_end(code))
                del self._children[child.role, child.index]
                continue
            uptime_s = now - child.started_at
            child.history, decision = on_end(
                child.history, code, uptime_s, self._random.random(), self._policy
            )
            self._act(child, code, decision, now)
        return bool(ended)

    def _act(self, child: _Child, code: int, decision: Restart | GiveUp, now: float) -> None:
        how = describe_end(code)
        last = children.tail(child.log)
        match decision:
            case Restart(after_s):
                child.start_at = now + after_s
                log.error(
                    "worker died", worker=child.name, how=how, restart_in_s=round(after_s, 1),
                    log=str(child.log), last_lines=last,
                )  # fmt: skip
            case GiveUp(reason):
                child.start_at = float("inf")
                self._failure = (
                    f"{child.name} is given up: {reason}. Last lines of {child.log}:\n{last}"
                )
                self._failed.set()
                log.critical("worker given up", worker=child.name, how=how, reason=reason)

    def _reconcile(self, now: float) -> bool:
        """Start what is wanted and due, ask to end what is not wanted; True when any."""
        changed = False
        for role, count in self._counts.items():
            for index in range(count):
                child = self._children.get((role, index)) or self._new(role, index)
                # A worker on its way out keeps its index until it has ended.
                if not child.process and child.unwanted_since is None and now >= child.start_at:
                    self._spawn(child, now)
                    changed = True
        for child in list(self._children.values()):
            if child.index >= self._counts[child.role] or child.unwanted_since is not None:
                changed |= self._dismiss(child, now)
        return changed

    def _new(self, role: Role, index: int) -> _Child:
        env = dict(self._env)
        # A worker finds its own state again, whichever of its kind starts first.
        env["CRAWL_INSTANCE"] = str(index + 1)
        path = children.log_path(role, index, self._settings)
        child = _Child(role, index, path, env)
        self._children[role, index] = child
        return child

    def _metrics_port(self, child: _Child) -> int:
        """Workers of one machine cannot share a port.

        With `CRAWL_METRICS_PORT` there are a hundred for each role from there on, in their order;
        without, one that is free now, below those that outgoing connections are given.
        """
        if base := self._settings.metrics_port:
            return base + 100 * ROLES.index(child.role) + child.index
        for _ in range(_PORT_TRIES):
            port = self._random.randrange(*_FREE_PORTS)
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind((self._settings.metrics_host, port))
                return port
        return 0

    def _spawn(self, child: _Child, now: float) -> None:
        arguments = self._command(child.role)
        child.metrics_port = self._metrics_port(child)
        child.env["CRAWL_METRICS_PORT"] = str(child.metrics_port)
        child.process = children.spawn(arguments, child.env, child.log)
        child.started_at = now
        child.starts += 1
        if self._guard is not None:
            self._guard.watch(child.process.pid)
        log.info("worker started", worker=child.name, pid=child.process.pid, log=str(child.log))

    def _dismiss(self, child: _Child, now: float) -> bool:
        """SIGTERM once, SIGKILL when its time is over; True when anything was done."""
        if child.process is None:
            del self._children[child.role, child.index]
            return True
        if child.unwanted_since is None:
            child.unwanted_since = now
            child.process.terminate()
            return True
        if now - child.unwanted_since > self._stop_timeout_s:
            log.warning("worker killed: it did not end in time", worker=child.name)
            child.process.kill()
        return False

    async def _end(self, ending: list[_Child]) -> None:
        running = [child for child in ending if child.process is not None]
        for child in running:
            assert child.process is not None
            child.process.terminate()
        deadline = time.monotonic() + self._stop_timeout_s
        while running:
            for child in list(running):
                assert child.process is not None
                if child.process.poll() is None:
                    if time.monotonic() > deadline:
                        log.warning("worker killed: it did not end in time", worker=child.name)
                        child.process.kill()
                        child.process.wait()
                    continue
                how = describe_end(child.process.returncode)
                log.info("worker ended", worker=child.name, how=how)
                self._forget(child)
                running.remove(child)
            if running:
                await asyncio.sleep(_TICK_S)

    def _forget(self, child: _Child) -> None:
        if child.process is not None and self._guard is not None:
            self._guard.release(child.process.pid)
        child.process = None

    def _write_state(self) -> None:
        write_state(
            self._settings.data_dir,
            {
                "pid": os.getpid(),
                "phase": "failed" if self._failure else self._phase,
                "failure": self._failure,
                "workers": [
                    {
                        "name": info.name,
                        "pid": info.pid,
                        "restarts": info.restarts,
                        "metrics_port": info.metrics_port,
                        "log": str(info.log),
                    }
                    for info in self.workers()
                ],
            },
        )
