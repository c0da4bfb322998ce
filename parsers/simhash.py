"""64-bit simhash of a text's word 3-grams: near-duplicates differ in few bits.

Each word has a 64-bit hash. A gram's hash is that of its first word, xor those of the second and
third rotated by 21 and 42 bits, so that order counts. A bit of the simhash is set when it is set
in more than half of the grams.

All grams of a text are worked on at once, in integers of 64 bits times their number: no step but
the look-up of each word's hash is done word by word.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

MAX_WORDS: Final = 20_000
"""Words taken from the start of a text."""
CACHE_WORDS: Final = 50_000
"""Words whose hashes are remembered in a process, about 150 bytes each."""
_CACHE_CHARS: Final = 64


class _Words(dict[str, bytes]):
    """Hashes of words; a look-up that fails computes one."""

    def __missing__(self, word: str) -> bytes:
        made = blake2b(word.encode(), digest_size=8).digest()
        if len(word) <= _CACHE_CHARS:
            self[word] = made
        return made


def _low(bits: int) -> int:
    """The lowest bits of each of `MAX_WORDS` lanes of 64."""
    return int.from_bytes(((1 << bits) - 1).to_bytes(8, "little") * MAX_WORDS, "little")


_words: Final = _Words()
_LOW_21, _LOW_22, _LOW_42, _LOW_43 = _low(21), _low(22), _low(42), _low(43)
_EACH_BYTE: Final = int.from_bytes(b"\x01" * MAX_WORDS, "little")


def simhash(text: str) -> int:
    """The simhash as a signed 64-bit integer; 0 for fewer than three words."""
    words = text.lower().split(maxsplit=MAX_WORDS)[:MAX_WORDS]
    grams = len(words) - 2
    if grams < 1:
        return 0
    if len(_words) > CACHE_WORDS:
        _words.clear()
    first = int.from_bytes(b"".join([_words[word] for word in words]), "little")
    second = ((first & _LOW_43) << 21) | ((first >> 43) & _LOW_21)
    third = ((first & _LOW_22) << 42) | ((first >> 22) & _LOW_42)
    mixed = (first ^ (second >> 64) ^ (third >> 128)).to_bytes(8 * len(words), "little")
    half = grams // 2
    value = 0
    for column in range(8):
        byte = int.from_bytes(mixed[column : 8 * grams : 8], "little")
        for bit in range(8):
            if ((byte >> bit) & _EACH_BYTE).bit_count() > half:
                value |= 1 << (8 * column + bit)
    return value - (1 << 64) if value >> 63 else value


def distance(left: int, right: int) -> int:
    """Bits in which two simhashes differ."""
    return ((left ^ right) & 0xFFFFFFFFFFFFFFFF).bit_count()
