"""What the broker's shell says before any Java runs."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams import broker
from streams.broker import (
    AlreadyRunningError,
    BrokerError,
    BrokerStatus,
    EmbeddedBroker,
    embedded,
    jars,
    java,
)
from streams.broker.places import Places

NOT_RUNNING = BrokerStatus(running=False, ready=False, pid=None, bootstrap=None)


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars and runtime are not these tests' matter."""
    monkeypatch.setattr(jars, "ensure", lambda: (Path("kafka.jar"),))
    found = java.Java(Path("/nowhere/java"), 25)
    monkeypatch.setattr(java, "find", lambda: found)


@contextmanager
def held(data_dir: Path, pid: int = 4_000_000) -> Iterator[None]:
    """The folder's lock and state as a live broker has them."""
    places = Places(data_dir)
    places.home.mkdir(parents=True)
    places.state.write_text(json.dumps({"pid": pid, "bootstrap": "127.0.0.1:1"}))
    fd = os.open(places.lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def test_an_unused_folder_has_no_broker(tmp_path: Path) -> None:
    assert broker.status(tmp_path) == NOT_RUNNING
    assert broker.stop(tmp_path) is False


def test_the_lock_says_whether_it_runs_not_the_state_file(tmp_path: Path) -> None:
    with held(tmp_path, pid=123):
        found = broker.status(tmp_path)
        assert (found.running, found.ready, found.pid) == (True, False, 123)
    assert broker.status(tmp_path) == NOT_RUNNING


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_torn_state_file_is_no_broker(tmp_path: Path, text: str) -> None:
    (tmp_path / "broker.json").write_text(text)
    assert broker.status(tmp_path) == NOT_RUNNING


def test_a_second_start_is_refused_with_the_address_of_the_first(tmp_path: Path) -> None:
    with held(tmp_path), pytest.raises(AlreadyRunningError, match=r"127\.0\.0\.1:1"):
        EmbeddedBroker(tmp_path).start()


def test_attaching_to_a_broker_that_never_answers_ends(tmp_path: Path) -> None:
    with held(tmp_path), pytest.raises(BrokerError, match="does not answer"):
        EmbeddedBroker(tmp_path).start(attach=True, timeout_s=0.1)


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerError, match="cannot be used as data folder"):
        EmbeddedBroker(tmp_path / "file").start()


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000})())
    with pytest.raises(BrokerError, match="is full: 1000 bytes are left"):
        EmbeddedBroker(tmp_path).start()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(BrokerError, match=f"port {port} .*is taken"):
            EmbeddedBroker(tmp_path, port=port).start()
    assert broker.status(tmp_path) == NOT_RUNNING


def test_topics_without_their_identity_are_not_formatted_over(tmp_path: Path) -> None:
    segment = Places(tmp_path).data / "urls-0" / "00000000000000000000.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"x")
    with pytest.raises(BrokerError, match="holds topics but not meta"):
        EmbeddedBroker(tmp_path).start()
    assert segment.read_bytes() == b"x"


def test_ports_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    first = embedded._ports(path, None)
    assert embedded._ports(path, None) == first
    assert first[0] != first[1]


def test_a_remembered_port_that_is_taken_meanwhile_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    port, _ = embedded._ports(path, None)
    with socket.create_server(("127.0.0.1", port)):
        assert embedded._ports(path, None)[0] != port
