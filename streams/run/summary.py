"""What a crawl did, in numbers, and whether it ended well. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

Ending = Literal["drained", "budget", "interrupted", "failed"]

_PREFIXES: Final = ("failed.", "disregarded.", "rejected.")


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
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """A run, at its end."""

    crawl: str
    ending: Ending
    counts: Counts
    written: int
    """Records written to the output in this run."""
    waiting: int
    """Attempts that are due beyond the patience."""
    crawl_s: float
    """From the first seed to the end of the crawl, without starting and stopping."""
    elapsed_s: float
    """The whole run."""
    logs: str
    problems: tuple[str, ...] = ()
    """What went wrong with our own processes or Kafka."""

    @property
    def ok(self) -> bool:
        """Ended by itself, no process failed for good, and at least one page was fetched."""
        ended = self.ending in ("drained", "budget")
        return ended and not self.problems and self.counts.pages + self.counts.not_modified > 0

    @property
    def exit_code(self) -> int:
        """0: ended well; 130: interrupted; 1: anything else."""
        if self.ok:
            return 0
        return 130 if self.ending == "interrupted" else 1

    def as_json(self) -> dict[str, Any]:
        """All of it, for a file."""
        return asdict(self) | {
            "counts": asdict(self.counts),
            "ok": self.ok,
            "pages_per_s": round(rate(self.counts.pages, self.crawl_s), 2),
        }

    def lines(self) -> list[str]:
        """The report that ends a run."""
        counts = self.counts
        per_s = rate(counts.pages, self.crawl_s)
        what = {
            "drained": "finished",
            "budget": "finished: the page budget is spent",
            "interrupted": "interrupted",
            "failed": "failed",
        }[self.ending]
        rows = [
            ("pages", f"{counts.pages:,} in {self.crawl_s:.1f} s ({per_s:.1f}/s)"),
            ("elapsed", f"{self.elapsed_s:.1f} s with starting and stopping"),
            ("records", f"{counts.records:,} ({self.written:,} written)"),
            ("redirects", _number(counts.redirects)),
            ("not modified", _number(counts.not_modified)),
            ("failed", _reasons(counts.failed)),
            ("disregarded", _reasons(counts.disregarded)),
            ("rejected", _reasons(counts.rejected)),
            ("duplicates", _number(counts.duplicates)),
            ("retries", _number(counts.retries)),
            ("waiting", f"{self.waiting:,} attempts are due later" if self.waiting else ""),
            ("bodies", size(counts.body_bytes)),
            ("logs", self.logs),
        ]
        width = max(len(name) for name, text in rows if text)
        report = [f"crawl {self.crawl} {what}"]
        report += [f"  {name:<{width}}  {text}" for name, text in rows if text]
        report += [f"  problem: {problem}" for problem in self.problems]
        if not self.problems and self.ending in ("drained", "budget") and not self.ok:
            report.append("  problem: no page was fetched")
        if self.ending == "interrupted" or self.waiting:
            report.append(f"continue with: the same command and --resume {self.crawl}")
        return report


def rate(count: float, seconds: float) -> float:
    """Per second; 0 when no time has passed."""
    return count / seconds if seconds > 0 else 0.0


def size(count: int) -> str:
    """Bytes as a person reads them."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(seconds: float) -> str:
    """A time span as a person reads it."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _reasons(counts: Mapping[str, int]) -> str:
    if not counts:
        return ""
    listed = ", ".join(f"{reason} {count:,}" for reason, count in counts.items())
    return f"{sum(counts.values()):,} ({listed})"


def _largest_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
