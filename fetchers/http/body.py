"""Where a decoded body goes while it arrives: memory first, then a compressed file.

Up to `MEMORY_BYTES` a body is kept as it is and compressed at its end; a longer one is compressed
into a temporary file piece by piece, so memory stays flat at any size. Its hash is of the decoded
bytes either way.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

import structlog
import zstandard

from schemas.errors import TransientInfraError
from streams.kafka.blobs import BlobStore, Coding, blob_key

log = structlog.get_logger(__name__)

BLOB_RETRY_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses between tries to store a blob; the last one repeats."""
MEMORY_BYTES: Final = 2 * 1024 * 1024
LEVEL: Final = 1
_WRITE_BYTES = 1024 * 1024
_compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False, write_content_size=True)


class StoredBody(NamedTuple):
    """A finished body: the bytes for the message or the store, or the file that has them."""

    sha256: bytes
    size: int
    coding: Coding
    data: bytes
    path: Path | None


async def place(body: StoredBody, blobs: BlobStore, limit_bytes: int) -> tuple[bytes, str]:
    """The bytes of a body for its message, or the key of the blob that has them now.

    A store that does not answer is asked until it does: the request stays in flight meanwhile,
    so that a store that is down stops the fetching and loses nothing.

    Args:
        body: as finished.
        blobs: takes what is beyond the limit.
        limit_bytes: longest that a body may be within its message.
    """
    if body.path is None:
        if len(body.data) <= limit_bytes:
            return body.data, ""
    elif body.path.stat().st_size <= limit_bytes:
        return body.path.read_bytes(), ""
    key = blob_key(body.sha256, body.coding)
    for pause_s in chain(BLOB_RETRY_S, repeat(BLOB_RETRY_S[-1])):
        try:
            await blobs.put(key, body.data if body.path is None else body.path)
            break
        except TransientInfraError as error:
            log.error("blob not stored", key=key, error=str(error), next_try_s=pause_s)
            await asyncio.sleep(pause_s)
    return b"", key


EMPTY: Final = StoredBody(b"", 0, "identity", b"", None)


class BodySink:
    """Takes one body. Use as a context manager: leaving it removes the temporary file."""

    def __init__(self, folder: Path | None = None) -> None:
        self.size = 0
        """Decoded bytes so far."""
        self._folder = folder
        self._pieces: list[bytes] = []
        self._hash = hashlib.sha256()
        self._file: IO[bytes] | None = None
        self._path: Path | None = None
        self._compress: zstandard.ZstdCompressionObj | None = None
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()

    async def write(self, piece: bytes) -> None:
        """Take the next piece."""
        self.size += len(piece)
        if self._file is None:
            self._pieces.append(piece)
            if self.size > MEMORY_BYTES:
                await self._spill()
            return
        self._hash.update(piece)
        await self._write_coded(piece)

    def head(self, limit_bytes: int) -> bytes:
        """The first bytes, of a body that is still in memory."""
        return b"".join(self._pieces)[:limit_bytes]

    async def finish(self) -> StoredBody:
        """The body as it is to be stored; call it once, after the last piece."""
        if not self.size:
            return EMPTY
        if self._file is None:
            plain = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._hash.update(plain)
            coded = _compressor.compress(plain)
            digest = self._hash.digest()
            if len(coded) >= len(plain):
                return StoredBody(digest, len(plain), "identity", plain, None)
            return StoredBody(digest, len(plain), "zstd", coded, None)
        assert self._compress is not None
        await self._append(self._compress.flush())
        await self._flush()
        self._file.close()
        return StoredBody(self._hash.digest(), self.size, "zstd", b"", self._path)

    async def _spill(self) -> None:
        folder = self._folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed in __exit__
            prefix="body-", suffix=".zst", dir=folder, delete=False
        )
        self._path = Path(self._file.name)
        self._compress = zstandard.ZstdCompressor(level=LEVEL).compressobj()
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            self._hash.update(piece)
            await self._write_coded(piece)

    async def _write_coded(self, piece: bytes) -> None:
        assert self._compress is not None
        await self._append(self._compress.compress(piece))

    async def _append(self, coded: bytes) -> None:
        if coded:
            self._pending.append(coded)
            self._pending_bytes += len(coded)
            if self._pending_bytes >= _WRITE_BYTES:
                await self._flush()

    async def _flush(self) -> None:
        assert self._file is not None
        data = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        await asyncio.to_thread(self._write_out, data)

    def _write_out(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._file.flush()
