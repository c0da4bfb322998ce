"""Content codings, undone in bounded steps: no input makes a step larger than `STEP_BYTES`.

Each decoder takes what came from the wire and yields plain pieces; `complete` tells whether the
coding reached its end, which a truncated body does not.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, Protocol

import brotli
import zstandard

from fetchers.http.faults import BadContentCoding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STEP_BYTES: Final = 64 * 1024
ACCEPT_ENCODING: Final = "gzip, deflate, br, zstd"
MAX_STACKED: Final = 2
MAX_ZSTD_WINDOW: Final = 8 * 1024 * 1024
"""RFC 9659: what a client must support for the coding `zstd`, and all that it should."""
_ZSTD_SLICE = 64
"""Input per step of zstd, whose decoder has no output limit: a block of 4 bytes may stand for
128 KiB, so this is at most 2 MiB of output."""
_GZIP_MAGIC = b"\x1f\x8b"


class Decoder(Protocol):
    """One coding of one body."""

    @property
    def complete(self) -> bool:
        """Whether the coded stream reached its end (true of an empty one too)."""
        ...

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Plain pieces of some coded bytes. Raises BadContentCoding."""
        ...


class GzipDecoder:
    """`gzip` and `x-gzip`: any number of members; what follows the last is ignored.

    A body that is no gzip at all is passed through: servers label plain pages so.
    """

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._start = b""
        self._mode = "start"

    @property
    def complete(self) -> bool:
        """See Decoder."""
        return self._mode in ("plain", "junk", "between") or not (
            self._start or self._mode == "member"
        )

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See Decoder."""
        while data:
            if self._mode == "plain":
                yield data
                return
            if self._mode == "junk":
                return
            if self._mode in ("start", "between"):
                self._start += data
                if len(self._start) < len(_GZIP_MAGIC) and _GZIP_MAGIC.startswith(self._start):
                    return
                data, self._start = self._start, b""
                if data.startswith(_GZIP_MAGIC):
                    self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
                    self._mode = "member"
                else:
                    self._mode = "plain" if self._mode == "start" else "junk"
                    continue
            yield from _inflate(self._inflate, data)
            data = b""
            if self._inflate.eof:
                data = self._inflate.unused_data
                self._mode = "between"


class DeflateDecoder:
    """`deflate`: with the zlib wrapper, or raw as some servers send it."""

    def __init__(self) -> None:
        self._start = b""
        self._inflate: zlib._Decompress | None = None

    @property
    def complete(self) -> bool:
        """See Decoder."""
        return self._inflate.eof if self._inflate is not None else not self._start

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See Decoder."""
        if self._inflate is None:
            self._start += data
            if len(self._start) < 2:
                return
            data, self._start = self._start, b""
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        yield from _inflate(self._inflate, data)


class BrotliDecoder:
    """`br`."""

    def __init__(self) -> None:
        self._inflate = brotli.Decompressor()
        self._fed = False

    @property
    def complete(self) -> bool:
        """See Decoder."""
        return not self._fed or bool(self._inflate.is_finished())

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See Decoder."""
        if not data or (self._fed and self._inflate.is_finished()):
            return
        self._fed = True
        try:
            piece = self._inflate.process(data, output_buffer_limit=STEP_BYTES)
            while True:
                if piece:
                    yield piece
                if self._inflate.is_finished() or self._inflate.can_accept_more_data():
                    return
                piece = self._inflate.process(b"", output_buffer_limit=STEP_BYTES)
        except brotli.error as error:
            raise BadContentCoding(f"br: {error}") from error


class ZstdDecoder:
    """`zstd`: any number of frames."""

    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW)
        self._inflate = self._context.decompressobj()
        self._between = True

    @property
    def complete(self) -> bool:
        """See Decoder."""
        return self._between

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See Decoder."""
        at = 0
        while at < len(data):
            slice_ = data[at : at + _ZSTD_SLICE]
            at += len(slice_)
            try:
                piece = self._inflate.decompress(slice_)
            except zstandard.ZstdError as error:
                raise BadContentCoding(f"zstd: {error}") from error
            self._between = False
            if self._inflate.eof:
                at -= len(self._inflate.unused_data)
                self._inflate = self._context.decompressobj()
                self._between = True
            if piece:
                yield piece


class StackedDecoder:
    """Two codings, the one applied last undone first."""

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self._outer = outer
        self._inner = inner

    @property
    def complete(self) -> bool:
        """See Decoder."""
        return self._outer.complete and self._inner.complete

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See Decoder."""
        for piece in self._outer.feed(data):
            yield from self._inner.feed(piece)


_DECODERS: Final[dict[str, Callable[[], Decoder]]] = {
    "gzip": GzipDecoder,
    "x-gzip": GzipDecoder,
    "deflate": DeflateDecoder,
    "br": BrotliDecoder,
    "zstd": ZstdDecoder,
}


def decoder_for(codings: Sequence[str]) -> Decoder | None:
    """The decoder of a body; None when it is plain.

    Names that are no codings (servers put charsets there) are passed over. Raises
    BadContentCoding for more than `MAX_STACKED` codings.

    Args:
        codings: items of Content-Encoding in order of application, in lower case.
    """
    known = [_DECODERS[name] for name in codings if name in _DECODERS]
    if not known:
        return None
    if len(known) > MAX_STACKED:
        raise BadContentCoding(f"{len(known)} codings stacked")
    decoder: Decoder = known[-1]()
    if len(known) > 1:
        decoder = StackedDecoder(decoder, known[0]())
    return decoder


def _inflate(inflate: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    try:
        piece = inflate.decompress(data, STEP_BYTES)
        while piece:
            yield piece
            if inflate.eof:
                return
            piece = inflate.decompress(inflate.unconsumed_tail, STEP_BYTES)
    except zlib.error as error:
        raise BadContentCoding(f"deflate: {error}") from error
