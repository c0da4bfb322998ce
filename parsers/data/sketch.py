"""A sketch of a page's content: whether two pages tell the same, but for a few words.

A page of an endless space often prints its own path, a counter, the month or the time, and lists
the same things in another order. So the sketch is made of the set of its words: each of 32 groups
of words, by hash, gives four bits, and a word that comes or goes changes those of its group alone.
It counts changed words, however long the text, where a simhash tells their share: of 60 words a
printed path is a large one, and of 600 the name of a product is none.

Images count exactly: in a gallery they are all that differs.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from parsers.documents.page import Page

MAX_WORDS: Final = 5_000
"""Words taken from the start of a text."""
_GROUPS: Final = 32


def sketch(text: str, assets: list[str]) -> bytes | None:
    """Twenty bytes: 16 for the words, four for the images; None for a page without words.

    Args:
        text: visible text.
        assets: URLs of images and media, as written.
    """
    words = set(text.encode("utf-8", "replace").split(None, MAX_WORDS)[:MAX_WORDS])
    if not words:
        return None
    groups = [0] * _GROUPS
    for value in map(crc32, words):
        groups[value & 31] ^= value
    told = 0
    for value in groups:
        told = told << 4 | (value >> 5) & 15
    shown = crc32("\n".join(assets).encode("utf-8", "replace"))
    return told.to_bytes(16, "big") + shown.to_bytes(4, "big")


def sketch_of(page: Page) -> bytes | None:
    """The sketch of a page as scanned."""
    shown = [asset if isinstance(asset, str) else asset.value for asset in page.assets]
    return sketch(page.text, shown)
