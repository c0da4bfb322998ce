"""One exchange of the transport with a server whose bytes a test decides."""

from __future__ import annotations

import asyncio
from typing import Any

from fetchers.http.answer import Answer, Limits
from fetchers.http.body import BodySink
from fetchers.http.transport import Transport
from tests.unit.fetchers.fakes import Request

PLAIN = b"<p>hello</p>"
LIMITS = Limits(
    deadline_s=60.0,
    connect_s=30.0,
    first_byte_s=30.0,
    idle_s=30.0,
    max_header_bytes=64 * 1024,
    max_wire_bytes=16 * 1024 * 1024,
    max_body_bytes=10_000_000,
    max_ratio=500.0,
)


class Got:
    """An answer and its body."""

    def __init__(self, answer: Answer, body: bytes, size: int) -> None:
        self.answer = answer
        self.body = body
        self.size = size
        self.reason = answer.reason


async def fetch(transport: Transport, url: str, fields: bytes = b"", **limits: Any) -> Got:
    with BodySink() as sink:
        answer = await transport.fetch(url, fields, sink, limits=LIMITS._replace(**limits))
        return Got(answer, sink.head(10**9), sink.size)


def raw(data: bytes) -> Any:
    """A handler that answers with these bytes and closes."""

    async def handler(
        request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return handler
