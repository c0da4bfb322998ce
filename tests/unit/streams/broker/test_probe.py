"""Ports, and the question whether a broker serves."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streams.broker import probe


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """Accepts one connection, reads the request, sends `answer`, closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join(5)


def metadata(brokers: int, correlation: int = 1) -> bytes:
    body = struct.pack(">ii", correlation, brokers) + b"\0" * 30
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("answer", "serves"),
    [
        (metadata(brokers=1), True),
        (metadata(brokers=0), False),
        (metadata(brokers=1, correlation=7), False),
        (b"", False),
        (b"\0\0", False),
        (struct.pack(">i", 3) + b"abc", False),
        (struct.pack(">iii", -1, 1, 1), False),
    ],
    ids=["one broker", "fenced", "another's answer", "closed", "cut", "short", "negative"],
)
def test_only_a_broker_in_its_own_cluster_serves(answer: bytes, serves: bool) -> None:
    with server(answer) as address:
        assert probe.answers(address) is serves


def test_nobody_listens() -> None:
    port = probe.free_port(None)
    assert not probe.answers(f"127.0.0.1:{port}")


def test_a_nonsense_address_does_not_answer() -> None:
    assert not probe.answers("nonsense")


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert not probe.is_free(port)
        assert probe.free_port(port) != port


def test_the_preferred_port_is_kept_when_free() -> None:
    port = probe.free_port(None)
    assert probe.free_port(port) == port
    assert probe.free_port(port, other_than=port) != port


@pytest.mark.parametrize("remembered", [None, "x", -1, 70_000])
def test_a_remembered_port_that_is_none_is_replaced(remembered: int | str | None) -> None:
    assert 0 < probe.free_port(remembered) < 65_536
