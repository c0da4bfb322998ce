"""Ports, and whether a broker serves requests, without a Kafka client."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Final

from streams.broker.config import HOST

_TIMEOUT_S: Final = 1.0
_CLIENT: Final = b"crawlstream"
# Metadata, version 1, for no topic: the smallest request whose answer lists the brokers.
_REQUEST: Final = struct.pack(">hhih", 3, 1, 1, len(_CLIENT)) + _CLIENT + struct.pack(">i", 0)


def answers(bootstrap: str) -> bool:
    """Whether the broker serves requests.

    Its port opens before it is part of its own cluster, and topics created in between fail; so
    the answer must list at least one live broker.
    """
    host, _, port = bootstrap.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            size, correlation, brokers = struct.unpack(">iii", _exactly(connection, 12))
    except (OSError, ValueError):
        return False
    return bool(size >= 8 and correlation == 1 and brokers > 0)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the connection was closed")
        data += part
    return data


def is_free(port: int) -> bool:
    """Whether a port of loopback can be listened on."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except (OSError, OverflowError):
            return False
    return True


def free_port(preferred: int | str | None, other_than: int | None = None) -> int:
    """The preferred port if it is free, else any free one."""
    if isinstance(preferred, int) and preferred != other_than and is_free(preferred):
        return preferred
    while True:
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as tried:
            tried.bind((HOST, 0))
            port = int(tried.getsockname()[1])
        if port != other_than:
            return port
