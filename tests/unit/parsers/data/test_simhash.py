"""Simhash: near for near texts, and what its definition says."""

from __future__ import annotations

import random
import statistics
from itertools import combinations
from zlib import crc32

import pytest

from parsers.data.simhash import distance, simhash


def test_simhash_is_stable_and_near_for_near_texts() -> None:
    words = [f"word{at}" for at in range(400)]
    text = " ".join(words)
    other = " ".join([*words[:200], "changed", *words[201:]])
    assert simhash(text) == simhash(text.upper().replace(" ", "\n"))
    assert distance(simhash(text), simhash(other)) <= 6
    assert distance(simhash(text), simhash(" ".join(reversed(words)))) > 12
    assert simhash("two words") == 0
    assert simhash("a fixed text of six words") == simhash("a fixed text of six words")
    assert -(1 << 63) <= simhash(text) < 1 << 63


@pytest.mark.parametrize("words", [3, 12, 1_023, 1_024, 1_025, 20_000, 20_100])
def test_simhash_equals_the_plain_definition(words: int) -> None:
    def hash64(word: str) -> int:
        return crc32(word.encode()) * 0x9E3779B1

    def rotate(number: int, by: int) -> int:
        return ((number << by) | (number >> (64 - by))) & ((1 << 64) - 1)

    made = [f"{'wörd' if at % 3 else 'x'}{at * at % 977}" for at in range(words)]
    hashes = [hash64(word) for word in made[:20_000]]
    grams = [
        a ^ rotate(b, 21) ^ rotate(c, 42)
        for a, b, c in zip(hashes, hashes[1:], hashes[2:], strict=False)
    ]
    value = 0
    for lane in range(64):
        ones = sum((gram >> lane) & 1 for gram in grams)
        value |= (ones > len(grams) / 2) << lane
    assert simhash(" ".join(made)) & ((1 << 64) - 1) == value


def test_simhashes_of_unrelated_texts_differ_in_half_of_the_bits() -> None:
    rng = random.Random(5)
    texts = [
        simhash(" ".join(f"{rng.choice('abcdefgh')}{rng.randrange(3_000)}" for _ in range(300)))
        for _ in range(120)
    ]
    apart = [distance(one, other) for one, other in combinations(texts, 2)]
    assert 31 < statistics.mean(apart) < 33
    assert statistics.stdev(apart) < 4.5
    for bit in range(64):
        ones = sum((value >> bit) & 1 for value in texts)
        assert 30 < ones < 90
