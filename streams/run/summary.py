"""What a crawl did, in numbers, and whether it ended well. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from streams.standing.counts import Counts, rate

Ending = Literal["drained", "budget", "interrupted", "failed"]


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
            ("in traps", _reasons(counts.trapped)),
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
