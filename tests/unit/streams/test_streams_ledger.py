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
from streams.ledger import (
    METADATA_LIMIT_BYTES,
    SPAN_LIMIT,
    CommitMetadata,
    OffsetLedger,
    decode_metadata,
    encode_metadata,
)

FRESH = CommitMetadata(clean=True)


def ledger(
    start: int = 0, metadata: CommitMetadata = FRESH, *, backlog: bool = True
) -> OffsetLedger:
    return OffsetLedger(start, metadata, backlog=backlog)


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
    st.integers(0, 1_000_000),
    st.sets(st.integers(0, SPAN_LIMIT - 1), max_size=300),
    st.booleans(),
    st.integers(0, 9),
)
def test_metadata_round_trip(start: int, ahead: set[int], clean: bool, deaths: int) -> None:
    metadata = CommitMetadata(clean, deaths, frozenset(start + at for at in ahead))
    assert decode_metadata(start, encode_metadata(start, metadata)) == metadata


def test_worst_metadata_fits_the_broker_limit() -> None:
    chooser = random.Random(1)
    ahead = frozenset(at for at in range(SPAN_LIMIT) if chooser.random() < 0.5)
    assert len(encode_metadata(0, CommitMetadata(completed=ahead))) <= METADATA_LIMIT_BYTES


@pytest.mark.parametrize("text", ["", "hello", "1|r|x|", "2|r|0|", "1|r|0|!!!", "1|r|0|AAAA"])
def test_foreign_metadata_is_as_none(text: str) -> None:
    assert decode_metadata(3, text) == CommitMetadata(clean=True)


def test_full_before_the_metadata_outgrows_its_limit() -> None:
    book = ledger()
    book.deliver(0)
    book.deliver(SPAN_LIMIT - 2)
    assert not book.full
    book.deliver(SPAN_LIMIT - 1)
    assert book.full


def test_deaths_are_counted_only_with_work_at_hand_and_no_orderly_end() -> None:
    dirty = CommitMetadata(clean=False, deaths=1)
    assert ledger(5, dirty).deaths == 2
    assert ledger(5, dirty, backlog=False).deaths == 0
    assert ledger(5, CommitMetadata(clean=True, deaths=1)).deaths == 0


def test_head_is_tried_alone_then_parked_and_the_count_ends_with_a_commit() -> None:
    assert not ledger(5, CommitMetadata(deaths=0)).careful
    twice = ledger(5, CommitMetadata(deaths=1))
    assert twice.careful
    assert not twice.poisoned
    thrice = ledger(5, CommitMetadata(deaths=2))
    assert thrice.poisoned
    thrice.deliver(5)
    thrice.complete(5)
    assert thrice.careful
    thrice.moved(6)
    assert not thrice.careful
    assert thrice.metadata(clean=False).deaths == 0


def test_count_survives_in_the_metadata_while_the_prefix_stands() -> None:
    book = ledger(5, CommitMetadata(deaths=1))
    assert book.metadata(clean=False).deaths == 2
    assert book.metadata(clean=True).deaths == 0


@given(st.data())
def test_any_interleaving_keeps_the_invariants(data: st.DataObject) -> None:
    book = ledger(data.draw(st.integers(0, 5)))
    offset, last, working, completed = book.next, book.committable, [], set()
    for _ in range(data.draw(st.integers(0, 40))):
        if working and data.draw(st.booleans()):
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
