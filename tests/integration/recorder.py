"""A web server on all of loopback that knows when each request arrived.

The kernel stamps the packets as they come in, so that it does not matter when the server, a process
of its own, gets to run: a machine that is busy can make a request look later, never earlier.
"""

from __future__ import annotations

import heapq
import itertools
import multiprocessing
import selectors
import socket
import struct
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tests.unit.fetchers.fakes import html, response

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_LINUX = sys.platform == "linux"
_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("@ll")
_CLOSE_S = 0.0002
"""Two readings of a clock that are not further apart had nothing else run in between."""
_PAGE = html()
_NO_ROBOTS = response(404)


class Arrival(NamedTuple):
    """A request: when it came (monotonic seconds), to which address, for what, from whom."""

    at: float
    host: str
    path: str
    agent: str


class _Server:
    def __init__(self, pipe: Connection, answer_s: float, robots: bytes) -> None:
        self._pipe = pipe
        self._answer_s = answer_s
        self._robots = robots
        self._arrivals: list[Arrival] = []
        self._buffers: dict[socket.socket, bytes] = {}
        self._due: list[tuple[float, int, socket.socket, bytes]] = []
        self._turns = itertools.count()
        self._poll = selectors.DefaultSelector()
        self._listener = socket.create_server(("0.0.0.0", 0), backlog=512)
        if _LINUX:
            self._listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._poll.register(self._listener, selectors.EVENT_READ, self._accept)
        self._poll.register(pipe, selectors.EVENT_READ, self._tell)
        self._open = True

    def run(self) -> None:
        self._pipe.send(self._listener.getsockname()[1])
        while self._open:
            wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            for key, _ in self._poll.select(wait_s):
                key.data(key.fileobj)
            while self._due and self._due[0][0] <= time.monotonic():
                _, _, peer, answer = heapq.heappop(self._due)
                if peer in self._buffers:
                    self._write(peer, answer)

    def _accept(self, listener: Any) -> None:
        peer, _ = listener.accept()
        self._buffers[peer] = b""
        self._poll.register(peer, selectors.EVENT_READ, self._read)

    def _tell(self, pipe: Any) -> None:
        since = pipe.recv()
        self._open = since is not None
        if self._open:
            pipe.send(self._arrivals[since:])

    def _read(self, peer: Any) -> None:
        try:
            data, control, _, _ = peer.recvmsg(65_536, socket.CMSG_SPACE(_STAMP.size))
        except OSError:
            data, control = b"", []
        if not data:
            self._forget(peer)
            return
        self._buffers[peer] += data
        if not self._buffers[peer].endswith(b"\r\n\r\n"):
            return
        lines = self._buffers[peer].decode("latin-1").split("\r\n")
        self._buffers[peer] = b""
        path = lines[0].split(" ")[1]
        agent = next(line[12:] for line in lines if line.startswith("User-Agent: "))
        host = peer.getsockname()[0]
        self._arrivals.append(Arrival(_arrived_at(control), host, path, agent.partition(" ")[0]))
        due_at = time.monotonic() + self._answer_s
        answer = self._robots if path == "/robots.txt" else _PAGE
        heapq.heappush(self._due, (due_at, next(self._turns), peer, answer))

    def _write(self, peer: socket.socket, answer: bytes) -> None:
        try:
            peer.sendall(answer)
        except OSError:
            self._forget(peer)

    def _forget(self, peer: socket.socket) -> None:
        del self._buffers[peer]
        self._poll.unregister(peer)
        peer.close()


def _arrived_at(control: list[tuple[int, int, bytes]]) -> float:
    """The kernel's stamp on the monotonic clock; where there is none, the present."""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = _STAMP.unpack(data)
            return seconds + nanoseconds / 1e9 - _wall_ahead_s()
    return time.monotonic()


def _wall_ahead_s() -> float:
    """How far the wall clock is ahead of the monotonic one."""
    best_s, ahead_s = 1e9, 0.0
    for _ in range(20):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before < best_s:
            best_s, ahead_s = after - before, wall - before
        if best_s < _CLOSE_S:
            break
    return ahead_s


def _serve(pipe: Connection, answer_s: float, robots: bytes) -> None:
    _Server(pipe, answer_s, robots).run()


class Site:
    """The recording server; a context manager."""

    def __init__(self, answer_s: float = 0.0, robots: bytes = _NO_ROBOTS) -> None:
        self._options = answer_s, robots
        self._arrivals: list[Arrival] = []
        self.port = 0

    def __enter__(self) -> Self:
        self._pipe, there = multiprocessing.Pipe()
        spawn = multiprocessing.get_context("spawn")
        self._process = spawn.Process(target=_serve, args=(there, *self._options))
        self._process.start()
        self.port = self._pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join(5)
        self._process.kill()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def arrivals(self) -> list[Arrival]:
        """All requests so far, in the order they were read."""
        self._pipe.send(len(self._arrivals))
        self._arrivals += self._pipe.recv()
        return self._arrivals

    def by_host(self) -> dict[str, list[Arrival]]:
        """The requests to each address, in the order they came; robots.txt included."""
        found: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in sorted(self.arrivals()):
            found[arrival.host].append(arrival)
        return dict(found)

    def gaps(self) -> dict[str, float]:
        """The shortest time between two requests to each address."""
        return {
            host: min(after.at - before.at for before, after in itertools.pairwise(arrivals))
            for host, arrivals in self.by_host().items()
            if len(arrivals) > 1
        }
