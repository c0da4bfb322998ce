"""Dead letters again: choosing them, and the messages that replay them. Pure.

The log of dead letters is only ever appended to. A letter that was replayed gets a *mark*: a
message without a value in the same partition, with the same key and the header `redriven`, whose
value is the letter's `partition/offset`. So a second redrive sends nothing twice, and a replay
that fails again is a new letter with one more replay in its history.

A replay goes to the topic that the letter came from, and only to those of `TARGETS`: what waited
in a retry tier goes to `fetch-requests`, at once. A fetch request keeps its history: attempts go
on counting, the first failure is kept, `replays` grows by one. Other messages are repeated byte
for byte; the letters of the same message are counted instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from schemas import codec
from schemas.errors import ContractError
from schemas.records import DeadLetter, FetchRequest
from schemas.topics import FETCH_REQUESTS, FETCH_RESULTS, RETRY_TIERS, URLS
from streams.kafka.messages import Out, Source
from streams.kafka.reader import Message

MAX_REPLAYS: Final = 3
"""How often one message is replayed at most."""
MARK: Final = "redriven"
TARGETS: Final = {
    URLS: URLS,
    FETCH_REQUESTS: FETCH_REQUESTS,
    FETCH_RESULTS: FETCH_RESULTS,
    **dict.fromkeys(RETRY_TIERS, FETCH_REQUESTS),
}
"""Where letters go, by their origin. A letter from anywhere else is not replayed."""


class Letter(NamedTuple):
    """One dead letter and where it is."""

    source: Source
    offset: int
    key: bytes | None
    row: DeadLetter

    @property
    def position(self) -> str:
        """`partition/offset`: what `show` takes and marks hold."""
        return f"{self.source.partition}/{self.offset}"

    @property
    def identity(self) -> tuple[str, bytes]:
        """Equal for letters of one message, whatever was attempted in between."""
        return (self.row["crawl"], self.row["url_id"] or self.row["payload_sha256"])

    @property
    def origin(self) -> tuple[str, int, int]:
        """Where the message was that the letter is about."""
        row = self.row
        return (row["origin_topic"], row["origin_partition"], row["origin_offset"])


@dataclass(frozen=True, slots=True)
class Filter:
    """Which letters. Empty or None: no limit by that."""

    reasons: frozenset[str] = frozenset()
    """With reasons given, letters of kind `disregarded` may be among them; else they are not
    replayed."""
    host: str = ""
    crawl: str = ""
    since_ms: int | None = None
    """Given up at this time or later, milliseconds since the epoch."""

    def takes(self, row: DeadLetter) -> bool:
        """Whether a letter passes."""
        return (
            (not self.reasons or row["reason"] in self.reasons)
            and (not self.host or row["host"] == self.host)
            and (not self.crawl or row["crawl"] == self.crawl)
            and (self.since_ms is None or row["dead_at"] >= self.since_ms)
        )


@dataclass(slots=True)
class Shelf:
    """The dead letters as read, with the marks applied."""

    letters: list[Letter] = field(default_factory=list)
    redriven: set[str] = field(default_factory=set)
    """Positions of letters that were replayed."""
    unreadable: int = 0

    def add(self, message: Message) -> None:
        """Take in one message of the topic."""
        if message.value is None:
            self.redriven.update(
                value.decode("ascii", "replace") for name, value in message.headers if name == MARK
            )
            return
        try:
            row: DeadLetter = codec.decode("dead-letter", message.value)
        except ContractError:
            self.unreadable += 1
            return
        self.letters.append(Letter(message.source, message.offset, message.key, row))

    def chosen(self, wanted: Filter) -> list[Letter]:
        """Letters that pass, oldest first."""
        found = [letter for letter in self.letters if wanted.takes(letter.row)]
        return sorted(
            found, key=lambda letter: (letter.row["dead_at"], letter.source, letter.offset)
        )


@dataclass(slots=True)
class Plan:
    """What a redrive does: the replays, and why other letters that passed have none."""

    replays: list[tuple[Letter, Out]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def histogram(self) -> dict[str, int]:
        """Replays by reason, most first."""
        counts = Counter(letter.row["reason"] for letter, _ in self.replays)
        return dict(counts.most_common())


def plan(shelf: Shelf, wanted: Filter, *, limit: int | None = None) -> Plan:
    """Decide what to replay.

    Of several letters of one message only the newest is replayed. Letters are skipped, with a
    count, when they were replayed before, when `MAX_REPLAYS` is reached, when a rule (not a
    failure) put them there and no reason was asked for, when the message was too long to be kept
    whole, and when their origin is not one of `TARGETS`.

    Args:
        shelf: all letters up to some end.
        wanted: which of them.
        limit: replays at most; None: all.
    """
    newest = {letter.identity: letter for letter in shelf.chosen(Filter())}
    # A crash may leave two letters of one failure: they have one origin and count once.
    times = Counter(
        identity for identity, _ in {(item.identity, item.origin) for item in shelf.letters}
    )
    result = Plan()
    for letter in shelf.chosen(wanted):
        why = _skip(letter, shelf, wanted, times[letter.identity])
        if why is None and newest[letter.identity] is not letter:
            why = "a newer letter of the same message exists"
        if why is None and limit is not None and len(result.replays) >= limit:
            why = "beyond --max"
        if why is None:
            result.replays.append((letter, replay(letter)))
        else:
            result.skipped[why] += 1
    return result


def _skip(letter: Letter, shelf: Shelf, wanted: Filter, times: int) -> str | None:
    row = letter.row
    if letter.position in shelf.redriven:
        return "redriven before"
    if row["kind"] == "disregarded" and not wanted.reasons:
        return "disregarded by a rule (name it with --reason to replay it)"
    if row["origin_topic"] not in TARGETS:
        return f"origin {row['origin_topic'][:64]!r} is not replayed"
    if row["payload_truncated"]:
        return "message too long to be kept whole"
    if max(row["replays"], times - 1) >= MAX_REPLAYS:
        return f"replayed {MAX_REPLAYS} times"
    return None


def replay(letter: Letter) -> Out:
    """The message that replays a letter."""
    row = letter.row
    target = TARGETS[row["origin_topic"]]
    if target == FETCH_REQUESTS:
        try:
            request: FetchRequest = codec.decode("fetch-request", row["payload"])
        except ContractError:
            return Out(target, row["origin_key"], row["payload"])
        again = request | _history(row, request)
        return Out(target, request["host"].encode(), codec.encode("fetch-request", again))
    return Out(target, row["origin_key"], row["payload"])


def _history(row: DeadLetter, request: FetchRequest) -> dict[str, Any]:
    return {
        "attempt": max(row["attempts"], request["attempt"] - 1, 0) + 1,
        "not_before": 0,
        "replays": row["replays"] + 1,
        "unavailable": 0,
        "first_attempt_at": request["first_attempt_at"] or row["first_attempt_at"],
        "first_reason": request["first_reason"] or row["first_reason"],
        "last_reason": row["reason"],
        "last_detail": row["detail"][:300],
    }


def mark(letter: Letter) -> Out:
    """The mark of a replayed letter, for the letter's own partition of `dead-letters`."""
    key = letter.key if letter.key is not None else letter.position.encode()
    return Out(letter.source.topic, key, None, ((MARK, letter.position.encode()),))


def by_reason(letters: Iterable[Letter]) -> dict[str, int]:
    """Letters by reason, most first."""
    return dict(Counter(letter.row["reason"] for letter in letters).most_common())
