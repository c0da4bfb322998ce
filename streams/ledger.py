"""The offset ledger of one source partition. Pure.

A number line, with `c` completed, `o` in work and `.` gaps left by compaction or control records:

    offset   10 11 12 13 14 15 16 17
              c  c  o  .  c  c  o  -
                    ^                     committable = 12: the first message in work
                          ^^^^^           beyond the prefix: 14 and 15, carried in the metadata
                                   ^      next = 17: where the next delivery will be

When nothing is in work, `committable` is `next`, so a gap at the end does not hold it back.

The commit metadata is text of at most 4,096 bytes, the broker's limit:
`1|{mark}|{deaths}|{bitmap}`. `mark` is `r` while an owner works and `c` after it gave the
partition back in order. `deaths` counts owners that died without moving the prefix. `bitmap` has
one bit for each offset from the committed one on, 1 for completed; zlib, then base64.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections import deque
from typing import Final, NamedTuple

from schemas.errors import InvariantError

METADATA_LIMIT_BYTES: Final = 4_096
SPAN_LIMIT: Final = 20_000
"""Most offsets from the committable one to the last delivered: its bitmap surely fits."""

CAREFUL_AFTER_DEATHS: Final = 2
"""After so many deaths at one prefix, the message at its head is delivered alone."""
POISON_AFTER_DEATHS: Final = 3
"""After so many, the message at its head is parked without being delivered."""


class CommitMetadata(NamedTuple):
    """What an owner tells the next one beside the offset."""

    clean: bool = False
    deaths: int = 0
    completed: frozenset[int] = frozenset()
    """Offsets at or beyond the committed one that are completed."""


def encode_metadata(offset: int, metadata: CommitMetadata) -> str:
    """Commit metadata as text. Raises InvariantError when it would not fit the broker's limit."""
    bitmap = ""
    if metadata.completed:
        raw = bytearray((max(metadata.completed) - offset) // 8 + 1)
        for done in metadata.completed:
            raw[(done - offset) >> 3] |= 1 << ((done - offset) & 7)
        bitmap = base64.b64encode(zlib.compress(raw, 6)).decode()
    text = f"1|{'c' if metadata.clean else 'r'}|{metadata.deaths}|{bitmap}"
    if len(text) > METADATA_LIMIT_BYTES:
        raise InvariantError(f"commit metadata of {len(text)} bytes")
    return text


def decode_metadata(offset: int, text: str) -> CommitMetadata:
    """The inverse; foreign or broken metadata counts as none: work is then repeated, not lost."""
    parts = text.split("|")
    if len(parts) != 4 or parts[0] != "1" or not parts[2].isdecimal():
        return CommitMetadata(clean=True)
    completed: frozenset[int] = frozenset()
    if parts[3]:
        try:
            inflate = zlib.decompressobj()
            raw = inflate.decompress(base64.b64decode(parts[3], validate=True), SPAN_LIMIT)
        except (binascii.Error, zlib.error, ValueError):
            return CommitMetadata(clean=True)
        completed = frozenset(
            offset + at for at in range(len(raw) * 8) if raw[at >> 3] >> (at & 7) & 1
        )
    return CommitMetadata(parts[1] == "c", int(parts[2]), completed)


class OffsetLedger:
    """What was delivered and completed of one partition under one assignment epoch.

    Invariants:
        1. `committable` never decreases, and no message below it is in work.
        2. An offset is delivered at most once.
        3. Everything at or beyond `committable` that was completed, here or by the former owner,
           is in the metadata.
    """

    def __init__(self, start: int, metadata: CommitMetadata, *, backlog: bool) -> None:
        """Take over a partition.

        Args:
            start: committed offset, or the log start when none was committed.
            metadata: of that commit.
            backlog: whether messages lay at or beyond `start` at the take-over; an owner that
                died on an empty partition died of something else.
        """
        self.start = start
        self.deaths = metadata.deaths + 1 if backlog and not metadata.clean else 0
        self._skip = set(metadata.completed)
        self._order: deque[int] = deque()
        self._pending: set[int] = set()
        self._done: set[int] = set()
        self._next = start

    @property
    def next(self) -> int:
        """One beyond the last offset seen."""
        return self._next

    @property
    def pending(self) -> int:
        """Messages delivered and not completed."""
        return len(self._pending)

    @property
    def committable(self) -> int:
        """Offset to commit: all messages below it are completed."""
        order, pending = self._order, self._pending
        while order and order[0] not in pending:
            self._done.discard(order.popleft())
        return order[0] if order else self._next

    @property
    def full(self) -> bool:
        """True when the metadata might outgrow its limit: deliver no more for now."""
        return self._next - self.committable >= SPAN_LIMIT

    @property
    def careful(self) -> bool:
        """True when the message at the head must be delivered alone.

        It stays true until a commit beyond `start` was noted (`moved`), so that the death of
        whatever follows is not blamed on the head.
        """
        return self.deaths >= CAREFUL_AFTER_DEATHS

    @property
    def poisoned(self) -> bool:
        """True when the message at the head must be parked without being delivered."""
        return self.deaths >= POISON_AFTER_DEATHS

    def moved(self, committed: int) -> None:
        """Note a successful commit."""
        if committed > self.start:
            self.deaths = 0

    def deliver(self, offset: int) -> bool:
        """Note a message as it comes from the broker; False: the former owner completed it.

        Raises InvariantError when offsets do not grow: the client went back without a rebalance.
        """
        if offset < self._next:
            raise InvariantError(f"offset {offset} after {self._next}")
        self._next = offset + 1
        self._order.append(offset)
        if offset in self._skip:
            self._skip.discard(offset)
            self._done.add(offset)
            return False
        self._pending.add(offset)
        return True

    def complete(self, offset: int) -> None:
        """Mark a delivered message as completed. Raises InvariantError when it was not pending."""
        if offset not in self._pending:
            raise InvariantError(f"offset {offset} completed twice or never delivered")
        self._pending.discard(offset)
        self._done.add(offset)

    def metadata(self, *, clean: bool) -> CommitMetadata:
        """What to commit beside `committable`."""
        prefix = self.committable
        ahead = {done for done in self._done if done >= prefix} | self._skip
        deaths = self.deaths if prefix == self.start and not clean else 0
        return CommitMetadata(clean, deaths, frozenset(ahead))
