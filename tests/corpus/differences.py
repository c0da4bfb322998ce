"""Comparing with a peer: what differs is listed with its reason, or the test fails.

    LISTED = (
        Difference(
            "fragment",
            "the peer keeps fragments; a crawl never requests one",
            lambda given, ours, theirs: theirs.partition("#")[0] == ours != theirs,
        ),
    )

    def test_as_the_peer_does() -> None:
        with comparing(LISTED, at_least=500) as compare:
            for given in corpus():
                compare(given, ours(given), theirs(given))

The test fails when two results differ and no listed difference holds, when a listed one occurs
nowhere, and when fewer cases than `at_least` were compared (a corpus that is found may be gone).
Of several that hold, the first counts, so one that is always covered by another fails as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

SHOWN: Final = 12
"""Unlisted differences that a failure prints; the others are counted."""
_MAX_CHARS: Final = 600


class Difference(NamedTuple):
    """One kind of difference that is meant to be.

    `holds` is asked only where the results differ. It says precisely which cases are meant: best
    by computing one result from the other, never by a trait of the input that many cases share.
    """

    name: str
    reason: str
    holds: Callable[[Any, Any, Any], bool]
    """(given, ours, theirs) -> whether this is why they differ."""


class Comparison:
    """Cases compared so far. Call it with each case; `check` says what is wrong with them all."""

    def __init__(self, listed: Sequence[Difference]) -> None:
        names = Counter(difference.name for difference in listed)
        assert all(count == 1 for count in names.values()), f"listed twice: {names}"
        assert all(difference.reason for difference in listed), "a difference without a reason"
        self.compared = 0
        self.occurred: Counter[str] = Counter()
        self._listed = listed
        self._unlisted: list[tuple[Any, Any, Any]] = []

    def __call__(self, given: Any, ours: Any, theirs: Any) -> None:
        """Compare the results for one case; `given` is printed when it fails."""
        self.compared += 1
        if ours == theirs:
            return
        for difference in self._listed:
            if difference.holds(given, ours, theirs):
                self.occurred[difference.name] += 1
                return
        self._unlisted.append((given, ours, theirs))

    def check(self, at_least: int = 1) -> None:
        """AssertionError unless all differences are listed, all listed occurred, and enough did."""
        wrong = [
            f"given:  {_short(given)}\n  ours:   {_short(ours)}\n  theirs: {_short(theirs)}"
            for given, ours, theirs in self._unlisted[:SHOWN]
        ]
        if len(self._unlisted) > SHOWN:
            wrong.append(f"... and {len(self._unlisted) - SHOWN} more that are not listed")
        wrong.extend(
            f"listed, but occurs nowhere: {difference.name} ({difference.reason})"
            for difference in self._listed
            if not self.occurred[difference.name]
        )
        if self.compared < at_least:
            wrong.append(f"{self.compared} cases compared, at least {at_least} were expected")
        assert not wrong, "\n".join([f"{len(self._unlisted)} of {self.compared} differ", *wrong])


@contextmanager
def comparing(listed: Sequence[Difference] = (), *, at_least: int = 1) -> Iterator[Comparison]:
    """Compare cases inside the block; what is wrong with them is raised at its end.

    Args:
        listed: the differences that are meant.
        at_least: cases that must have been compared.
    """
    comparison = Comparison(listed)
    yield comparison
    comparison.check(at_least)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}... ({len(text)} characters)"
