"""Counters that follow the offsets: what a crawl has done, as far as it is committed. Pure.

A stage hands counts with each completion. They are added to the totals of the message's source
partition when an offset beyond it is committed, and only then published, so that a message which
is worked on again after a crash is not counted twice. A crash between the commit and the
publication loses the counts of that one commit: totals may be short, never too high, and a page
budget may be overshot, never undershot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from schemas.records import Progress
from schemas.topics import FETCHER_GROUP
from streams.kafka.messages import Source
from streams.telemetry.metrics import Counts

PAGES: Final = "pages"
"""Counter of fetched pages (2xx); it feeds `CrawlSpec.max_pages`."""
TRAPPED: Final = "trapped."
"""Prefix of dedup's counters of links refused in the endless space of a host, which follows."""
FETCHER_STAGE: Final = FETCHER_GROUP.removesuffix("s")


class Totals:
    """Cumulative counters of all source partitions, as published by their owners.

    `pages` is O(1): it is asked before every fetch.
    """

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, Source, str], tuple[int, dict[str, int]]] = {}
        self._pages: defaultdict[str, int] = defaultdict(int)

    def apply(self, progress: Progress) -> None:
        """Take in a published row; a row older than the one known is ignored."""
        source = Source(progress["topic"], progress["partition"])
        key = (progress["stage"], source, progress["crawl"])
        known = self._by_key.get(key)
        if known is not None and progress["offset"] < known[0]:
            return
        if progress["stage"] == FETCHER_STAGE:
            before = known[1].get(PAGES, 0) if known else 0
            self._pages[progress["crawl"]] += progress["counters"].get(PAGES, 0) - before
        self._by_key[key] = (progress["offset"], progress["counters"])

    def forget(self, crawl: str) -> None:
        """Drop the counters of a crawl that was deleted."""
        for key in [key for key in self._by_key if key[2] == crawl]:
            del self._by_key[key]
        self._pages.pop(crawl, None)

    def of(self, stage: str, source: Source, crawl: str) -> dict[str, int]:
        """Counters of one source partition and crawl; empty when none were published."""
        known = self._by_key.get((stage, source, crawl))
        return {} if known is None else known[1]

    def pages(self, crawl: str) -> int:
        """Pages fetched in a crawl, committed by all fetchers."""
        return self._pages.get(crawl, 0)

    def counters(self) -> dict[str, dict[str, dict[str, int]]]:
        """Sums by crawl, then stage, then counter name."""
        sums: dict[str, dict[str, dict[str, int]]] = {}
        for (stage, _, crawl), (_, counters) in self._by_key.items():
            into = sums.setdefault(crawl, {}).setdefault(stage, {})
            for name, count in counters.items():
                into[name] = into.get(name, 0) + count
        return sums


class ProgressBook:
    """Counts of one stage on their way from completion to publication."""

    def __init__(self, stage: str, totals: Totals) -> None:
        self.stage = stage
        self.totals = totals
        self._open: dict[Source, dict[int, Counts]] = {}
        self._open_pages: defaultdict[str, int] = defaultdict(int)

    def add(self, source: Source, offset: int, counts: Counts) -> None:
        """Keep the counts of a completed message until its offset is committed."""
        self._open.setdefault(source, {})[offset] = counts
        self._add_pages(counts, 1)

    def pages(self, crawl: str) -> int:
        """Pages fetched in a crawl: committed by anyone, plus completed here since."""
        return self.totals.pages(crawl) + self._open_pages.get(crawl, 0)

    def committed(self, source: Source, offset: int, now_ms: int) -> list[Progress]:
        """Fold the counts below a committed offset; the rows to publish, one for each crawl."""
        waiting = self._open.get(source)
        if not waiting:
            return []
        sums: dict[str, dict[str, int]] = {}
        for done in [done for done in waiting if done < offset]:
            counts = waiting.pop(done)
            self._add_pages(counts, -1)
            for crawl, names in counts.items():
                into = sums.get(crawl)
                if into is None:
                    into = sums[crawl] = dict(self.totals.of(self.stage, source, crawl))
                for name, count in names.items():
                    into[name] = into.get(name, 0) + count
        rows: list[Progress] = [
            {
                "stage": self.stage,
                "topic": source.topic,
                "partition": source.partition,
                "crawl": crawl,
                "offset": offset,
                "at": now_ms,
                "counters": counters,
            }
            for crawl, counters in sums.items()
        ]
        for row in rows:
            self.totals.apply(row)
        return rows

    def revoked(self, sources: Iterable[Source]) -> None:
        """Forget what was not committed: the new owner does it again, and counts it."""
        for source in sources:
            for counts in self._open.pop(source, {}).values():
                self._add_pages(counts, -1)

    def _add_pages(self, counts: Counts, sign: int) -> None:
        if self.stage != FETCHER_STAGE:
            return
        for crawl, names in counts.items():
            pages = names.get(PAGES, 0)
            if pages:
                self._open_pages[crawl] += sign * pages


def progress_key(row: Progress) -> bytes:
    """Key on topic `crawl-progress`: one row is kept for each partition and crawl."""
    return f"{row['stage']}/{row['topic']}/{row['partition']}/{row['crawl']}".encode()
