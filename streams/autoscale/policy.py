"""The autoscaler's rule: `(state, reading) -> (state, decision)`, with no clock of its own.

The need of a stage, in workers, is the sum over its partitions of

    min(1, (arrival + eligible / drain_target_s) / (utilisation x rate))

where `rate` is what one worker does when it never runs dry. The minimum is there because one
partition can keep only one worker busy: the rest of a hot partition's need cannot be bought.

The size follows the need under four restraints, since each change stops the whole group for a
rebalance: evidence over a whole window (up: the least need seen, down: the greatest), a tolerance
around the present size, a step that is interpolated between nothing and the whole way by how far
off the size is, and a cooldown until the group has settled. Sizes that leave partitions uneven
are moved to an even neighbour where that costs little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from streams.autoscale.model import Decision, Need, Probe, Reading, Rules, State, Work

_EPSILON = 1e-9
_FULL = 0.9
"""Share of its rate up to which a worker may be planned rather than divide unevenly."""


def decide(rules: Rules, state: State, reading: Reading) -> tuple[State, Decision]:
    """The next size of a group and the state to pass with the next reading."""
    unknown = _unknown(rules, reading)
    if unknown or reading.workers is None:
        return replace(state, last=None), _hold(reading, None, None, unknown)
    workers = reading.workers
    if workers == 0:
        paused = ("scaled to 0 by hand: left alone",)
        return replace(state, last=None, needs=()), _hold(reading, None, None, paused)
    state = _settle(rules, state, reading)
    state = _learn(rules, state, reading, workers)
    rate = state.rate or rules.assumed_rate
    need = need_of(rules, reading.work, rate)
    state = replace(state, last=reading)
    low, high = _limits(rules, reading)
    if not low <= workers <= high:
        target = min(max(workers, low), high)
        return _change(rules, state, reading, target, need, (f"limits are {low} to {high}",))
    if reading.at < state.quiet_until:
        why = "rebalancing" if reading.rebalancing else "the group has just changed"
        return state, _hold(reading, need, rate, (f"settling: {why}",))
    state = replace(state, needs=_evidence(rules, state, reading.at, need))
    target, reasons = _target(rules, state, reading, workers, need, low)
    clamped = min(max(target, low), high)
    if clamped != target:
        reasons = (*reasons, f"kept to {clamped} by the limits {low} to {high}")
    if clamped == workers:
        return state, _hold(reading, need, rate, reasons)
    return _change(rules, state, reading, clamped, need, reasons)


def need_of(rules: Rules, work: Iterable[Work], rate: float) -> float:
    """Workers that the work calls for, as a fraction."""
    planned = rules.utilisation * rate
    return sum(
        min(1.0, (item.arrival_per_s + item.eligible / rules.drain_target_s) / planned)
        for item in work
    )


def passing(rules: Rules, reading: Reading, workers: int, rate: float) -> bool:
    """Whether the backlog is gone within three rebalances: no reason to pay for one."""
    eligible = sum(item.eligible for item in reading.work)
    return eligible <= 3 * rules.rebalance_s * rate * workers


def effective(partitions: int, workers: int) -> float:
    """Workers' worth of a size: the busiest has a whole number of partitions.

    Example:
        >>> effective(12, 7), effective(12, 6), effective(12, 4)
        (6.0, 6.0, 4.0)
    """
    return partitions / math.ceil(partitions / workers)


def fit(rules: Rules, partitions: int, need: float) -> int:
    """The size for a need, with partitions divided evenly where that costs little.

    The least size that is worth the need, when it is at most `even_cost` above it. Otherwise the
    next smaller even size, when its workers would still be busy for less than 90 % of the time.
    Never decreases when the need grows.
    """
    need = min(max(need, 1.0), float(partitions))
    share = math.floor(partitions / need + _EPSILON)
    enough = math.ceil(partitions / share)
    if enough <= math.ceil(need - _EPSILON) * (1 + rules.even_cost):
        return enough
    fewer = math.ceil(partitions / (share + 1))
    if need * rules.utilisation <= _FULL * effective(partitions, fewer):
        return fewer
    return enough


def busy_workers(partitions: int, busy_partitions: int, workers: int) -> float:
    """Expected number of workers that hold at least one of the busy partitions."""
    if busy_partitions <= 0 or partitions <= 0:
        return 0.0
    idle = 1 - busy_partitions / partitions
    return max(1.0, workers * float(1 - idle ** (partitions / workers)))


def _unknown(rules: Rules, reading: Reading) -> tuple[str, ...]:
    reasons = list(reading.unknown)
    if reading.workers is None and not reasons:
        reasons.append("the back end does not say how many workers there are")
    age = reading.at - reading.read_at
    if age > rules.stale_after_s:
        reasons.append(f"inputs are {age:.0f} s old")
    if not reading.work and not reasons:
        reasons.append("no partitions")
    return tuple(reasons)


def _settle(rules: Rules, state: State, reading: Reading) -> State:
    """Note a rebalance: evidence gathered across one counts for nothing."""
    before = state.last
    moved = before is not None and (
        before.members != reading.members or before.workers != reading.workers
    )
    if reading.rebalancing or moved:
        quiet_until = max(state.quiet_until, reading.at + rules.cooldown_s)
        return replace(state, needs=(), quiet_until=quiet_until)
    return state


def _learn(rules: Rules, state: State, reading: Reading, workers: int) -> State:
    """Update the measured rate from an interval in which workers never ran dry."""
    before = state.last
    if before is None or reading.rebalancing or reading.at <= before.at:
        return state
    if reading.at < state.quiet_until or len(before.work) != len(reading.work):
        return state
    span = reading.at - before.at
    wet = [
        now.served_per_s
        for was, now in zip(before.work, reading.work, strict=True)
        if now.served_per_s > 0 and now.eligible > 0 and was.eligible >= now.served_per_s * span
    ]
    if not wet:
        return state
    present = min(workers, reading.members or workers)
    served = sum(item.served_per_s for item in reading.work)
    if reading.saturated is False:
        least = served / present
    elif busy_workers(len(reading.work), len(wet), present) >= 0.8 * present:
        sample = served / present
        rate = sample if state.rate is None else 0.7 * state.rate + 0.3 * sample
        return _judge(rules, replace(state, rate=rate), reading, workers, served)
    else:
        # Few partitions have work: their workers may have served others too.
        least = max(wet)
    # What was served is no more than a lower bound of what a worker can do.
    if state.rate is not None and least > state.rate:
        return replace(state, rate=0.7 * state.rate + 0.3 * least)
    if state.rate is None and least > rules.assumed_rate:
        return replace(state, rate=least)
    return state


def _judge(rules: Rules, state: State, reading: Reading, workers: int, served: float) -> State:
    """Was the last growth of use? More workers on a full machine only share it differently."""
    probe = state.probe
    if probe is None or workers <= probe.workers:
        return state
    hoped = 1 + 0.2 * (workers / probe.workers - 1)
    if served < probe.served_per_s * hoped:
        until = reading.at + rules.futile_s
        return replace(state, probe=None, ceiling=workers, ceiling_until=until)
    return replace(state, probe=None)


def _limits(rules: Rules, reading: Reading) -> tuple[int, int]:
    high = min(rules.max_workers, len(reading.work))
    return min(rules.min_workers, high), high


def _evidence(rules: Rules, state: State, at: float, need: float) -> tuple[Need, ...]:
    """The needs of the longer window, and the last one before it so that it is covered."""
    continuous = state.needs and at - state.needs[-1].at <= rules.stale_after_s
    needs = (*(state.needs if continuous else ()), Need(at, need))
    start = at - max(rules.up_window_s, rules.down_window_s)
    first = 0
    while first + 1 < len(needs) and needs[first + 1].at <= start:
        first += 1
    return needs[first:]


def _window(needs: Sequence[Need], at: float, window_s: float) -> list[float] | None:
    """Needs within the window; None when the evidence does not reach back that far."""
    if not needs or needs[0].at > at - window_s:
        return None
    return [item.workers for item in needs if item.at >= at - window_s]


def _target(
    rules: Rules, state: State, reading: Reading, workers: int, need: float, low: int
) -> tuple[int, tuple[str, ...]]:
    partitions = len(reading.work)
    if need > effective(partitions, workers) * (1 + rules.tolerance):
        return _growth(rules, state, reading, workers, need)
    if max(low, fit(rules, partitions, need * (1 + rules.tolerance))) < workers:
        return _shrinkage(rules, state, reading, workers, need, low)
    return workers, (f"need {need:.2f} fits", *_politeness(reading))


def _shrinkage(
    rules: Rules, state: State, reading: Reading, workers: int, need: float, low: int
) -> tuple[int, tuple[str, ...]]:
    window_s, partitions = rules.down_window_s, len(reading.work)
    seen = _window(state.needs, reading.at, window_s)
    if seen is None:
        return workers, (f"need {need:.2f}; lower for less than {window_s:.0f} s",)
    greatest = max(seen)
    spare = greatest * (1 + rules.tolerance)
    wanted = max(low, fit(rules, partitions, spare))
    if wanted >= workers:
        return workers, (f"need was {greatest:.2f} within {window_s:.0f} s",)
    rest = (workers - spare) * (1 - _fraction(workers / wanted, rules))
    step = max(wanted, fit(rules, partitions, spare + rest))
    target = step if step < workers else wanted
    return target, (f"need at most {greatest:.2f} for {window_s:.0f} s",)


def _growth(
    rules: Rules, state: State, reading: Reading, workers: int, need: float
) -> tuple[int, tuple[str, ...]]:
    at, partitions = reading.at, len(reading.work)
    present = effective(partitions, workers)
    seen = _window(state.needs, at, rules.up_window_s)
    if seen is None:
        return workers, (f"need {need:.2f}; higher for less than {rules.up_window_s:.0f} s",)
    least = min(seen)
    if least <= present * (1 + rules.tolerance):
        return workers, (f"need was {least:.2f} within {rules.up_window_s:.0f} s",)
    rate = state.rate or rules.assumed_rate
    arrivals = need_of(rules, (item._replace(eligible=0.0) for item in reading.work), rate)
    if arrivals <= present * (1 + rules.tolerance) and passing(rules, reading, workers, rate):
        return workers, (f"need {least:.2f}, but the backlog is gone within three rebalances",)
    if reading.saturated is False:
        return workers, (
            f"need {least:.2f}, but all that is due is in flight",
            *_politeness(reading),
        )
    members = reading.members
    if members is not None and members < workers:
        return workers, (f"need {least:.2f}, but only {members} of {workers} workers have joined",)
    if state.ceiling is not None and workers >= state.ceiling and at < state.ceiling_until:
        return workers, (f"need {least:.2f}, but the last growth did not raise the throughput",)
    part = _fraction(least / present, rules)
    target = fit(rules, partitions, present + (least - present) * part)
    if target <= workers:
        target = fit(rules, partitions, least)
    if target <= workers:
        return workers, (f"need {least:.2f}; no better even size is worth its cost",)
    return target, (f"need at least {least:.2f} for {rules.up_window_s:.0f} s",)


def _fraction(ratio: float, rules: Rules) -> float:
    """How much of the way to go: linear in the ratio, the whole way from `full_step`."""
    return min(1.0, max(0.0, (ratio - 1) / (rules.full_step - 1)))


def _politeness(reading: Reading) -> tuple[str, ...]:
    eligible = sum(item.eligible for item in reading.work)
    waiting = reading.lag - eligible
    if waiting > max(eligible, 1.0):
        return (f"{waiting:.0f} of {reading.lag} wait for politeness: no reason to scale",)
    return ()


def _hold(
    reading: Reading, need: float | None, rate: float | None, reasons: tuple[str, ...]
) -> Decision:
    eligible = sum(item.eligible for item in reading.work)
    capacity = (reading.workers or 0) * (rate or 0.0)
    return Decision(
        action="hold",
        workers=reading.workers,
        target=reading.workers,
        reasons=reasons,
        need=need,
        rate=rate,
        lag=reading.lag,
        eligible=eligible,
        arrival_per_s=sum(item.arrival_per_s for item in reading.work),
        served_per_s=sum(item.served_per_s for item in reading.work),
        drain_s=eligible / capacity if capacity > 0 else None,
    )


def _change(
    rules: Rules,
    state: State,
    reading: Reading,
    target: int,
    need: float,
    reasons: tuple[str, ...],
) -> tuple[State, Decision]:
    workers = reading.workers or 0
    rate = state.rate or rules.assumed_rate
    growing = target > workers
    probe = None
    if growing and state.rate is not None:
        probe = Probe(workers, state.rate * workers)
    decision = replace(
        _hold(reading, need, rate, reasons),
        action="grow" if growing else "shrink",
        target=target,
    )
    changed = replace(
        state, needs=(), quiet_until=reading.at + rules.cooldown_s, probe=probe, last=None
    )
    return changed, decision
