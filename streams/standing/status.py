"""How the crawls and the stages stand: from counters and lag to a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from schemas.crawl import CrawlSpec
from schemas.topics import RETRY_TIERS
from streams.standing.counts import Counts, fold, rate
from streams.standing.drain import CONSUMED, STAGES, Reading, pending


@dataclass(frozen=True, slots=True)
class CrawlStatus:
    """One crawl."""

    crawl: str
    state: str
    counts: Counts
    outstanding: int
    """URLs admitted and not yet ended; counters are read while they move, so it may be off by a
    few."""
    budget: int | None
    pages_per_s: float
    ended_per_s: float

    @property
    def eta_s(self) -> float | None:
        """Seconds until what is known now is done, or the budget spent; None: cannot be said.

        Links still to be found are not known, so it is a lower bound.
        """
        waits = []
        if self.outstanding and self.ended_per_s > 0:
            waits.append(self.outstanding / self.ended_per_s)
        if self.budget is not None and self.pages_per_s > 0:
            waits.append(max(0, self.budget - self.counts.pages) / self.pages_per_s)
        return min(waits, default=None)


@dataclass(frozen=True, slots=True)
class StageStatus:
    """One stage. `lag` is in messages, those that wait in retry tiers apart."""

    stage: str
    lag: int
    waiting: int
    """Messages in retry tiers."""
    oldest_age_s: float | None
    """Age of the oldest message not committed, retry tiers left out; None: there is none."""
    topics: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """All of a deployment."""

    at: int
    """Milliseconds since the epoch."""
    crawls: tuple[CrawlStatus, ...]
    stages: tuple[StageStatus, ...]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "at": self.at,
            "crawls": {
                crawl.crawl: asdict(crawl) | {"eta_s": crawl.eta_s} for crawl in self.crawls
            },
            "stages": {stage.stage: asdict(stage) for stage in self.stages},
        }


Counters = Mapping[str, Mapping[str, Mapping[str, int]]]
"""By crawl, stage and name, as the directory has them."""


def crawl_statuses(
    specs: list[CrawlSpec], counters: Counters, earlier: Counters, span_s: float
) -> tuple[CrawlStatus, ...]:
    """Each crawl that has a spec or counters; the crawl `default` only once it did something.

    Args:
        specs: of all crawls.
        counters: now.
        earlier: the same, `span_s` seconds before; rates are the difference.
        span_s: 0: rates are 0.
    """
    by_id = {spec.crawl: spec for spec in specs}
    found = []
    for crawl in sorted(by_id.keys() | counters.keys()):
        spec = by_id.get(crawl)
        counts = fold(counters.get(crawl, {}))
        before = fold(earlier.get(crawl, {}))
        if crawl == "default" and counts == Counts():
            continue
        found.append(
            CrawlStatus(
                crawl=crawl,
                state=spec.state if spec else "unknown",
                counts=counts,
                outstanding=max(0, counts.admitted - counts.ended),
                budget=spec.max_pages if spec else None,
                pages_per_s=round(rate(max(0, counts.pages - before.pages), span_s), 2),
                ended_per_s=round(rate(max(0, counts.ended - before.ended), span_s), 2),
            )
        )
    return tuple(found)


def stage_statuses(reading: Reading, oldest_ms: Mapping[str, int]) -> tuple[StageStatus, ...]:
    """Each stage's lag.

    Args:
        reading: commits and ends.
        oldest_ms: time of the oldest message not committed, by topic.
    """
    by_topic: dict[str, int] = {}
    for source, count in pending(reading).items():
        by_topic[source.topic] = by_topic.get(source.topic, 0) + count
    found = []
    for group, topics in CONSUMED.items():
        own = {topic: by_topic[topic] for topic in topics if topic in by_topic}
        ages = [
            (reading.at - oldest_ms[topic]) / 1000
            for topic in own
            if topic not in RETRY_TIERS and topic in oldest_ms
        ]
        waiting = sum(count for topic, count in own.items() if topic in RETRY_TIERS)
        found.append(
            StageStatus(
                stage=STAGES[group],
                lag=sum(own.values()) - waiting,
                waiting=waiting,
                oldest_age_s=max([0.0, *ages]) if ages else None,
                topics=own,
            )
        )
    return tuple(found)
