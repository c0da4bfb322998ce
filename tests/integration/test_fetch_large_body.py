"""A body far larger than memory may be goes through it in pieces."""

from __future__ import annotations

import hashlib
import random
import tracemalloc
from typing import TYPE_CHECKING

from fetchers.http.body import BodySink, place
from fetchers.http.transport import Transport
from streams.kafka.blobs import BlobStore
from tests.unit.fetchers.fakes import Web, settings_for

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path


async def test_a_huge_body_streams_through_flat_memory(tmp_path: Path) -> None:
    blobs = BlobStore.open(settings_for(tmp_path))
    total = 256 * 1024 * 1024
    piece = random.Random(2).randbytes(1024 * 1024)

    async def huge(_request: object, _reader: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        for _ in range(total // len(piece)):
            writer.write(piece)
            await writer.drain()

    async with Web() as web:
        web.pages["/huge"] = huge
        transport = Transport(
            settings_for(tmp_path, max_body_bytes=2 * total, max_wire_bytes=2 * total)
        )
        tracemalloc.start()
        with BodySink(tmp_path / "spool") as sink:
            answer = await transport.fetch(web.url("/huge"), b"", sink)
            stored = await sink.finish()
            data, ref = await place(stored, blobs, 1_000)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await transport.close()
    assert (answer.reason, stored.size, data) == (None, total, b"")
    assert peak < 16 * 1024 * 1024
    digest = hashlib.sha256()
    size = 0
    async for part in blobs.stream_body(ref, stored.coding):
        digest.update(part)
        size += len(part)
    assert (size, digest.digest()) == (total, stored.sha256)
