"""An answer while it arrives: what is read of it, how far, and what it amounts to."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import httpx

from fetchers.http.decode import Decoder, decoder_for
from fetchers.http.faults import DeadlinePassed, Incomplete, InflationBomb, detail_of, reason_of
from fetchers.policy.head import Head, Headers, tokens
from schemas.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from fetchers.http.wire import Wire

DRAIN_BYTES: Final = 64 * 1024
"""An unwanted body up to this size is read to keep its connection; longer ones are cut off."""
_DRAIN_S = 1.0
RATIO_FREE_BYTES: Final = 1024 * 1024
"""Inflated size below which no ratio makes a bomb."""
STREAM_BYTES: Final = 64 * 1024
"""`Limits.stream_bytes` of a page."""


class Sink(Protocol):
    """Takes a decoded body as it arrives."""

    @property
    def size(self) -> int:
        """Bytes so far."""
        ...

    async def write(self, piece: bytes) -> None:
        """Take the next piece."""
        ...


class Limits(NamedTuple):
    """Limits of one exchange; see the settings of the same names.

    `stream_bytes`: a body of no announced length that has this much when the deadline passes is
    kept, cut: it is an endless stream, not a slow page.
    """

    deadline_s: float
    connect_s: float
    first_byte_s: float
    idle_s: float
    max_header_bytes: int
    max_wire_bytes: int
    max_body_bytes: int
    max_ratio: float
    stream_bytes: int = STREAM_BYTES


class Answer:
    """What one request got.

    `reason` None: `status`, `headers` and, if it was wanted, the whole body in the sink. Else why
    not, with whatever came before. `truncated`: the body was cut at a cap. `partial`: the body
    ended early, and what is in the sink is its beginning.
    """

    __slots__ = (
        "address", "began_at", "body_read", "detail", "ended_at", "headers", "partial", "reason",
        "reused", "sent_at", "status", "truncated", "version", "wire_bytes",
    )  # fmt: skip

    def __init__(self, began_at: float) -> None:
        self.status = 0
        self.version = ""
        self.headers: Headers = ()
        self.address = ""
        self.began_at = began_at
        """Instants are monotonic seconds. `sent_at` is when the request was out; `began_at` while
        it is not."""
        self.sent_at = began_at
        self.ended_at = began_at
        self.wire_bytes = 0
        self.body_read = False
        self.truncated = False
        self.partial = False
        self.reused = False
        self.reason: Reason | None = None
        self.detail = ""


async def take(
    wire: Wire,
    head: Head,
    sink: Sink,
    limits: Limits,
    judge: Callable[[Head], Reason | bool] | None,
    answer: Answer,
) -> None:
    """Note a head, and read or leave its body as `judge` says."""
    answer.status = head.status
    answer.version = head.version
    answer.headers = head.headers
    verdict: Reason | bool = True if judge is None else judge(head)
    if verdict is True:
        try:
            await _read_body(wire, head, sink, limits, answer)
        finally:
            wire.finish()
        answer.body_read = True
        return
    try:
        await _drain(wire, head)
    finally:
        wire.finish()
    if isinstance(verdict, Reason):
        answer.reason = verdict


async def _read_body(wire: Wire, head: Head, sink: Sink, limits: Limits, answer: Answer) -> None:
    decoder = None
    if head.framing != "none":
        decoder = decoder_for(tokens(head.headers, "content-encoding"))
    while piece := await wire.read():
        room = limits.max_wire_bytes - answer.wire_bytes
        answer.wire_bytes += len(piece)
        if len(piece) > room:
            piece = piece[:room]
            answer.truncated = True
        if not await _write_decoded(decoder, piece, sink, limits, answer) or answer.truncated:
            answer.truncated = True
            return
    if decoder is not None and not decoder.complete:
        raise Incomplete("the content coding did not reach its end")


async def _write_decoded(
    decoder: Decoder | None, piece: bytes, sink: Sink, limits: Limits, answer: Answer
) -> bool:
    """Decode and store a piece; False when the cap of decoded bytes cut it."""
    for plain in (piece,) if decoder is None else decoder.feed(piece):
        room = limits.max_body_bytes - sink.size
        if len(plain) > room:
            await sink.write(plain[:room])
            _check_ratio(sink.size + 1, limits, answer)
            return False
        await sink.write(plain)
        if decoder is not None:
            _check_ratio(sink.size, limits, answer)
    return True


def _check_ratio(size: int, limits: Limits, answer: Answer) -> None:
    if size > RATIO_FREE_BYTES and size > answer.wire_bytes * limits.max_ratio:
        raise InflationBomb(f"{answer.wire_bytes} bytes inflate to more than {size}")


async def _drain(wire: Wire, head: Head) -> None:
    """Read a short unwanted body, so that its connection can be used again."""
    if not head.reusable or (head.framing == "length" and head.length > DRAIN_BYTES):
        return
    left = DRAIN_BYTES
    with contextlib.suppress(TimeoutError, httpx.TransportError):
        if wire.at_end():
            return
        async with asyncio.timeout(_DRAIN_S):
            while left > 0 and (piece := await wire.read()):
                left -= len(piece)


def on_deadline(answer: Answer, sink: Sink, limits: Limits) -> None:
    """The deadline passed: a failure, or an endless stream of which enough was read."""
    endless = all(name != "content-length" for name, _ in answer.headers)
    if answer.status and endless and sink.size >= limits.stream_bytes:
        answer.truncated = True
        answer.body_read = True
        return
    fault = DeadlinePassed(f"not done in {limits.deadline_s:g} s")
    answer.reason = reason_of(fault)
    answer.detail = detail_of(fault)
    answer.partial = sink.size > 0
