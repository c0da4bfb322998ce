"""Bodies: in memory, in a file, inline or in the blob store; and memory that stays flat."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from obstore.exceptions import PermissionDeniedError

from fetchers.http import body as bodies
from fetchers.http.body import BodySink, place
from fetchers.http.transport import Transport
from schemas.errors import ConfigError, TransientInfraError
from streams.kafka.blobs import BlobMissingError, BlobStore, blob_key
from tests.unit.fetchers.fakes import Web, settings_for

if TYPE_CHECKING:
    from pathlib import Path


async def _stored(data: bytes, folder: Path, piece: int = 65_536) -> bodies.StoredBody:
    with BodySink(folder) as sink:
        for at in range(0, len(data), piece):
            await sink.write(data[at : at + piece])
        stored = await sink.finish()
        if stored.path is not None:
            coded = stored.path.read_bytes()
            return stored._replace(data=coded)
        return stored


@pytest.mark.parametrize("size", [1, 100, 200_000, 5_000_000])
async def test_what_goes_in_comes_out(tmp_path: Path, size: int) -> None:
    data = (b"some words that repeat, " * (size // 24 + 1))[:size]
    stored = await _stored(data, tmp_path)
    assert stored.sha256 == hashlib.sha256(data).digest()
    assert stored.size == size
    plain = stored.data
    if stored.coding == "zstd":
        plain = zstandard.ZstdDecompressor().decompressobj().decompress(stored.data)
    assert plain == data
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240 - a test may block


async def test_what_does_not_shrink_stays_as_it_is(tmp_path: Path) -> None:
    stored = await _stored(random.Random(1).randbytes(1_000), tmp_path)
    assert stored.coding == "identity"


async def test_no_body(tmp_path: Path) -> None:
    assert await _stored(b"", tmp_path) == bodies.EMPTY


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore.open(settings_for(tmp_path))


async def test_long_bodies_that_shrink_are_still_inline(tmp_path: Path, blobs: BlobStore) -> None:
    with BodySink(tmp_path / "spool") as sink:
        for _ in range(80):
            await sink.write(bytes(65_536))
        stored = await sink.finish()
        data, ref = await place(stored, blobs, 10_000)
    assert ref == ""
    assert zstandard.ZstdDecompressor().decompressobj().decompress(data) == bytes(80 * 65_536)


async def test_a_store_that_is_down_is_asked_again(
    blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BLOB_RETRY_S", (0.01,))
    tries = 0
    put = blobs.put

    async def flaky(key: str, data: bytes | Path) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise TransientInfraError("down")
        await put(key, data)

    monkeypatch.setattr(blobs, "put", flaky)
    stored = bodies.StoredBody(b"s" * 32, 5, "identity", b"hello", None)
    assert await place(stored, blobs, 1) == (b"", blob_key(b"s" * 32, "identity"))
    assert tries == 3


async def _read(blobs: BlobStore, key: str, coding: str) -> bytes:
    return b"".join([piece async for piece in blobs.stream_body(key, coding)])


async def test_blobs_by_content(blobs: BlobStore) -> None:
    key = blob_key(b"\xab" * 32, "zstd")
    assert key == f"ab/{'ab' * 32}.zst"
    coded = zstandard.compress(b"hello" * 1_000)
    await blobs.put(key, coded)
    await blobs.put(key, b"ignored, since it exists")
    assert await _read(blobs, key, "zstd") == b"hello" * 1_000
    assert await _read(blobs, key, "identity") == coded


async def test_a_missing_blob_says_so(blobs: BlobStore) -> None:
    with pytest.raises(BlobMissingError):
        await _read(blobs, "ab/none.zst", "zstd")
    assert not await blobs.exists("ab/none.zst")


async def test_a_store_that_may_be_written_and_not_listed(
    blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers 403, not 404, to those who may not list and ask for what is not there."""

    async def denied(_store: object, key: str) -> None:
        raise PermissionDeniedError(key)

    monkeypatch.setattr("streams.kafka.blobs.obstore.head_async", denied)
    await blobs.put("ab/x.bin", b"x")
    assert await _read(blobs, "ab/x.bin", "identity") == b"x"


def test_a_url_that_names_no_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="CRAWL_BLOB_URL"):
        BlobStore.open(settings_for(tmp_path, blob_url="nonsense://x"))


async def test_a_file_url(tmp_path: Path) -> None:
    store = BlobStore.open(settings_for(tmp_path, blob_url=f"file://{tmp_path}/there"))
    await store.put("ab/x.bin", b"x")
    assert (tmp_path / "there/ab/x.bin").read_bytes() == b"x"


async def test_clk_01_steps_of_the_wall_clock_do_not_move_deadlines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_request: object, _reader: object, _writer: Any) -> None:
        await asyncio.sleep(5)

    for step in (-3_600.0, 3_600.0):
        async with Web() as web:
            web.default = hang
            transport = Transport(settings_for(tmp_path, fetch_deadline_s=0.5))
            loop = asyncio.get_running_loop()
            began = loop.time()
            with BodySink() as sink:
                fetching = asyncio.ensure_future(transport.fetch(web.url(), b"", sink))
                await asyncio.sleep(0.05)
                with monkeypatch.context() as patch:
                    patch.setattr("time.time", lambda step=step: 1_700_000_000.0 + step)
                    answer = await fetching
            await transport.close()
        assert answer.reason == "deadline"
        assert 0.5 <= loop.time() - began < 4.5
