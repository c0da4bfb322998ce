"""Requests read from retry tiers whose time has not come.

A tier's messages come nearly in the order they are due, so a partition is read a little ahead into
this heap and then held: nothing is read that could not be due soon, and one late message at the
head does not keep earlier ones behind it waiting.
"""

from __future__ import annotations

import heapq
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fetchers.worker.work import Work
    from streams.kafka.messages import Source


class TierBuffer:
    """All tiers' requests in order of their due time (monotonic seconds)."""

    def __init__(self, read_ahead: int) -> None:
        self._read_ahead = read_ahead
        self._heap: list[tuple[float, int, Work]] = []
        self._turns = count()
        self._by_source: Counter[Source] = Counter()

    def __len__(self) -> int:
        return len(self._heap)

    def room(self, source: Source) -> int:
        """How many more messages of a tier's partition to read now."""
        return max(0, self._read_ahead - self._by_source[source])

    def add(self, work: Work, due_at: float) -> None:
        """Keep a request until it is due."""
        heapq.heappush(self._heap, (due_at, next(self._turns), work))
        self._by_source[work.delivery.source] += 1

    def next_due(self) -> float | None:
        """When the first is due; None: there is none."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Iterator[Work]:
        """Take out those that are due."""
        while self._heap and self._heap[0][0] <= now:
            _, _, work = heapq.heappop(self._heap)
            self._by_source[work.delivery.source] -= 1
            yield work

    def forget(self, sources: frozenset[Source]) -> None:
        """Forget what came from some partitions."""
        self._heap = [entry for entry in self._heap if entry[2].delivery.source not in sources]
        heapq.heapify(self._heap)
        for source in sources:
            self._by_source.pop(source, None)
