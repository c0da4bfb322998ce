"""One folder of local state a worker: held by a lock while it runs, found again when restarted."""

from __future__ import annotations

import fcntl
import os
from itertools import count
from pathlib import Path
from typing import Self

from schemas.errors import ConfigError


class Folder:
    """`{data folder}/dedup/{instance}`, held until the process ends, however it ends."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def take(cls, data_dir: Path, instance: str | None) -> Self:
        """Hold the folder of an instance, or the lowest number that is free.

        A worker that is restarted alone so finds its own folder again; state that belongs to
        partitions it does not get is caught up when it gets them. Raises ConfigError when the
        named folder is held by another process.
        """
        for name in [instance] if instance else map(str, count(1)):
            path = (data_dir / "dedup" / name).absolute()
            try:
                path.mkdir(parents=True, exist_ok=True)
                lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise ConfigError(f"CRAWL_DATA_DIR: cannot use {path}: {error}") from error
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            return cls(path, lock)
        raise ConfigError(f"CRAWL_INSTANCE: {path} is held by another running worker")

    def release(self) -> None:
        """Let others have the folder."""
        os.close(self._lock)
