"""Bodies in pieces: their first bytes, a bounded part of them, what a gzip file holds."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Final

from parsers.documents import kind
from parsers.text import charset, encodings

_PIECE: Final = 65_536


def markup(body: bytes, encoding: charset.Charset) -> tuple[bytes, str | None]:
    """A page as well-formed UTF-8, and its text where decoding was needed anyway."""
    if encoding.name == "utf-8":
        body = body[encoding.bom_bytes :]
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            text = encodings.decode("utf-8", body)
            return text.encode("utf-8"), text
        return body, None
    text = charset.decode(body, encoding)
    return text.encode("utf-8", "replace"), text


def peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes of a body and the whole of it."""
    taken: list[bytes] = []
    size = 0
    for chunk in chunks:
        taken.append(chunk)
        size += len(chunk)
        if size >= kind.HEAD_BYTES:
            break
    head = taken[0] if len(taken) == 1 else b"".join(taken)
    return head[: kind.HEAD_BYTES], chain(taken, chunks)


def join(chunks: Iterator[bytes], limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes of a body, and whether there were more."""
    taken: list[bytes] = []
    size = 0
    for chunk in chunks:
        taken.append(chunk)
        size += len(chunk)
        if size > limit:
            return b"".join(taken)[:limit], True
    return (taken[0] if len(taken) == 1 else b"".join(taken)), False


class Gunzip:
    """The content of a gzip file, all members, as far as it is sound; in bounded steps."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._steps = self._inflate()
        self.whole = False
        """True when everything was read and the last member was complete."""

    def __iter__(self) -> Iterator[bytes]:
        return self._steps

    def __next__(self) -> bytes:
        return next(self._steps)

    def _inflate(self) -> Iterator[bytes]:
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        begun = False
        for chunk in self._chunks:
            data = chunk
            while data:
                begun = True
                try:
                    piece = inflate.decompress(data, _PIECE)
                except zlib.error:
                    return
                if piece:
                    yield piece
                data = inflate.unconsumed_tail
                if inflate.eof:
                    data = inflate.unused_data
                    if not data.startswith(b"\x1f\x8b"):
                        data = b""  # padding after the last member
                    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
                    begun = False
        if begun:
            rest = inflate.flush()
            if rest:
                yield rest
        self.whole = not begun or inflate.eof
