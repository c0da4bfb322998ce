"""Kafka's jars: a lock, checked bytes, and no network once they are there."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from streams.broker import jars
from streams.broker.errors import BrokerError
from streams.broker.jars import Jar

CONTENT = {"a": b"first jar", "b": b"second jar"}
LOCK = tuple(
    Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest())
    for name, content in CONTENT.items()
)


class Repository:
    """Stands for Maven Central: serves `content`, counting what is asked for."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content
        self.asked: list[str] = []

    def __call__(self, jar: Jar, into: Path) -> Path:
        self.asked.append(jar.artifact)
        into.mkdir(parents=True, exist_ok=True)
        if jar.artifact not in self.content:
            raise RuntimeError(f"{jar.artifact} is not there")
        path = into / "served.jar"
        path.write_bytes(self.content[jar.artifact])
        return path


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Repository:
    served = Repository(dict(CONTENT))
    monkeypatch.setattr(jars, "_from_repository", served)
    monkeypatch.setattr(jars, "locked", lambda: LOCK)
    return served


def test_the_lock_names_each_jar_once_with_its_hash() -> None:
    found = jars.locked()
    assert len({(jar.group, jar.artifact) for jar in found}) == len(found) > 40
    assert len({jar.file_name for jar in found}) == len(found)
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in found)


def test_the_lock_is_of_the_kafka_that_is_announced() -> None:
    coordinates = {f"{jar.group}:{jar.artifact}:{jar.version}" for jar in jars.locked()}
    assert {jars.KAFKA, jars.LOGGING} <= coordinates


def test_comments_and_order_of_a_lock() -> None:
    assert jars.parse_lock("# x\ng:b:2 bb\n\ng:a:1 aa\n") == (
        Jar("g", "b", "2", "bb"),
        Jar("g", "a", "1", "aa"),
    )


def test_jars_are_fetched_once_and_then_never_asked_for(
    repository: Repository, tmp_path: Path
) -> None:
    first = jars.ensure(tmp_path)
    assert [path.read_bytes() for path in first] == list(CONTENT.values())
    repository.asked.clear()
    assert jars.ensure(tmp_path) == first
    assert repository.asked == []


def test_only_what_is_missing_is_fetched(repository: Repository, tmp_path: Path) -> None:
    first, second = jars.ensure(tmp_path)
    second.unlink()
    repository.asked.clear()
    jars.ensure(tmp_path)
    assert repository.asked == ["b"]
    assert first.exists()


def test_other_bytes_than_locked_are_refused(repository: Repository, tmp_path: Path) -> None:
    repository.content["b"] = b"not the second jar"
    with pytest.raises(BrokerError, match=r"org\.example:b:1\.0 .*sha256 is"):
        jars.ensure(tmp_path)
    assert [path.name for path in tmp_path.glob("b*")] == []
    assert not list(tmp_path.glob(".fetch-*"))


def test_no_network_says_what_to_do(repository: Repository, tmp_path: Path) -> None:
    repository.content.clear()
    with pytest.raises(BrokerError, match="is not there") as raised:
        jars.ensure(tmp_path)
    assert "KAFKA_BOOTSTRAP_SERVERS" in str(raised.value)


def test_a_failure_that_passes_is_tried_again(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def flaky(jar: Jar, into: Path) -> Path:
        calls.append(jar.artifact)
        if calls.count(jar.artifact) == 1:
            raise ConnectionResetError("reset")
        return repository(jar, into)

    monkeypatch.setattr(jars, "_from_repository", flaky)
    assert len(jars.ensure(tmp_path)) == len(LOCK)


def test_a_folder_that_cannot_be_written_is_an_error_of_ours(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerError, match="cannot be kept"):
        jars.ensure(tmp_path / "file" / "cache")


def test_another_list_has_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    one, other = jars.cache_dir(LOCK), jars.cache_dir(LOCK[:1])
    assert one != other
    assert one.is_relative_to("/c/crawlstream")
