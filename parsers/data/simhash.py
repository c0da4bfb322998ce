"""64-bit simhash of a text's word 3-grams: near-duplicates differ in few bits.

A word's hash is the CRC-32 of its UTF-8 form times an odd constant, 64 bits. A gram's hash is that
of its first word, xor those of the second and third rotated by 21 and 42 bits, so that order
counts. A bit of the simhash is set when it is set in more than half of the grams.

All grams of a text are worked on at once, in integers of 64 bits times their number: no step but
the CRC is done word by word. Nothing is remembered between texts: a table of words costs more, in
misses of the processor's cache, than their hashes.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple
from zlib import crc32

MAX_WORDS: Final = 20_000
"""Words taken from the start of a text."""
_USUAL_WORDS: Final = 1_024
_WORD: Final = "L" if array("L").itemsize == 8 else "Q"
"""Both hold 64 bits; an array takes numbers into the first in half the time."""
_MIX: Final = 0x9E3779B1


class _Lanes(NamedTuple):
    """Masks for so many lanes of 64 bits; for texts of fewer words the longer ones cost time."""

    low_21: int
    low_22: int
    low_42: int
    low_43: int
    bits: tuple[int, ...]
    """For each bit of a byte, that bit of as many bytes as there are lanes."""


def _lanes(number: int) -> _Lanes:
    def low(bits: int) -> int:
        return int.from_bytes(((1 << bits) - 1).to_bytes(8, "little") * number, "little")

    ones = int.from_bytes(b"\x01" * number, "little")
    return _Lanes(low(21), low(22), low(42), low(43), tuple(ones << bit for bit in range(8)))


_USUAL, _LONG = _lanes(_USUAL_WORDS), _lanes(MAX_WORDS)


def simhash(text: str) -> int:
    """The simhash as a signed 64-bit integer; 0 for fewer than three words."""
    words = text.lower().encode("utf-8", "replace").split(None, MAX_WORDS)[:MAX_WORDS]
    grams = len(words) - 2
    if grams < 1:
        return 0
    lanes = _USUAL if len(words) <= _USUAL_WORDS else _LONG
    first = int.from_bytes(array(_WORD, map(crc32, words)).tobytes(), "little") * _MIX
    second = ((first & lanes.low_43) << 21) | ((first >> 43) & lanes.low_21)
    third = ((first & lanes.low_22) << 42) | ((first >> 22) & lanes.low_42)
    mixed = (first ^ (second >> 64) ^ (third >> 128)).to_bytes(8 * len(words), "little")
    half = grams // 2
    value, place = 0, 1
    for column in range(8):
        byte = int.from_bytes(mixed[column : 8 * grams : 8], "little")
        for bit in lanes.bits:
            if (byte & bit).bit_count() > half:
                value |= place
            place <<= 1
    return value - (1 << 64) if value >> 63 else value


def distance(left: int, right: int) -> int:
    """Bits in which two simhashes differ."""
    return ((left ^ right) & 0xFFFFFFFFFFFFFFFF).bit_count()
