"""What the rule takes, remembers and says. Times are seconds of one monotonic clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from streams.telemetry.targets import DRAIN_TARGET_S

Action = Literal["grow", "shrink", "hold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an operator chooses for one role."""

    min_workers: int = 1
    """Never fewer; at least 1: a group scaled to nothing has no one to notice work."""
    max_workers: int = 20
    """Never more; the number of partitions is the other bound."""
    drain_target_s: float = DRAIN_TARGET_S
    """Time in which the eligible backlog should be worked off."""
    utilisation: float = 0.75
    """Share of a worker's rate that is planned with; the rest absorbs peaks and rebalances."""
    assumed_rate: float = 50.0
    """Messages per second and worker until the first measurement."""
    up_window_s: float = 15.0
    """A need must have been higher for this long before the group grows."""
    down_window_s: float = 300.0
    """A need must have been lower for this long before the group shrinks."""
    cooldown_s: float = 20.0
    """Quiet time after a change or a rebalance, in which readings are not evidence."""
    rebalance_s: float = 10.0
    """What one rebalance costs. A backlog that is gone within three of them is left alone."""
    tolerance: float = 0.1
    """Needs within this share of the present size change nothing."""
    full_step: float = 2.0
    """Ratio of need to size (or size to need) from which the whole way is gone at once."""
    even_cost: float = 0.25
    """Extra workers, as a share, that an even division of the partitions may cost."""
    stale_after_s: float = 60.0
    """Inputs older than this are unknown, and a longer gap in the evidence ends it."""
    futile_s: float = 1800.0
    """How long a size that did not help is not exceeded."""

    def __post_init__(self) -> None:
        """Refuse values that make the rule meaningless. Raises ValueError."""
        if not 1 <= self.min_workers <= self.max_workers:
            raise ValueError("workers: 1 <= min <= max is needed")
        if self.drain_target_s <= 0 or self.assumed_rate <= 0 or self.full_step <= 1:
            raise ValueError("drain target and rate must be above 0, the full step above 1")
        if not 0 < self.utilisation <= 1:
            raise ValueError("utilisation must be in (0, 1]")


class Work(NamedTuple):
    """One partition's work."""

    eligible: float
    """Messages that could be worked on now or within the drain target."""
    arrival_per_s: float
    """Eligible messages that arrive per second."""
    served_per_s: float
    """Messages completed per second since the reading before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is known at an instant. Times are seconds of one monotonic clock."""

    at: float
    read_at: float
    """When the inputs were read; older than `at` when the source answered late or not at all."""
    workers: int | None
    """Size that the back end holds; None: unknown."""
    members: int | None = None
    """Workers that are in the consumer group; None: unknown, taken as `workers`."""
    rebalancing: bool = False
    lag: int = 0
    """Messages behind the committed offsets, whether eligible or not."""
    work: tuple[Work, ...] = ()
    """One entry per partition."""
    saturated: bool | None = None
    """Whether work that is due now waits for workers. None: whatever is eligible is due, so the
    rule judges by whether it ran dry. False also means that more workers would find nothing to
    do: what is eligible waits for politeness."""
    unknown: tuple[str, ...] = ()
    """Why inputs are missing; any entry holds the size."""


class Need(NamedTuple):
    """The need in workers at one instant."""

    at: float
    workers: float


class Probe(NamedTuple):
    """What a group served in all before it grew."""

    workers: int
    served_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the rule remembers of earlier readings."""

    needs: tuple[Need, ...] = ()
    """Evidence since the group last changed, oldest first."""
    quiet_until: float = -math.inf
    rate: float | None = None
    """Measured messages per second of a worker that never runs dry."""
    last: Reading | None = None
    probe: Probe | None = None
    ceiling: int | None = None
    ceiling_until: float = -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A size, with the figures that led to it. `target` None: the size is not known."""

    action: Action
    workers: int | None
    target: int | None
    reasons: tuple[str, ...]
    need: float | None = None
    rate: float | None = None
    lag: int = 0
    eligible: float = 0.0
    arrival_per_s: float = 0.0
    served_per_s: float = 0.0
    drain_s: float | None = None
    """Time the eligible backlog takes at the present size."""
