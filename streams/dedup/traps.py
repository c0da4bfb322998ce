"""Endless spaces: links of pages that only repeat what their host has told. Pure.

A batch carries the sketch of the page that it comes from, where links of it grow from the page
(`schemas.shapes`). The page **repeats** when the host told the same before at a lesser depth
(then links that deepen it are in doubt), or under another URL of the same pattern (then links
that vary it are). Nothing is in doubt on a page that tells something new, nor where a link does not
grow: so of each content the links are followed at least once, and what only its repeats name is
what an endless space consists of.

Links in doubt are admitted on account. A page that tells something new takes back the one it was
admitted on, and clears the account when it also leads out of the space, by a new link that does not
grow likewise: so a calendar may have empty months. When `CrawlSpec.trap_budget` of them are on the
account, the rest is refused as `trap`. Deepening and varying have an account each.

Rows in the table `seen`, all bounded by a host:

* `p` and a hash (17 bytes) -> the last `MEMORY` contents of one of `BUCKETS` parts of the host's
  pages, by the last part of their paths. A page repeats its like, so it is looked for there.
* `t` and a hash (17 bytes) -> the count of one account (4 bytes).

The row of a URL that was admitted on account has one more byte, that of the account. A replay
finds the URLs that it admitted in the table, and its own page in the memory: it counts nothing
twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

from schemas.shapes import Shape, deepens, shape, varies

Lookup = Callable[[list[bytes]], Sequence[bytes | None]]

BUCKETS: Final = 64
MEMORY: Final = 16
NEAR: Final = 25
"""Of the 32 parts of a sketch that must be equal: about three words may be other ones."""
WORD_BYTES: Final = 16
"""Of a sketch, for its words; the rest is for images."""
POSITION_BYTES: Final = 12
"""Of the row of a URL, before the account that it was admitted on."""
DEEPER: Final = b"d"
VARIANT: Final = b"v"

_GROWS: Final[dict[bytes, Callable[[Shape, str], bool]]] = {DEEPER: deepens, VARIANT: varies}
_ENTRY: Final = struct.Struct(">20s4sBH")
_COUNT: Final = struct.Struct(">I")


class Told(NamedTuple):
    """One content that a host told, and where it did first."""

    sketch: bytes
    page: bytes
    """The first bytes of the page's URL id."""
    slashes: int
    pattern: int
    """A hash of it."""


class Source(NamedTuple):
    """The page that links come from."""

    crawl: str
    host: str
    url: str
    url_id: bytes
    sketch: bytes


@dataclass(slots=True)
class Doubt:
    """How the links of one page are judged."""

    page: Shape
    budget: int
    kinds: bytes
    """The accounts that the page's growing links go to; empty: the page tells something new."""
    keys: dict[bytes, bytes]
    """Of the accounts, by kind."""
    counts: dict[bytes, int]
    owes: bytes = b""
    """The account that the page was admitted on, if it tells something new."""
    rows: dict[bytes, bytes] = field(default_factory=dict)
    """What to write."""

    def account(self, href: str) -> bytes | None:
        """The account that a new URL of the host would go to, empty for none; None: refuse it."""
        if self.owes and not _GROWS[self.owes](self.page, href):
            self._set(self.owes, 0)
            self.owes = b""
        for kind, grows in _GROWS.items():
            if kind in self.kinds and grows(self.page, href):
                return kind if self.counts[kind] < self.budget else None
        return b""

    def charge(self, kind: bytes) -> None:
        """A URL was admitted on this account."""
        self._set(kind, self.counts[kind] + 1)

    def settle(self, kind: bytes) -> None:
        """The page tells something new, and was admitted on this account."""
        if self.counts.get(kind):
            self.owes = kind
            self._set(kind, self.counts[kind] - 1)

    def _set(self, kind: bytes, count: int) -> None:
        self.counts[kind] = count
        self.rows[self.keys[kind]] = _COUNT.pack(count)


def doubt(source: Source, budget: int, seen: Lookup) -> Doubt:
    """What to think of the links of a page, and the rows that remember it."""
    page = shape(source.url)
    memory_key = _key(b"p", source, str(_bucket(page.pattern)))
    keys = {kind: _key(b"t", source, kind.decode()) for kind in (DEEPER, VARIANT)}
    memory_row, *spent = seen([memory_key, *keys.values()])
    counts = {
        kind: _COUNT.unpack(value)[0] if value else 0
        for kind, value in zip(keys, spent, strict=True)
    }
    memory = _unpacked(memory_row)
    here = Told(
        source.sketch, source.url_id[:4], min(page.slashes, 255), crc32(page.pattern.encode()) >> 16
    )
    kinds, last = _compare(here, memory)
    found = Doubt(page, budget, kinds, keys, counts)
    if last < 0:
        memory.insert(0, here)
        found.rows[memory_key] = _packed(memory[:MEMORY])
        if any(counts.values()):
            row = seen([source.url_id])[0]
            found.settle(b"" if row is None else row[POSITION_BYTES:])
    elif kinds and last >= MEMORY // 2:
        memory.insert(0, memory.pop(last))
        found.rows[memory_key] = _packed(memory)
    return found


def _compare(here: Told, memory: list[Told]) -> tuple[bytes, int]:
    """The accounts in question, and the place of what is repeated; -1: it is new.

    A page that is itself in the memory has no accounts: its other batches, and a replay.
    """
    kinds, last = b"", -1
    for at, told in enumerate(memory):
        if not near(here.sketch, told.sketch):
            continue
        if told.page == here.page:
            return b"", at
        if told.slashes < here.slashes and DEEPER not in kinds:
            kinds, last = kinds + DEEPER, at
        if told.pattern == here.pattern and VARIANT not in kinds:
            kinds, last = kinds + VARIANT, at
    return kinds, last


def near(one: bytes, other: bytes) -> bool:
    """Whether two sketches are those of one content, but for a few words."""
    if one[WORD_BYTES:] != other[WORD_BYTES:]:
        return False
    apart = int.from_bytes(one[:WORD_BYTES], "big") ^ int.from_bytes(other[:WORD_BYTES], "big")
    return f"{apart:032x}".count("0") >= NEAR


def _bucket(pattern: str) -> int:
    """By the last part of the path: of what repeats, it recurs."""
    return crc32(pattern.rstrip("/").rpartition("/")[2].encode()) % BUCKETS


def _key(prefix: bytes, source: Source, name: str) -> bytes:
    text = f"{source.crawl}\n{source.host}\n{name}"
    return prefix + blake2b(text.encode(), digest_size=16).digest()


def _packed(memory: list[Told]) -> bytes:
    return b"".join([_ENTRY.pack(*told) for told in memory])


def _unpacked(row: bytes | None) -> list[Told]:
    return [Told(*fields) for fields in _ENTRY.iter_unpack(row)] if row else []
