"""The blob store: bodies that are too large for a message, by the hash of their content.

A body is stored before the message that names it is produced, under a key made of its own SHA-256:
writing it twice changes nothing, and a reader can check what it got. Nothing here deletes; give
the store a lifetime longer than the retention of `fetch-results` and `dead-letters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import obstore
import zstandard
from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError
from obstore.store import LocalStore, from_url

from schemas.errors import ConfigError, CrawlError, TransientInfraError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from obstore.store import ObjectStore

    from streams.settings import Settings

CHUNK_BYTES: Final = 256 * 1024
_SUFFIX = {"zstd": "zst", "identity": "bin"}

Coding = Literal["zstd", "identity"]


class BlobMissingError(CrawlError):
    """No blob has this key: it expired, or reader and writer use different stores.

    Operator action: compare `CRAWL_BLOB_URL` of fetchers and parsers, and the lifetime of the
    store's objects with the retention of `fetch-results`.
    """


def blob_key(sha256: bytes, coding: Coding) -> str:
    """The key of a body.

    Args:
        sha256: of the decoded body.
        coding: of the stored bytes.
    """
    digits = sha256.hex()
    return f"{digits[:2]}/{digits}.{_SUFFIX[coding]}"


class BlobStore:
    """One store: a folder, or a bucket of S3, GCS or Azure."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def open(cls, settings: Settings) -> BlobStore:
        """The store that the settings name. Raises ConfigError when the URL names none."""
        if settings.blob_url is None:
            folder = (settings.data_dir / "blobs").absolute()
            return cls(LocalStore(folder, mkdir=True))
        try:
            if settings.blob_url.startswith("file://"):
                return cls(LocalStore.from_url(settings.blob_url, mkdir=True))
            return cls(from_url(settings.blob_url))
        except (BaseError, ValueError) as error:
            raise ConfigError(f"CRAWL_BLOB_URL: {error}") from error

    async def put(self, key: str, data: bytes | Path) -> None:
        """Store bytes, or the content of a file; returns once the store has them.

        A blob that exists is not written again. Raises TransientInfraError.
        """
        try:
            if not await self.exists(key):
                await obstore.put_async(self._store, key, data)
        except (BaseError, OSError) as error:
            raise TransientInfraError(f"blob {key}: {error}") from error

    async def exists(self, key: str) -> bool:
        """Whether the store is known to have a blob.

        S3 denies those who may not list a bucket the knowledge that something is not there.
        """
        try:
            await obstore.head_async(self._store, key)
        except (NotFoundError, FileNotFoundError, PermissionDeniedError):
            return False
        return True

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """The stored bytes in pieces. Raises BlobMissingError or TransientInfraError."""
        try:
            found = await obstore.get_async(self._store, key)
            async for piece in found.stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(piece)
        except (NotFoundError, FileNotFoundError) as error:
            raise BlobMissingError(f"no blob {key}") from error
        except (BaseError, OSError) as error:
            raise TransientInfraError(f"blob {key}: {error}") from error

    async def stream_body(self, key: str, coding: str) -> AsyncIterator[bytes]:
        """The decoded body in pieces of bounded size: memory stays flat whatever its length.

        Args:
            key: `FetchResult.body_ref`.
            coding: `FetchResult.body_coding`.
        """
        if coding != "zstd":
            async for piece in self.stream(key):
                yield piece
            return
        inflate = zstandard.ZstdDecompressor().decompressobj()
        async for piece in self.stream(key):
            for at in range(0, len(piece), 4_096):
                plain = inflate.decompress(piece[at : at + 4_096])
                if plain:
                    yield plain
