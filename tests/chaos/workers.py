"""The processes of the run: the real roles, started, hurt and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streams.process.guard import Guard
from streams.settings import Settings
from streams.supervise.children import command, environment
from tests.chaos.schedule import ROLES, Role

RESTART_S: Final = 0.4
ROOT: Final = Path(__file__).resolve().parents[2]
CLOCK: Final = Path(__file__).resolve().parent / "clock"


@dataclass(eq=False)
class Worker:
    """One process."""

    role: Role
    number: int
    process: subprocess.Popen[bytes]
    log_start: int
    leaving: bool = False
    """SIGTERM was sent: it is not started again."""
    stopped: bool = False


class Workers:
    """All worker processes.

    Args:
        settings: of the deployment.
        folder: for logs and the dedup workers' data folders.
        on_exit: called with each process that ended by itself, and its exit code.
    """

    def __init__(
        self, settings: Settings, folder: Path, on_exit: Callable[[Worker, int], None]
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._on_exit = on_exit
        self._guard = Guard(grace_s=1)
        self._due: list[tuple[float, Role, int]] = []
        self.running: list[Worker] = []
        self.wanted: dict[Role, int] = dict.fromkeys(ROLES, 2)
        self.exits: Counter[str] = Counter()
        """Processes that ended by themselves, by role and exit code."""

    def data_dir(self, number: int) -> Path:
        """Where a dedup worker keeps its table."""
        return self._folder / f"dedup-{number}"

    def step(self, worker: Worker, ahead_s: float) -> None:
        """Set how far its clock is ahead; see `clock/sitecustomize.py`."""
        _write_clock(self._clock(worker.role, worker.number), ahead_s)

    def _clock(self, role: Role, number: int) -> Path:
        return self._folder / f"{role}-{number}.clock"

    def log(self, worker: Worker) -> str:
        """What it has logged since it was started."""
        with self._log(worker.role, worker.number).open("rb") as log:
            log.seek(worker.log_start)
            return log.read().decode("utf-8", "replace")

    def _log(self, role: Role, number: int) -> Path:
        return self._folder / f"{role}-{number}.log"

    def of(self, role: Role) -> list[Worker]:
        """The workers of a role that run and are not about to end."""
        return [one for one in self.running if one.role == role and not one.leaving]

    def pick(self, role: Role, at: int) -> Worker | None:
        """One that runs and is not stopped."""
        able = [one for one in self.of(role) if not one.stopped]
        return able[at % len(able)] if able else None

    def start(self, role: Role, number: int) -> None:
        settings = self._settings
        if role == "dedup":
            settings = settings.model_copy(
                update={"data_dir": self.data_dir(number), "instance": "1"}
            )
        env = environment(settings, settings.bootstrap_servers or "")
        if env.pop("PYTHONDONTWRITEBYTECODE", None):
            env.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / "test-pycache"))
        clock = self._clock(role, number)
        _write_clock(clock, 0.0)
        env["CHAOS_CLOCK"] = str(clock)
        env["PYTHONPATH"] = os.pathsep.join((str(CLOCK), *filter(None, [env.get("PYTHONPATH")])))
        with self._log(role, number).open("ab") as out:
            start = out.tell()
            process = subprocess.Popen(
                command(role), cwd=ROOT, env=env, stdout=out, stderr=out, start_new_session=True
            )
        self._guard.watch(process.pid)
        self.running.append(Worker(role, number, process, start))

    def look(self) -> None:
        """Notice ended processes; start those that are due."""
        for worker in list(self.running):
            code = worker.process.poll()
            if code is None:
                continue
            self.running.remove(worker)
            self._guard.release(worker.process.pid)
            if code != -signal.SIGKILL:
                self.exits[f"{worker.role}:{code}"] += 1
                if not worker.leaving:
                    self._on_exit(worker, code)
        for role in ROLES:
            self._plan(role)
        now = time.monotonic()
        for entry in [entry for entry in self._due if entry[0] <= now]:
            self._due.remove(entry)
            if len(self.of(entry[1])) < self.wanted[entry[1]]:
                self.start(entry[1], entry[2])

    def _plan(self, role: Role) -> None:
        """Note starts for the workers that a role lacks, with numbers that are free."""
        due = [entry for entry in self._due if entry[1] == role]
        taken = {one.number for one in self.running if one.role == role}
        taken |= {number for _, _, number in due}
        free = [number for number in range(12) if number not in taken]
        missing = self.wanted[role] - len(self.of(role)) - len(due)
        at = time.monotonic() + RESTART_S
        self._due += [(at, role, number) for number in free[: max(0, missing)]]

    def kill(self, worker: Worker) -> None:
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()

    def children(self, worker: Worker) -> list[int]:
        """Parse processes of a parser."""
        found = []
        for path in Path(f"/proc/{worker.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(pid) for pid in path.read_text("ascii").split()]
        return [pid for pid in found if _runs(pid, b"parsers.worker.child")]

    def stop(self, worker: Worker) -> None:
        worker.process.send_signal(signal.SIGSTOP)
        worker.stopped = True

    def go_on(self, worker: Worker) -> None:
        if worker.process.poll() is None:
            worker.process.send_signal(signal.SIGCONT)
            worker.stopped = False

    def term(self, worker: Worker) -> None:
        worker.leaving = True
        worker.process.send_signal(signal.SIGTERM)

    def scale(self, role: Role, number: int) -> None:
        """Start or end workers of a role."""
        self.wanted[role] = number
        for worker in [one for one in self.of(role) if not one.stopped][number:]:
            self.term(worker)

    def end(self) -> None:
        """Kill everything."""
        for worker in self.running:
            os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
        self._guard.close()


def _write_clock(path: Path, ahead_s: float) -> None:
    """In place: a file cut to nothing, be it for an instant, kills whoever has it in memory."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(file, struct.pack("q", int(ahead_s * 1e9)))
    finally:
        os.close(file)


def _runs(pid: int, module: bytes) -> bool:
    try:
        return module in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
