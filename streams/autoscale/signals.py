"""From offsets and the fetchers' own account of their backlog to the work of each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streams.autoscale.model import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Offsets of one group on one topic at an instant of the autoscaler's clock."""

    at: float
    ends: Mapping[int, int]
    """Log end by partition."""
    committed: Mapping[int, int]
    """Committed offset by partition; the log start where none, or an older one, is committed."""
    members: int
    rebalancing: bool
    completed_ahead: Mapping[int, int] = field(default_factory=dict)
    """Messages completed beyond the committed offset, by partition, as the commits say."""

    @property
    def lag(self) -> dict[int, int]:
        """Messages not completed, by partition. Never below 0: the end may have been read earlier.

        One slow message at the head of a partition holds its offset back while those behind it are
        completed: they are no work.
        """
        return {
            partition: max(0, end - self.completed(partition))
            for partition, end in self.ends.items()
        }

    def completed(self, partition: int) -> int:
        """Messages completed since the log began, as a position; only its growth means much."""
        return self.committed.get(partition, 0) + self.completed_ahead.get(partition, 0)


_COMPUTES = 0.85
"""Cores that a fetcher uses, of the one that it can, when it counts as computing all the time."""

_WAITS_S = 0.1
"""Mean wait of a due request, of which (by Little's law) that many times the rate are waiting, from
which on it waits for a connection and not only for its turn on the event loop."""


class Held(NamedTuple):
    """What the fetchers together say of the requests that they hold."""

    eligible: float
    """Requests that politeness allows within the drain target."""
    window: float
    """Requests held, in host queues or in flight."""
    fetched: float
    """Requests finished since some past instant; only its growth counts."""
    ready: float | None = None
    """Requests whose host is due and that wait only for a free connection; None: not exported."""
    cpu_s: float = 0.0
    """CPU time spent since some past instant; only its growth counts."""
    fetchers: int = 0
    """Fetchers that the CPU time is of; 0: it is not known."""


class Signals(NamedTuple):
    """The part of a reading that the inputs give."""

    work: tuple[Work, ...]
    lag: int
    saturated: bool | None
    unknown: tuple[str, ...]


def unknown(reason: str) -> Signals:
    """Nothing is known, for this reason."""
    return Signals((), 0, None, (reason,))


def of_lag(before: Snapshot, now: Snapshot) -> Signals:
    """Signals of a group for which every unread message is work that can be done now."""
    problem = _incomparable(before, now)
    if problem:
        return unknown(problem)
    span = now.at - before.at
    lag = now.lag
    work = tuple(
        Work(
            eligible=float(lag[partition]),
            arrival_per_s=(end - before.ends[partition]) / span,
            served_per_s=_served(before, now, partition) / span,
        )
        for partition, end in sorted(now.ends.items())
    )
    return Signals(work, sum(lag.values()), None, ())


def of_fetchers(before: Snapshot, now: Snapshot, was: Held, held: Held) -> Signals:
    """Signals of the fetchers: only what politeness allows counts as work.

    Unread messages are taken to be eligible in the proportion of those held. While a backlog is
    unread and nothing is held the proportion is unknown.
    """
    problem = _incomparable(before, now)
    if problem:
        return unknown(problem)
    span = now.at - before.at
    lag = now.lag
    total = sum(lag.values())
    unread = max(0.0, total - held.window)
    if held.window <= 0 and unread > 0:
        return unknown(f"{unread:.0f} requests are unread and the fetchers hold none yet")
    share = min(1.0, held.eligible / held.window) if held.window > 0 else 1.0
    eligible = held.eligible + unread * share
    served = max(0.0, held.fetched - was.fetched) / span
    commits = {partition: _served(before, now, partition) for partition in now.ends}
    work = tuple(
        Work(
            eligible=eligible * _part(lag, partition),
            arrival_per_s=share * (end - before.ends[partition]) / span,
            served_per_s=served * _part(commits if any(commits.values()) else lag, partition),
        )
        for partition, end in sorted(now.ends.items())
    )
    return Signals(work, total, _saturated(was, held, served, span), ())


def _saturated(was: Held, held: Held, served: float, span: float) -> bool | None:
    """Whether the fetchers, not politeness, bound what is fetched; None: not known.

    Either due requests wait for a connection at both ends of the interval, or the fetchers compute
    all the time: then responses wait for them, and a host whose one request is answered late has
    none that is due.
    """
    if held.fetchers and (held.cpu_s - was.cpu_s) / span / held.fetchers >= _COMPUTES:
        return True
    if held.ready is None or was.ready is None:
        return None
    return min(held.ready, was.ready) >= max(1.0, _WAITS_S * served)


def _incomparable(before: Snapshot, now: Snapshot) -> str:
    if now.at <= before.at:
        return "no time has passed since the last offsets"
    if now.ends.keys() != before.ends.keys():
        return "the topic's partitions have changed"
    if any(end < before.ends[partition] for partition, end in now.ends.items()):
        return "the topic was made anew"
    return ""


def _served(before: Snapshot, now: Snapshot, partition: int) -> int:
    """Messages completed between two snapshots; 0 when an operator moved the offset back."""
    return max(0, now.completed(partition) - before.completed(partition))


def _part(weights: Mapping[int, int], partition: int) -> float:
    """A partition's share of a total; even shares when there is nothing to weigh."""
    total = sum(weights.values())
    return weights[partition] / total if total else 1 / len(weights)
