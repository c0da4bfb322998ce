"""What the pipeline aims at, where those who measure and those who act must mean the same."""

from __future__ import annotations

from typing import Final

DRAIN_TARGET_S: Final = 300.0
"""Time in which an eligible backlog should be worked off, unless an operator chooses another.
Fetchers count as eligible what politeness allows within it."""
