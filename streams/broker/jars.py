"""Kafka's jars: an exact list with hashes, fetched once, used offline ever after.

`kafka.jars` (one `group:artifact:version sha256` a line) is the lock. Resolving dependencies from
POMs would take 15 s of CPU and trust whatever a repository serves that day; the list makes the
first start a plain fetch of known bytes. `python -m streams.broker.jars` writes it anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from streams.broker.errors import BrokerError

KAFKA: Final = "org.apache.kafka:kafka_2.13:4.3.1"
# Kafka logs through slf4j and leaves the binding to its distribution; without one it is silent.
LOGGING: Final = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"

_LOCK_FILE: Final = "kafka.jars"
_ATTEMPTS: Final = 3
_PARALLEL: Final = 8


class Jar(NamedTuple):
    """One jar: its Maven coordinates and the SHA-256 of its bytes."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Name in the cache folder, which is flat: artifacts here are unique."""
        return f"{self.artifact}-{self.version}.jar"


def parse_lock(text: str) -> tuple[Jar, ...]:
    """Jars of a lock file's text, in class path order."""
    jars = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256 = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(Jar(group, artifact, version, sha256))
    return tuple(jars)


def locked() -> tuple[Jar, ...]:
    """The jars of this release."""
    return parse_lock(resources.files("streams.broker").joinpath(_LOCK_FILE).read_text("utf-8"))


def cache_dir(jars: tuple[Jar, ...]) -> Path:
    """Folder of these jars in the user's cache; another list gets another folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256("".join(jar.sha256 for jar in jars).encode()).hexdigest()
    version = KAFKA.rpartition(":")[2]
    return Path(base) / "crawlstream" / f"kafka-{version}-{digest[:12]}"


def ensure(folder: Path | None = None) -> tuple[Path, ...]:
    """Paths of all jars in class path order, fetching those that are not in the cache yet.

    Without a missing jar nothing leaves the machine. Two processes that both find jars missing
    take turns. Raises BrokerError when a jar cannot be had or has other bytes than the lock says.
    """
    jars = locked()
    folder = folder or cache_dir(jars)
    if missing(jars, folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive(folder / ".lock"):
                _fetch(missing(jars, folder), folder)
        except OSError as error:
            raise BrokerError(f"Kafka's jars cannot be kept in {folder}: {error}") from error
    return tuple(folder / jar.file_name for jar in jars)


def missing(jars: tuple[Jar, ...], folder: Path) -> tuple[Jar, ...]:
    """The jars that are not in the folder. A jar gets its name there only once it is checked."""
    return tuple(jar for jar in jars if not (folder / jar.file_name).is_file())


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Take turns with other processes on a lock file."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jars: tuple[Jar, ...], folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as staging,
        ThreadPoolExecutor(_PARALLEL) as pool,
    ):
        for _ in pool.map(lambda jar: _fetch_one(jar, Path(staging), folder), jars):
            pass


def _fetch_one(jar: Jar, staging: Path, folder: Path) -> None:
    """Fetch, check, then rename into place, so that a jar with its final name is whole."""
    reason = ""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(staging / jar.artifact, ignore_errors=True)
        try:
            path = _from_repository(jar, staging / jar.artifact)
        # requests' errors and jgo's RuntimeError; the door to both is this one.
        except (OSError, RuntimeError) as error:
            reason = str(error)
            continue
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found == jar.sha256:
            path.replace(folder / jar.file_name)
            return
        reason = f"sha256 is {found}, not {jar.sha256}"
    raise BrokerError(
        f"{jar.group}:{jar.artifact}:{jar.version} could not be fetched: {reason}\n"
        "The embedded broker fetches Kafka's jars once, from Maven Central or the [repositories]"
        " of jgo's configuration file. Without a network, copy"
        f" {folder} from a machine that has one, or set KAFKA_BOOTSTRAP_SERVERS."
    )


def _from_repository(jar: Jar, into: Path) -> Path:
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    remotes = {"central": MAVEN_CENTRAL_URL} | GlobalSettings.load().repositories
    context = MavenContext(repo_cache=into, remote_repos=remotes)
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    return Path(component.artifact().resolve())


def resolve_lock() -> str:
    """Text of a new lock, from the POMs of `KAFKA` and `LOGGING`."""
    import jgo

    lines: dict[str, str] = {}
    for root in (KAFKA, LOGGING):
        for artifact in jgo.resolve(root):
            name = f"{artifact.groupId}:{artifact.artifactId}"
            digest = hashlib.sha256(Path(artifact.resolve()).read_bytes()).hexdigest()
            lines.setdefault(name, f"{name}:{artifact.version} {digest}")
    return (
        f"# {KAFKA} and {LOGGING} with all they need. Written by: make lock\n"
        + "\n".join(lines.values())
        + "\n"
    )


if __name__ == "__main__":
    sys.stdout.write(resolve_lock())
