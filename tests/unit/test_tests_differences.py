"""The harness of the corpus tests can fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.corpus.differences import Difference, comparing

UPPER = Difference("case", "the peer shouts", lambda given, ours, theirs: ours.upper() == theirs)
LONGER = Difference("longer", "the peer adds", lambda given, ours, theirs: theirs.startswith(ours))


def _compare(listed: list[Difference], *cases: tuple[int, Any, Any], at_least: int = 1) -> None:
    with comparing(listed, at_least=at_least) as compare:
        for case in cases:
            compare(*case)


def test_what_is_equal_or_listed_passes() -> None:
    with comparing([UPPER, LONGER], at_least=3) as compare:
        compare(1, "a", "a")
        compare(2, "a", "A")
        compare(3, "a", "ab")
    assert compare.occurred == {"case": 1, "longer": 1}


def test_a_difference_that_is_not_listed_fails_and_shows_the_case() -> None:
    with pytest.raises(AssertionError, match=r"(?s)1 of 2 differ.*given:  7.*'a'.*'x'"):
        _compare([UPPER], (6, "a", "A"), (7, "a", "x"))


def test_a_listed_difference_that_occurs_nowhere_fails() -> None:
    with pytest.raises(AssertionError, match="occurs nowhere: case"):
        _compare([UPPER], (1, "a", "a"))


def test_a_listed_difference_covered_by_one_before_it_fails() -> None:
    same = Difference("again", "the same once more", UPPER.holds)
    with pytest.raises(AssertionError, match="occurs nowhere: again"):
        _compare([UPPER, same], (1, "a", "A"))


def test_too_few_cases_fail() -> None:
    with pytest.raises(AssertionError, match="1 cases compared, at least 2"):
        _compare([], (1, "a", "a"), at_least=2)


def test_many_differences_are_counted() -> None:
    with pytest.raises(AssertionError, match="88 more"):
        _compare([], *((number, number, -1) for number in range(100)))


def test_an_error_inside_is_not_hidden() -> None:
    with pytest.raises(KeyError), comparing([UPPER]):
        raise KeyError


def test_a_name_is_listed_once() -> None:
    with pytest.raises(AssertionError, match="listed twice"):
        _compare([UPPER, UPPER], (1, "a", "A"))
