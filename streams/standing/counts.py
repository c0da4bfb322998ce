"""A crawl's counters over all stages, as one set of numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streams.crawls.progress import TRAPPED

_PREFIXES: Final = ("failed.", "disregarded.", "rejected.", TRAPPED)


@dataclass(frozen=True, slots=True)
class Counts:
    """A crawl's counters over all stages, as far as they are committed."""

    pages: int = 0
    """Answers with 2xx."""
    redirects: int = 0
    not_modified: int = 0
    records: int = 0
    admitted: int = 0
    duplicates: int = 0
    retries: int = 0
    deferrals: int = 0
    body_bytes: int = 0
    links: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    """URLs given up, by reason."""
    disregarded: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Links refused at admission, by reason."""
    trapped: Mapping[str, int] = field(default_factory=dict)
    """Of those with the reason `trap`, the ones in endless spaces, by host."""

    @property
    def ended(self) -> int:
        """Admitted URLs that have their outcome."""
        late = self.rejected.get("budget_spent", 0) + self.rejected.get("crawl_stopped", 0)
        return (
            self.pages
            + self.redirects
            + self.not_modified
            + sum(self.failed.values())
            + sum(self.disregarded.values())
            + late
        )


def fold(stages: Mapping[str, Mapping[str, int]]) -> Counts:
    """Counters by stage, as the directory has them, as one set of numbers."""
    groups: dict[str, dict[str, int]] = {prefix: {} for prefix in _PREFIXES}
    for names in stages.values():
        for name, count in names.items():
            for prefix, group in groups.items():
                if name.startswith(prefix) and count:
                    reason = name.removeprefix(prefix)
                    group[reason] = group.get(reason, 0) + count
    fetcher, parser = stages.get("fetcher", {}), stages.get("parser", {})
    dedup = stages.get("dedup", {})
    return Counts(
        pages=fetcher.get("pages", 0),
        redirects=fetcher.get("redirects", 0),
        not_modified=fetcher.get("not_modified", 0),
        records=parser.get("records", 0),
        admitted=dedup.get("admitted", 0),
        duplicates=dedup.get("duplicates", 0),
        retries=fetcher.get("retries", 0),
        deferrals=fetcher.get("deferrals", 0),
        body_bytes=fetcher.get("bytes", 0),
        links=parser.get("links_found", 0),
        failed=_largest_first(groups["failed."]),
        disregarded=_largest_first(groups["disregarded."]),
        rejected=_largest_first(groups["rejected."]),
        trapped=_largest_first(groups[TRAPPED]),
    )


def rate(count: float, seconds: float) -> float:
    """Per second; 0 when no time has passed."""
    return count / seconds if seconds > 0 else 0.0


def _largest_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
