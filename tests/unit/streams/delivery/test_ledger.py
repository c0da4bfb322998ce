"""The offset ledger: prefix, gaps, metadata, deaths."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InvariantError
from streams.delivery.ledger import (
    METADATA_LIMIT_BYTES,
    NO_METADATA,
    POLL_RECORDS,
    SPAN_LIMIT,
    UNREPORTED_LIMIT,
    CommitMetadata,
    OffsetLedger,
    Suspect,
    decode_metadata,
    encode_metadata,
)

DEAD = CommitMetadata(clean=False)


def ledger(start: int = 0, metadata: CommitMetadata = NO_METADATA) -> OffsetLedger:
    return OffsetLedger(start, metadata)


def suspect(offset: int, deaths: int, *, begun: bool = False) -> Suspect:
    return Suspect(offset, deaths, begun)


def test_nothing_delivered_commits_the_start() -> None:
    assert ledger(7).committable == 7


def test_prefix_waits_for_the_first_in_work() -> None:
    book = ledger(10)
    for offset in (10, 11, 12, 14, 15):
        assert book.deliver(offset)
    for offset in (10, 11, 14, 15):
        book.complete(offset)
    assert book.committable == 12
    assert book.metadata(clean=False).completed == {14, 15}
    book.complete(12)
    assert book.committable == 16
    assert book.metadata(clean=False).completed == frozenset()


def test_a_gap_at_the_head_does_not_hold_the_prefix() -> None:
    book = ledger(5)
    book.deliver(9)
    assert book.committable == 9
    book.complete(9)
    assert book.committable == 10


def test_completed_by_the_former_owner_is_skipped_and_kept_in_the_metadata() -> None:
    book = ledger(10, CommitMetadata(clean=True, completed=frozenset({12, 15})))
    assert [book.deliver(offset) for offset in (10, 11, 12)] == [True, True, False]
    assert book.metadata(clean=False).completed == {12, 15}
    book.complete(10)
    book.complete(11)
    assert book.committable == 13
    assert book.metadata(clean=False).completed == {15}


def test_completing_twice_is_a_bug() -> None:
    book = ledger()
    book.deliver(0)
    book.complete(0)
    with pytest.raises(InvariantError, match="completed twice"):
        book.complete(0)


def test_going_back_without_a_rebalance_is_a_bug() -> None:
    book = ledger()
    book.deliver(3)
    with pytest.raises(InvariantError, match="offset 3 after 4"):
        book.deliver(3)


@given(
    st.integers(0, 2**40),
    st.sets(st.integers(0, SPAN_LIMIT + POLL_RECORDS), max_size=30),
    st.booleans(),
    st.integers(0, SPAN_LIMIT),
    st.dictionaries(
        st.integers(0, SPAN_LIMIT), st.tuples(st.integers(0, 9), st.booleans()), max_size=20
    ),
)
def test_metadata_round_trip(
    start: int,
    done: set[int],
    clean: bool,
    ahead: int,
    suspects: dict[int, tuple[int, bool]],
) -> None:
    metadata = CommitMetadata(
        clean,
        ahead,
        frozenset(start + at for at in done),
        frozenset(Suspect(start + at, *row) for at, row in suspects.items()),
    )
    assert decode_metadata(start, encode_metadata(start, metadata)) == metadata


def test_worst_metadata_fits_the_broker_limit() -> None:
    chooser = random.Random(1)
    span = SPAN_LIMIT + POLL_RECORDS
    done = frozenset(at for at in range(span) if chooser.random() < 0.5)
    suspects = frozenset(suspect(span - at, 9, begun=True) for at in range(1_000))
    text = encode_metadata(
        0, CommitMetadata(clean=False, ahead=span, completed=done, suspects=suspects)
    )
    assert len(text) <= METADATA_LIMIT_BYTES


def test_the_likeliest_suspects_are_kept_when_there_are_too_many() -> None:
    crowd = {suspect(at, 1) for at in range(500)}
    metadata = CommitMetadata(
        suspects=frozenset(crowd | {suspect(700, 2), suspect(701, 1, begun=True)})
    )
    kept = decode_metadata(0, encode_metadata(0, metadata)).suspects
    assert {suspect(700, 2), suspect(701, 1, begun=True)} <= kept
    assert len(kept) < 100


@pytest.mark.parametrize(
    "text",
    ["", "hello", "1|r|x||", "2|r|0||", "1|r|0|!!!|", "1|r|0|AAAA|", "1|r|0||5", "1|r|0||a.b"],
)
def test_foreign_metadata_is_as_none(text: str) -> None:
    assert decode_metadata(3, text) == NO_METADATA


def test_full_before_the_metadata_outgrows_its_limit() -> None:
    book = ledger()
    book.deliver(0)
    book.deliver(SPAN_LIMIT - 2)
    book.reported(book.next)
    assert not book.full
    book.deliver(SPAN_LIMIT - 1)
    assert book.full


def test_full_while_a_commit_must_tell_how_far_we_are() -> None:
    book = ledger()
    for offset in range(UNREPORTED_LIMIT):
        assert not book.full
        book.deliver(offset)
        book.complete(offset)
    assert book.full
    book.reported(book.next)
    assert not book.full


def test_completed_offsets_that_retention_removed_leave_the_metadata() -> None:
    book = ledger(10, CommitMetadata(clean=True, completed=frozenset({12, 15, 31})))
    book.deliver(30)
    book.complete(30)
    assert book.committable == 31
    assert book.metadata(clean=False).completed == {31}
    encode_metadata(book.committable, book.metadata(clean=False))


def test_nothing_is_guarded_after_an_orderly_end() -> None:
    assert not ledger(5).guarded(5)
    assert not ledger(5, CommitMetadata(clean=True, ahead=100)).guarded(5)


def test_whatever_a_dead_owner_can_have_held_is_guarded() -> None:
    """The former owner reports 40 ahead, then delivers as long as it may without reporting."""
    former = ledger(5)
    for offset in range(5, 45):
        former.deliver(offset)
    told = former.metadata(clean=False)
    former.reported(former.next)
    while not former.full:
        for _ in range(POLL_RECORDS):
            former.deliver(former.next)
    heir = ledger(5, told)
    assert all(heir.guarded(offset) for offset in range(5, former.next))
    assert not heir.guarded(former.next + 2 * POLL_RECORDS)


def test_only_what_was_begun_is_suspected() -> None:
    book = ledger(5, DEAD)
    for offset in range(5, 9):
        book.deliver(offset)
    book.begin(6)
    book.begin(7)
    book.complete(7)
    told = book.metadata(clean=False)
    assert told.suspects == {suspect(6, 0, begun=True)}
    heir = ledger(5, told)
    assert [heir.deaths(offset) for offset in range(5, 9)] == [0, 1, 0, 0]


def test_deaths_add_up_over_owners_and_end_with_completion() -> None:
    told = CommitMetadata(suspects=frozenset({suspect(6, 1, begun=True), suspect(8, 2)}))
    book = ledger(5, told)
    assert (book.deaths(6), book.deaths(8)) == (2, 2)
    for offset in range(5, 9):
        book.deliver(offset)
    book.complete(6)
    assert book.metadata(clean=False).suspects == {suspect(8, 2)}
    assert ledger(5, book.metadata(clean=False)).deaths(6) == 0


def test_an_orderly_end_is_no_death_and_forgets_no_earlier_one() -> None:
    told = CommitMetadata(clean=True, suspects=frozenset({suspect(6, 1, begun=True)}))
    book = ledger(5, told)
    assert book.deaths(6) == 1
    assert book.guarded(6)
    assert not book.guarded(7)


def test_begin_of_what_is_not_pending_is_a_bug() -> None:
    book = ledger(5)
    with pytest.raises(InvariantError):
        book.begin(5)


@given(st.data())
def test_any_interleaving_keeps_the_invariants(data: st.DataObject) -> None:
    book = ledger(data.draw(st.integers(0, 5)))
    offset, last = book.next, book.committable
    working: list[int] = []
    completed: set[int] = set()
    for _ in range(data.draw(st.integers(0, 40))):
        if working and bool(data.draw(st.booleans())):
            done = working.pop(data.draw(st.integers(0, len(working) - 1)))
            book.complete(done)
            completed.add(done)
        else:
            offset += data.draw(st.integers(0, 3))
            book.deliver(offset)
            working.append(offset)
            offset += 1
        assert book.committable >= last
        last = book.committable
        assert not working or last <= min(working)
        assert {done for done in completed if done >= last} == book.metadata(clean=False).completed
        assert book.pending == len(working)


CASES = {
    case["id"]: case
    for case in map(json.loads, Path("tests/data/cases.jsonl").read_text("utf-8").splitlines())
}


def test_kaf_04_each_partition_has_its_own_prefix() -> None:
    case: dict[str, Any] = CASES["kaf-04"]
    starts = {"p0": 12, "p1": 70, "p2": 9}
    books = {name: ledger(start) for name, start in starts.items()}
    for entry in case["input"]["batch"]:
        name, _, offset = entry.partition("/")
        books[name].deliver(int(offset))
        books[name].complete(int(offset))
    assert {name: book.committable for name, book in books.items()} == case["expected"]["committed"]
