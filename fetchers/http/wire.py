"""One HTTP/1 connection: writes a request, reads the head, hands out the body.

aiohttp's connector makes, pools and closes these (it opens sockets, races addresses and shakes
hands); the reading is ours, since aiohttp's own reader refuses answers that servers do send and
loses what policy needs: raw header bytes, what was left unread, and why it failed.

A connection is in one of three states: idle, waiting for a head, or within a body. Bytes that
arrive while idle, or behind the end of a body, mean that the two sides disagree: the connection is
not used again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Literal, cast

from fetchers.http.faults import (
    EmptyReply,
    FirstByteTimeout,
    HeadersTooLarge,
    IdleTimeout,
    Incomplete,
    NotHttp,
    StaleConnection,
    TlsFault,
    is_tls,
    of_head,
)
from fetchers.policy.head import (
    ChunkReader,
    Head,
    HeadFault,
    head_end,
    looks_like_http,
    parse_head,
)
from schemas.reasons import Reason

HIGH_BYTES: Final = 256 * 1024
"""Unread body bytes at which reading from the socket pauses; it resumes at a quarter."""
_MAX_INTERIM = 8


class Wire(asyncio.Protocol):
    """See the module.

    `transport`, `closed`, `should_close`, `is_connected`, `close`, `abort` and `force_close` are
    what the connector asks for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.transport: asyncio.Transport | None = None
        self.used = 0
        """Requests that this connection carried before the present one."""
        self._lost = False
        self._closed: asyncio.Future[None] | None = None
        self._should_close = False
        self._cut_off = False
        self._state: Literal["idle", "head", "body"] = "idle"
        self._head: Head | None = None
        self._buffer = bytearray()
        self._pieces: deque[bytes] = deque()
        self._unread = 0
        self._paused = False
        self._done = False
        self._fault: Exception | None = None
        self._chunks: ChunkReader | None = None
        self._left = 0
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._active = False
        self._interim = 0
        self._idle_s = 0.0
        self._max_header_bytes = 0
        self._body_expected = True

    # For the connector.

    @property
    def closed(self) -> asyncio.Future[None] | None:
        """Done when the connection is closed; None when it is already."""
        if self._closed is None and not self._lost:
            self._closed = self._loop.create_future()
        return self._closed

    @property
    def should_close(self) -> bool:
        """True unless the connection may carry another request."""
        return self._should_close or self._state != "idle" or self._lost

    def is_connected(self) -> bool:
        """Whether the other side has not closed it, as far as we know."""
        return self.transport is not None and not self.transport.is_closing()

    def force_close(self) -> None:
        """Do not use this again."""
        self._should_close = True

    def close(self) -> None:
        """Close; at once when something is unread, or when TLS would wait for the other side."""
        transport = self.transport
        if transport is not None:
            if self._cut_off or transport.get_extra_info("sslcontext") is not None:
                transport.abort()
            else:
                transport.close()
        self._cancel_timer()

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()
        self._cancel_timer()

    # For the fetch.

    def send(
        self,
        data: bytes,
        *,
        body_expected: bool,
        first_byte_s: float,
        idle_s: float,
        max_header_bytes: int,
    ) -> None:
        """Send a request. Raises StaleConnection."""
        if not self.is_connected() or self._state != "idle":
            raise StaleConnection("closed before the request")
        assert self.transport is not None
        self._state = "head"
        self._body_expected = body_expected
        self._max_header_bytes = max_header_bytes
        self._idle_s = idle_s
        self._timer = self._loop.call_later(first_byte_s, self._on_first_byte_timeout, first_byte_s)
        self.transport.write(data)

    async def head(self) -> Head:
        """Wait for the head of the answer; interim answers are passed over.

        Raises the faults of `fetchers.http.faults` that a head can have.
        """
        while self._head is None:
            self._raise_fault()
            await self._wait()
        return self._head

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end.

        Raises Incomplete, IdleTimeout or a protocol fault once the pieces before it were read.
        """
        while not self._pieces:
            if self._done:
                return b""
            self._raise_fault()
            await self._wait()
        piece = self._pieces.popleft()
        self._unread -= len(piece)
        if self._paused and self._unread < HIGH_BYTES // 4 and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()
        return piece

    def at_end(self) -> bool:
        """Whether the body was received and read whole."""
        return self._done and not self._pieces

    def finish(self) -> None:
        """The answer was read to its end: the connection is idle again, or to be closed."""
        assert self._head is not None
        self._cut_off = not self.at_end()
        if not self._head.reusable or self._cut_off:
            self._should_close = True
        self.used += 1
        self._begin_idle()

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._state == "idle" or self._done:
            self._should_close = True
            if self.transport is not None:
                self.transport.close()
            return
        if self._state == "head":
            self._on_head_bytes(data)
        else:
            self._on_body_bytes(data)
            self._wake()

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._lost = True
        self._should_close = True
        self.transport = None
        self._cancel_timer()
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        if self._state == "head":
            self._lost_in_head(exc)
        elif self._state == "body" and not self._done:
            if self._head is not None and self._head.framing == "close" and exc is None:
                self._done = True
            else:
                self._fail(Incomplete(f"connection lost within the body: {exc or 'closed'}"))
        self._wake()

    # Within.

    def _begin_idle(self) -> None:
        self._cancel_timer()
        self._state = "idle"
        self._head = None
        self._buffer.clear()
        self._pieces.clear()
        self._unread = 0
        self._done = False
        self._fault = None
        self._chunks = None
        self._interim = 0
        self._active = False
        if self._paused:
            self._should_close = True

    def _on_head_bytes(self, data: bytes) -> None:
        buffer = self._buffer
        scanned = max(0, len(buffer) - 3)
        buffer += data
        if not looks_like_http(buffer):
            self._fail(NotHttp(f"starts with {bytes(buffer[:40])!r}"))
            return
        end = head_end(buffer, scanned)
        if end < 0 or end > self._max_header_bytes:
            if len(buffer) > self._max_header_bytes:
                self._fail(HeadersTooLarge(f"more than {self._max_header_bytes} bytes"))
            return
        head = parse_head(bytes(buffer[:end]), body_expected=self._body_expected)
        rest = bytes(buffer[end:])
        buffer.clear()
        if isinstance(head, HeadFault):
            self._fail(of_head(head.reason, head.detail))
        elif head.status < 200:
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                self._fail(of_head(Reason.PROTOCOL, "endless interim answers"))
            elif rest:
                self._on_head_bytes(rest)
        else:
            self._begin_body(head, rest)

    def _begin_body(self, head: Head, rest: bytes) -> None:
        self._cancel_timer()
        self._head = head
        self._state = "body"
        self._left = head.length
        if head.framing == "none" or (head.framing == "length" and not head.length):
            self._done = True
            self._surplus(rest)
        elif head.framing == "chunked":
            self._chunks = ChunkReader()
        if rest and not self._done:
            self._on_body_bytes(rest)
        if not self._done:
            self._timer = self._loop.call_later(self._idle_s, self._on_idle_check)
        self._wake()

    def _on_body_bytes(self, data: bytes) -> None:
        assert self._head is not None
        self._active = True
        if self._chunks is not None:
            fed = self._chunks.feed(data)
            if isinstance(fed, HeadFault):
                self._fail(of_head(fed.reason, fed.detail))
                return
            pieces, rest = fed
            for piece in pieces:
                self._keep(piece)
            if self._chunks.done:
                self._done = True
                self._surplus(rest)
        elif self._head.framing == "length":
            if len(data) > self._left:
                self._surplus(data[self._left :])
                data = data[: self._left]
            self._left -= len(data)
            self._keep(data)
            self._done = not self._left
        else:
            self._keep(data)
        if self._done:
            self._cancel_timer()

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._unread += len(piece)
        if self._unread > HIGH_BYTES and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()

    def _surplus(self, rest: bytes) -> None:
        if rest:
            self._should_close = True

    def _lost_in_head(self, exc: Exception | None) -> None:
        if self._buffer or self._interim:
            self._fail(Incomplete(f"connection lost within the headers: {exc or 'closed'}"))
        elif exc is not None and is_tls(exc):
            self._fail(TlsFault(str(exc)))
        else:
            kind = StaleConnection if self.used else EmptyReply
            self._fail(kind(f"connection lost before an answer: {exc or 'closed'}"))

    def _on_first_byte_timeout(self, limit_s: float) -> None:
        self._timer = None
        self._fail(FirstByteTimeout(f"no headers in {limit_s:g} s"))

    def _on_idle_check(self) -> None:
        """Runs once per idle limit, so that each piece of a body costs no timer of its own.

        A silence is noticed after between one and two limits.
        """
        self._timer = None
        if self._done or self._fault is not None:
            return
        if self._active or self._paused:
            self._active = False
            self._timer = self._loop.call_later(self._idle_s, self._on_idle_check)
        else:
            self._fail(IdleTimeout(f"silent for {self._idle_s:g} s within the body"))

    def _fail(self, fault: Exception) -> None:
        if self._fault is None:
            self._fault = fault
        self._should_close = True
        self._cut_off = True
        self._cancel_timer()
        self._wake()

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
