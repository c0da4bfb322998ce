"""The offset ledger of one source partition. Pure.

A number line, with `c` completed, `o` in work and `.` gaps left by compaction or control records:

    offset   10 11 12 13 14 15 16 17
              c  c  o  .  c  c  o  -
                    ^                     committable = 12: the first message in work
                          ^^^^^           beyond the prefix: 14 and 15, carried in the metadata
                                   ^      next = 17: where the next delivery will be

When nothing is in work, `committable` is `next`, so a gap at the end does not hold it back.

The commit metadata is text of at most 4,096 bytes, the broker's limit:
`1|{mark}|{ahead}|{bitmap}|{suspects}`. `mark` is `r` while an owner works and `c` after it gave
the partition back in order. `ahead` is `next` minus the offset. `bitmap` has one bit for each
offset from the committed one on, 1 for completed; zlib, then base64. `suspects` are the messages
that may be killers of processes, as `{distance}.{deaths}`, with `!` behind those begun.

How a killer is found. An owner that died in work leaves the mark `r`. Its successor is on its
guard with every message that the dead owner can have held: each is begun only after the commit
metadata says so (`guarded`). If that owner dies too, the messages it had begun are suspects with
one death each. From the second death on, the suspects are begun one at a time; after the third,
a suspect is parked. A message that was never begun (a retry that is not due, say) is never
suspected, however often its owner dies, and what completes is no suspect any more.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections import deque
from typing import Final, NamedTuple

from schemas.errors import InvariantError

METADATA_LIMIT_BYTES: Final = 4_096
SPAN_LIMIT: Final = 18_000
"""No more is delivered so far beyond the committable offset: with one poll more, the bitmap surely
fits."""
UNREPORTED_LIMIT: Final = 500
"""No more is delivered while so many offsets were delivered since the last commit."""
POLL_RECORDS: Final = 500
"""Most messages of one poll."""
_UNREPORTED_MOST: Final = UNREPORTED_LIMIT + POLL_RECORDS

ALONE_AFTER_DEATHS: Final = 2
"""A suspect of so many deaths is begun only when no other such suspect is in work."""
POISON_AFTER_DEATHS: Final = 3
"""A suspect of so many deaths is parked."""
_SUSPECTS_LIMIT: Final = 80
"""Most suspects in the metadata, so that it fits beside the largest bitmap."""


class Suspect(NamedTuple):
    """A message that may kill its process."""

    offset: int
    deaths: int
    """Owners that died while this message was begun and guarded."""
    begun: bool
    """Whether it is in work."""


class CommitMetadata(NamedTuple):
    """What an owner tells the next one beside the offset."""

    clean: bool = False
    ahead: int = 0
    """How far beyond the offset messages were delivered."""
    completed: frozenset[int] = frozenset()
    """Offsets at or beyond the committed one that are completed."""
    suspects: frozenset[Suspect] = frozenset()


NO_METADATA: Final = CommitMetadata(clean=True)


def encode_metadata(offset: int, metadata: CommitMetadata) -> str:
    """Commit metadata as text. Raises InvariantError when it would not fit the broker's limit.

    Beyond `_SUSPECTS_LIMIT` the suspects least likely to matter are left out: a killer among them
    is then found some deaths later.
    """
    bitmap = ""
    if metadata.completed:
        raw = bytearray((max(metadata.completed) - offset) // 8 + 1)
        for done in metadata.completed:
            raw[(done - offset) >> 3] |= 1 << ((done - offset) & 7)
        bitmap = base64.b64encode(zlib.compress(raw, 6)).decode()
    likely = sorted(metadata.suspects, key=lambda one: (-one.deaths, not one.begun, one.offset))
    suspects = ",".join(
        f"{one.offset - offset}.{one.deaths}{'!' * one.begun}" for one in likely[:_SUSPECTS_LIMIT]
    )
    mark = "c" if metadata.clean else "r"
    text = f"1|{mark}|{metadata.ahead}|{bitmap}|{suspects}"
    if len(text) > METADATA_LIMIT_BYTES:
        raise InvariantError(f"commit metadata of {len(text)} bytes")
    return text


def decode_metadata(offset: int, text: str) -> CommitMetadata:
    """The inverse; foreign or broken metadata counts as none: work is then repeated, not lost."""
    parts = text.split("|")
    if len(parts) != 5 or parts[0] != "1":
        return NO_METADATA
    _, mark, ahead, bitmap, suspects = parts
    try:
        return CommitMetadata(
            mark == "c",
            int(ahead),
            _decode_bitmap(offset, bitmap),
            frozenset(_decode_suspect(offset, one) for one in suspects.split(",") if one),
        )
    except (binascii.Error, zlib.error, ValueError):
        return NO_METADATA


def _decode_bitmap(offset: int, text: str) -> frozenset[int]:
    if not text:
        return frozenset()
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), SPAN_LIMIT)
    return frozenset(offset + at for at in range(len(raw) * 8) if raw[at >> 3] >> (at & 7) & 1)


def _decode_suspect(offset: int, text: str) -> Suspect:
    distance, deaths = text.removesuffix("!").split(".")
    return Suspect(offset + int(distance), min(int(deaths), 9), text.endswith("!"))


class OffsetLedger:
    """What was delivered, begun and completed of one partition under one assignment epoch.

    Invariants:
        1. `committable` never decreases, and no message below it is in work.
        2. An offset is delivered at most once.
        3. Everything at or beyond `committable` that was completed, here or by the former owner,
           is in the metadata.
        4. A guarded message in work is in the metadata as a suspect.
    """

    def __init__(self, start: int, metadata: CommitMetadata) -> None:
        """Take over a partition.

        Args:
            start: committed offset, or the log start when none was committed.
            metadata: of that commit.
        """
        self.start = start
        dead = not metadata.clean
        self._guarded_below = start + metadata.ahead + _UNREPORTED_MOST if dead else start
        self._deaths = {
            one.offset: one.deaths + (dead and one.begun)
            for one in metadata.suspects
            if one.deaths or one.begun
        }
        self._skip = set(metadata.completed)
        self._order: deque[int] = deque()
        self._pending: set[int] = set()
        self._begun: set[int] = set()
        self._done: set[int] = set()
        self._next = start
        self._reported = start

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
    def unreported(self) -> int:
        """Offsets delivered since the last commit that told of them."""
        return self._next - self._reported

    @property
    def full(self) -> bool:
        """True when the metadata might outgrow its limit or lags: deliver no more for now."""
        return self.unreported >= UNREPORTED_LIMIT or self._next - self.committable >= SPAN_LIMIT

    def reported(self, next_offset: int) -> None:
        """Note a successful commit that told of deliveries up to this offset."""
        self._reported = next_offset

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

    def guarded(self, offset: int) -> bool:
        """Whether this message may be begun only after the metadata says that it is."""
        return offset < self._guarded_below or offset in self._deaths

    def deaths(self, offset: int) -> int:
        """Owners known to have died with this message in work."""
        return self._deaths.get(offset, 0)

    def begin(self, offset: int) -> None:
        """Note that work on a guarded message begins. Raises InvariantError when not pending."""
        if offset not in self._pending:
            raise InvariantError(f"offset {offset} begun and not pending")
        self._begun.add(offset)

    def put_back(self, offset: int) -> None:
        """Note that a message is not in work any more, and not done either."""
        self._begun.discard(offset)

    def complete(self, offset: int) -> None:
        """Mark a delivered message as completed. Raises InvariantError when it was not pending."""
        if offset not in self._pending:
            raise InvariantError(f"offset {offset} completed twice or never delivered")
        self._pending.discard(offset)
        self._begun.discard(offset)
        self._deaths.pop(offset, None)
        self._done.add(offset)

    def metadata(self, *, clean: bool) -> CommitMetadata:
        """What to commit beside `committable`."""
        prefix = self.committable
        ahead = {done for kept in (self._done, self._skip) for done in kept if done >= prefix}
        suspects = {
            Suspect(one, self.deaths(one), one in self._begun)
            for one in self._begun | self._deaths.keys()
            if one >= prefix
        }
        return CommitMetadata(clean, self._next - prefix, frozenset(ahead), frozenset(suspects))
