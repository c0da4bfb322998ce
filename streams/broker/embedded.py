"""The broker's life: start, ready, stop, and what other processes can learn about it."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from streams.broker import config, jars, java, probe
from streams.broker.errors import AlreadyRunningError, BrokerError
from streams.broker.places import Places, held, locked, read_json, write_json
from streams.process.guard import Guard

_POLL_S: Final = 0.05
_TAIL_LINES: Final = 25
_LEAST_FREE_BYTES: Final = 64 * 1024 * 1024


class BrokerStatus(NamedTuple):
    """What is known about the broker of a data folder.

    `running`: a process holds the folder. `ready`: it also answers. `pid` and `bootstrap` are None
    when it does not run.
    """

    running: bool
    ready: bool
    pid: int | None
    bootstrap: str | None


def new_cluster_id() -> str:
    """A random id as Kafka writes them; never with a dash in front, which its tools refuse."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):
            return made


class EmbeddedBroker:
    """A single-node Apache Kafka in a data folder.

    As a context manager it is ended with the block, and also when this process is killed; started
    with `start` it lives on until `stop`, from here or from another process.

    Args:
        data_dir: the project's data folder; Kafka's data in it survives restarts.
        port: port on 127.0.0.1; None: the last start's if still free, else any free one.
        heap_mb: memory of the Java heap; the process takes some 100 MB beside it.
        jvm_options: further options of the JVM.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        heap_mb: int = 512,
        jvm_options: Sequence[str] = (),
    ) -> None:
        self._places = Places(data_dir.absolute())
        self._port = port
        self._heap_mb = heap_mb
        self._jvm_options = tuple(jvm_options)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None

    @property
    def pid(self) -> int | None:
        """The Java process, if started from here and not yet stopped."""
        return self._process.pid if self._process else None

    def start(self, *, timeout_s: float = 120.0, attach: bool = False) -> str:
        """Start the broker and return its bootstrap address once it serves requests.

        With `attach`, the address of a broker that already runs in the folder is returned
        instead (and `stop` then leaves it alone). Raises AlreadyRunningError without `attach`,
        BrokerError when the broker does not come up; its message ends with the last log lines.
        """
        deadline = time.monotonic() + timeout_s
        self._make_folders()
        with locked(self._places) as lock:
            if lock is None:
                return self._attach(deadline) if attach else self._refuse()
            classpath = jars.ensure()
            runtime = java.find()
            cache = start_cache()
            ports = _ports(self._places.ports, self._port)
            base = [
                str(runtime.path),
                *java.options(runtime, self._heap_mb, cache),
                "-cp",
                ":".join(map(str, classpath)),
                f"-Dlog4j2.configurationFile={self._places.home / 'log4j2.properties'}",
            ]
            self._configure(*ports)
            self._format(base)
            self._spawn([*base, *self._jvm_options], lock, ports[0])
        bootstrap = f"{config.HOST}:{ports[0]}"
        self._await_ready(bootstrap, deadline, timeout_s)
        return bootstrap

    def stop(self, timeout_s: float = 20.0) -> None:
        """End the broker that this object started: SIGTERM, after `timeout_s` SIGKILL."""
        if (process := self._process) is None:
            return
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._forget()

    def __enter__(self) -> Self:
        self._guarded_start(attach=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._guard:
            self._guard.close()

    def _guarded_start(self, *, attach: bool) -> str:
        """Start a broker that ends when this process does, however that ends."""
        self._guard = Guard(grace_s=20)
        try:
            return self.start(attach=attach)
        except BaseException:
            self._guard.close()
            raise

    @property
    def bootstrap(self) -> str:
        """Address of the running broker. Raises BrokerError when it does not run."""
        found = status(self._places.root)
        if found.bootstrap is None:
            raise BrokerError("the embedded broker does not run")
        return found.bootstrap

    def _make_folders(self) -> None:
        places = self._places
        try:
            places.data.mkdir(parents=True, exist_ok=True)
            places.log.parent.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(places.data).free
        except OSError as error:
            raise BrokerError(f"{places.root} cannot be used as data folder: {error}") from error
        if free < _LEAST_FREE_BYTES:
            raise BrokerError(f"the disk of {places.root} is full: {free} bytes are left")

    def _attach(self, deadline: float) -> str:
        """The running broker's address; it may still be on its way up."""
        while True:
            found = status(self._places.root)
            if found.ready and found.bootstrap:
                return found.bootstrap
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"a broker (pid {found.pid}) holds {self._places.root} but does not answer;"
                    " see logs/kafka.log there, or end it with: crawl broker stop"
                )
            time.sleep(_POLL_S)

    def _refuse(self) -> str:
        found = status(self._places.root)
        if found.pid is None:
            raise AlreadyRunningError(f"another process starts a broker in {self._places.root}")
        raise AlreadyRunningError(
            f"a broker already runs in {self._places.root}"
            f" (pid {found.pid}, {found.bootstrap}); end it with: crawl broker stop"
        )

    def _configure(self, port: int, controller_port: int) -> None:
        places = self._places
        properties = config.server_properties(places.data, port, controller_port)
        (places.home / "server.properties").write_text(properties, "ascii")
        log4j2 = config.log4j2_properties(places.log)
        (places.home / "log4j2.properties").write_text(log4j2, "ascii")

    def _format(self, base: list[str]) -> None:
        """Give a new data folder its identity. A no-op on one that has it."""
        if (self._places.data / "meta.properties").exists():
            return
        if any(self._places.data.glob("*-*/*.log")):
            raise BrokerError(
                f"the data folder is damaged: {self._places.data} holds topics but not"
                " meta.properties. Restore that file, or move the folder away to start anew."
            )
        cluster = new_cluster_id()
        properties = str(self._places.home / "server.properties")
        arguments = ["format", "--ignore-formatted", "-t", cluster, "-c", properties]
        done = subprocess.run(  # noqa: S603 - our own command line
            [*base, "kafka.tools.StorageTool", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise self._failure(f"the data folder cannot be prepared (exit {done.returncode})",
                                done.stdout + done.stderr)  # fmt: skip

    def _spawn(self, base: list[str], lock: int, port: int) -> None:
        places = self._places
        with places.console.open("wb") as console:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [*base, "kafka.Kafka", str(places.home / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                cwd=places.home,
                # Ctrl-C on the terminal is for us; the broker is ended after its clients.
                start_new_session=True,
                pass_fds=(lock,),
            )
        if self._guard:
            self._guard.watch(self._process.pid)
        bootstrap = f"{config.HOST}:{port}"
        write_json(places.state, {"pid": self._process.pid, "bootstrap": bootstrap})

    def _await_ready(self, bootstrap: str, deadline: float, timeout_s: float) -> None:
        process = self._process
        assert process is not None
        problem = None
        try:
            while problem is None and not probe.answers(bootstrap):
                if (code := process.poll()) is not None:
                    problem = f"the broker ended with exit code {code}"
                elif time.monotonic() > deadline:
                    problem = f"the broker did not come up within {timeout_s:g} s"
                time.sleep(_POLL_S)
        except BaseException:
            problem = "interrupted"
            raise
        finally:
            if problem is not None:
                process.kill()
                process.wait()
                self._forget()
        if problem is not None:
            raise self._failure(problem)

    def _forget(self) -> None:
        if self._process:
            if self._guard:
                self._guard.release(self._process.pid)
            self._process = None
            self._places.state.unlink(missing_ok=True)

    def _failure(self, what: str, output: str = "") -> BrokerError:
        tail = _tail(output or self._places.console.read_text("utf-8", "replace"))
        if not output and self._places.log.exists():
            tail = _tail(self._places.log.read_text("utf-8", "replace")) + tail
        why = config.cause(tail)
        lines = "".join(f"\n  | {line}" for line in tail.splitlines())
        because = f": {why}" if why else ""
        return BrokerError(f"{what}{because}. Last lines of {self._places.log}:{lines}")


@contextlib.contextmanager
def serving(data_dir: Path) -> Iterator[str]:
    """The address of a folder's broker, for the length of a block.

    A broker that already runs is used and left alone; else one is started, and ended with the
    block or with this process.
    """
    broker = EmbeddedBroker(data_dir)
    address = broker._guarded_start(attach=True)  # noqa: SLF001 - same module
    try:
        yield address
    finally:
        broker.__exit__(None, None, None)


def status(data_dir: Path) -> BrokerStatus:
    """Whether a broker runs in a data folder, from any process. Takes a few milliseconds."""
    places = Places(data_dir.absolute())
    state = read_json(places.state)
    if state is None or not held(places.lock):
        return BrokerStatus(running=False, ready=False, pid=None, bootstrap=None)
    bootstrap = str(state["bootstrap"])
    return BrokerStatus(
        running=True, ready=probe.answers(bootstrap), pid=int(state["pid"]), bootstrap=bootstrap
    )


def stop(data_dir: Path, timeout_s: float = 20.0) -> bool:
    """End the broker of a data folder, whoever started it. False when none ran."""
    places = Places(data_dir.absolute())
    found = status(data_dir)
    if found.pid is None:
        places.state.unlink(missing_ok=True)
        return False
    for number, patience_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.pid, number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if not held(places.lock):
                places.state.unlink(missing_ok=True)
                return True
            time.sleep(_POLL_S)
    raise BrokerError(f"the broker (pid {found.pid}) cannot be ended")


def start_cache() -> Path:
    """Where the start cache of these jars is kept; it need not exist."""
    return jars.cache_dir(jars.locked()) / "start.aot"


def _ports(remembered: Path, wanted: int | None) -> tuple[int, int]:
    """Ports of the broker and of its controller."""
    last = read_json(remembered) or {}
    if wanted is not None and not probe.is_free(wanted):
        raise BrokerError(f"port {wanted} on {config.HOST} is taken by another process")
    port = wanted or probe.free_port(last.get("port"))
    controller = probe.free_port(last.get("controller_port"), other_than=port)
    write_json(remembered, {"port": port, "controller_port": controller})
    return port, controller


def _tail(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[-_TAIL_LINES:])
