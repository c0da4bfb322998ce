"""Live progress of a crawl, on standard error: a panel on a terminal, log lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.run.summary import duration
from streams.standing.counts import Counts, rate

LINE_EVERY_S: Final = 5.0
_RATE_SPAN_S: Final = 10.0


class View(NamedTuple):
    """A moment of a running crawl."""

    crawl: str
    phase: str
    """What is going on, in a word or two."""
    elapsed_s: float
    counts: Counts
    written: int
    queue: dict[str, int]
    """Messages not committed, by topic."""
    budget: int | None
    next_due_s: float | None
    """Seconds until the earliest waiting attempt."""


class Display(Protocol):
    """Where progress goes."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear what is not to stay."""
        ...

    def update(self, view: View) -> None:
        """Show a moment."""
        ...

    def note(self, text: str) -> None:
        """Say something that stays."""
        ...

    def record(self, text: str) -> None:
        """Show a record."""
        ...


class RateMeter:
    """Pages per second over the last seconds."""

    def __init__(self, span_s: float = _RATE_SPAN_S) -> None:
        self._span_s = span_s
        self._points: deque[tuple[float, int]] = deque()

    def add(self, at_s: float, count: int) -> float:
        """Note a count at a time; the present rate."""
        points = self._points
        points.append((at_s, count))
        while len(points) > 2 and at_s - points[0][0] > self._span_s:
            points.popleft()
        return rate(count - points[0][1], at_s - points[0][0])


class LineDisplay:
    """Plain lines, for logs and pipes."""

    def __init__(self) -> None:
        self._rate = RateMeter()
        self._last_at: float | None = None
        self._last_phase = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def update(self, view: View) -> None:
        """One line every few seconds, and at each new phase."""
        per_s = self._rate.add(view.elapsed_s, view.counts.pages)
        due = self._last_at is None or view.elapsed_s - self._last_at >= LINE_EVERY_S
        if due or view.phase != self._last_phase:
            self._last_at, self._last_phase = view.elapsed_s, view.phase
            self.note(line(view, per_s))

    def note(self, text: str) -> None:
        """One line."""
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stderr.flush()

    def record(self, text: str) -> None:
        """One line on standard output."""
        sys.stdout.write(f"{text}\n")


class PanelDisplay:
    """A panel that is drawn over itself."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rate = RateMeter()
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def update(self, view: View) -> None:
        """Draw."""
        self._live.update(panel(view, self._rate.add(view.elapsed_s, view.counts.pages)))

    def note(self, text: str) -> None:
        """A line above the panel."""
        self._console.print(text, markup=False, highlight=False)

    def record(self, text: str) -> None:
        """A line above the panel."""
        self.note(text)


def make_display() -> Display:
    """The display that fits standard error."""
    console = Console(stderr=True)
    return PanelDisplay(console) if console.is_terminal else LineDisplay()


def line(view: View, per_s: float) -> str:
    """A moment in one line."""
    counts = view.counts
    parts = [
        f"{view.crawl}: {view.phase}",
        f"{counts.pages:,} pages",
        f"{per_s:.1f}/s",
        f"{view.written:,} records",
        f"{sum(view.queue.values()):,} queued",
        f"{sum(counts.failed.values()):,} failed",
    ]
    if view.next_due_s is not None:
        parts.append(f"next retry in {max(0.0, view.next_due_s):.0f} s")
    return ", ".join(parts)


def panel(view: View, per_s: float) -> Group:
    """A moment as a panel."""
    counts = view.counts
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right")
    table.add_column()
    # Text, not markup: a note printed without markup draws the panel without it, too.
    of = f" of {view.budget:,}" if view.budget else ""
    pages = Text.assemble((f"{counts.pages:,}", "bold"), of)
    table.add_row("pages", pages + Text(f"   {per_s:.1f}/s   {duration(view.elapsed_s)}"))
    table.add_row("records", f"{view.written:,}")
    queue = "   ".join(f"{topic} {count:,}" for topic, count in view.queue.items())
    table.add_row("queue", queue or "empty")
    failed, noted = sum(counts.failed.values()), sum(counts.disregarded.values())
    table.add_row(
        "errors",
        Text.assemble(
            (f"{failed:,} failed", "red" if failed else "dim"),
            f"   {counts.retries:,} retries   {noted:,} disregarded",
        ),
    )
    if view.next_due_s is not None:
        table.add_row("next retry", f"in {duration(max(0.0, view.next_due_s))}")
    title = Text.assemble((f"crawl {view.crawl}", "bold"), f"  {view.phase}")
    if view.budget:
        done = min(counts.pages, view.budget)
        return Group(title, ProgressBar(total=view.budget, completed=done, width=60), table)
    return Group(title, table)
