"""Files of a broker, and the lock and state that other processes read."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_POLL_S: Final = 0.05


class Places(NamedTuple):
    """Files of a broker within the project's data folder."""

    root: Path

    @property
    def state(self) -> Path:
        """`{"pid": ..., "bootstrap": ...}` of the running broker; absent after a clean stop."""
        return self.root / "broker.json"

    @property
    def home(self) -> Path:
        """Everything of Kafka's but its logs."""
        return self.root / "kafka"

    @property
    def data(self) -> Path:
        """Kafka's log.dirs."""
        return self.home / "data"

    @property
    def lock(self) -> Path:
        """Locked (flock) by the Java process for as long as it lives."""
        return self.home / "lock"

    @property
    def ports(self) -> Path:
        """The ports of the last start, to be used again."""
        return self.home / "ports.json"

    @property
    def log(self) -> Path:
        """Kafka's own log, rotated."""
        return self.root / "logs" / "kafka.log"

    @property
    def console(self) -> Path:
        """What the JVM itself prints; of the last start only."""
        return self.root / "logs" / "kafka.out"


def held(lock: Path) -> bool:
    """Whether a live process holds a lock file."""
    try:
        fd = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(places: Places) -> Iterator[int | None]:
    """The folder's lock, or None when a broker has it.

    A `status` elsewhere holds it for an instant too; a broker has it for good, so ask twice.
    """
    fd = os.open(places.lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        for _ in range(5):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL_S)
            else:
                yield fd
                return
        yield None
    finally:
        os.close(fd)


def read_json(path: Path) -> dict[str, int | str] | None:
    """An object from a file; None when the file is missing, torn or holds something else."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: Path, value: dict[str, int | str]) -> None:
    """Replace a file, so that a reader sees the old or the new object."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value), "utf-8")
    new.replace(path)
