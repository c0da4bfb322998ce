"""Ids met before: exact, in memory that does not grow."""

from __future__ import annotations

import sys
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from streams.run.seen import Recent, Seen


@given(st.lists(st.binary(max_size=20)))
def test_it_is_a_set(ids: list[bytes]) -> None:
    seen, known = Seen(), set[bytes]()
    for identity in ids:
        assert (identity in seen) == (identity in known)
        assert seen.first(identity) == (identity not in known)
        known.add(identity)
        assert len(seen) == len(known)
    seen.close()


def test_ids_that_share_most_of_their_bytes_are_different() -> None:
    seen = Seen()
    ids = [bytes(15) + bytes([last]) for last in range(256)]
    ids += [bytes([first]) + bytes(15) for first in range(1, 256)]
    assert all(seen.first(identity) for identity in ids)
    assert not any(seen.first(identity) for identity in ids)


def test_memory_of_python_does_not_grow_with_the_ids() -> None:
    seen = Seen()
    blocks = []
    for start in range(0, 60_000, 20_000):
        for number in range(start, start + 20_000):
            assert seen.first(blake2b(number.to_bytes(4), digest_size=16).digest())
        blocks.append(sys.getallocatedblocks())
    assert blocks[2] - blocks[1] < 1_000
    assert not seen.first(blake2b((0).to_bytes(4), digest_size=16).digest())


@given(st.integers(1, 5), st.lists(st.integers(0, 12), max_size=60))
def test_recent_knows_the_newest_and_forgets_what_is_old(limit: int, numbers: list[int]) -> None:
    recent, given_at = Recent(limit), dict[int, int]()
    for at, number in enumerate(numbers):
        first = recent.first(bytes([number]))
        if number not in given_at:
            assert first
        else:
            since = set(numbers[given_at[number] + 1 : at]) - {number}
            if len(since) < limit:
                assert not first
            if len(since) > 2 * limit:
                assert first
        given_at[number] = at
