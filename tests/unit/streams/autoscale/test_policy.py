"""The autoscaler's rule: tables for each restraint, properties over arbitrary readings."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.autoscale.model import Decision, Reading, Rules, State, Work
from streams.autoscale.policy import busy_workers, decide, effective, fit, need_of

RULES = Rules(max_workers=24, assumed_rate=50.0)


def reading(
    at: float,
    workers: int | None = 3,
    *,
    partitions: int = 12,
    eligible: float = 0.0,
    arrival: float = 0.0,
    served: float = 0.0,
    members: int | None = None,
    rebalancing: bool = False,
    lag: int | None = None,
    saturated: bool | None = None,
    read_at: float | None = None,
) -> Reading:
    """Totals spread evenly over the partitions."""
    work = (Work(eligible / partitions, arrival / partitions, served / partitions),) * partitions
    return Reading(
        at=at,
        read_at=at if read_at is None else read_at,
        workers=workers,
        members=workers if members is None else members,
        rebalancing=rebalancing,
        lag=round(eligible) if lag is None else lag,
        work=work,
        saturated=saturated,
    )


def drive(rules: Rules, *readings: Reading, state: State | None = None) -> list[Decision]:
    """Decisions on readings, one after the other."""
    state = state or State()
    decisions = []
    for item in readings:
        state, decision = decide(rules, state, item)
        decisions.append(decision)
    return decisions


def steady(rules: Rules, seconds: float, workers: int, state: State, **kwargs: float) -> Decision:
    """The last decision after the same reading every 15 s."""
    at = 0.0
    while True:
        state, decision = decide(rules, state, reading(at, workers, **kwargs))  # type: ignore[arg-type]
        if decision.action != "hold" or at >= seconds:
            return decision
        at += 15


def test_the_need_is_the_formula_of_arrivals_and_backlog() -> None:
    item = reading(0, eligible=30_000, arrival=100)
    expected = (100 + 30_000 / RULES.drain_target_s) / (0.75 * 50)
    assert need_of(RULES, item.work, 50.0) == pytest.approx(expected)


def test_a_partition_counts_for_one_worker_at_most() -> None:
    work = (Work(1_000_000, 500, 0), *(Work(0, 1, 0),) * 11)
    assert need_of(RULES, work, 50.0) == pytest.approx(1 + 11 / 37.5)


def test_a_backlog_that_is_gone_within_three_rebalances_neither_grows_nor_shrinks() -> None:
    rules = replace(RULES, drain_target_s=20.0)
    # 3 workers at 50/s do 4,500 in 30 s.
    held = steady(rules, 600, 3, State(), eligible=4_000)
    assert held.action == "hold"
    assert held.need == pytest.approx(4_000 / 20 / 37.5)
    assert "within three rebalances" in held.reasons[0]
    assert steady(rules, 600, 3, State(), eligible=5_000).action == "grow"


class Division(NamedTuple):
    partitions: int
    need: float
    expected: int


@pytest.mark.parametrize(
    "case",
    [
        Division(12, 5, 6),  # 6 is 20 % more, and the busiest has 2 partitions instead of 3
        Division(12, 7, 6),  # 12 would be 71 % more; 6 workers are 87.5 % busy
        Division(12, 7.3, 12),  # 6 workers would be 91 % busy
        Division(12, 11, 12),
        Division(12, 12, 12),
        Division(12, 400, 12),
        Division(12, 4, 4),
        Division(12, 0, 1),
        Division(10, 4, 5),
        Division(96, 50, 48),
        Division(96, 40, 48),
        Division(1, 1, 1),
    ],
    ids=str,
)
def test_sizes_are_moved_to_an_even_neighbour_where_that_costs_little(case: Division) -> None:
    assert fit(RULES, case.partitions, case.need) == case.expected


def test_growth_waits_for_a_whole_window_of_evidence() -> None:
    first, second = drive(RULES, reading(0, eligible=90_000), reading(15, eligible=90_000))
    assert first.action == "hold"
    assert "higher for less than" in first.reasons[0]
    assert second.action == "grow"
    # 8 are needed and 12 are half as much again: the 6 would be wholly busy.
    assert second.target == 12


def test_one_high_reading_does_not_grow() -> None:
    decisions = drive(
        RULES,
        reading(0, arrival=60),
        reading(15, arrival=2_000),
        reading(30, arrival=60),
        reading(45, arrival=2_000),
    )
    assert [item.action for item in decisions] == ["hold"] * 4


def test_a_small_excess_is_tolerated_and_a_medium_one_goes_part_of_the_way() -> None:
    rules = Rules(max_workers=90, assumed_rate=50.0)
    capacity = 0.75 * 50
    assert steady(rules, 60, 40, State(), partitions=360, arrival=43 * capacity).action == "hold"
    some = steady(rules, 60, 40, State(), partitions=360, arrival=60 * capacity)
    assert (some.action, some.target) == ("grow", 52)
    full = steady(rules, 60, 40, State(), partitions=360, arrival=80 * capacity)
    assert (full.action, full.target) == ("grow", 90)


def test_shrinking_takes_the_greatest_need_of_its_window() -> None:
    state = State()
    decisions = []
    for step in range(30):
        high = step == 5
        item = reading(step * 15, 12, arrival=150 if high else 30)
        state, decision = decide(RULES, state, item)
        decisions.append(decision)
        if decision.action != "hold":
            break
    # The evidence reaches back far enough after 300 s. The peak of 4 workers, at 75 s, is within
    # it: with the tolerance 4.4, and 6 divides 12.
    assert len(decisions) - 1 == 300 / 15
    assert (decisions[-1].action, decisions[-1].target) == ("shrink", 6)


def test_after_a_change_nothing_happens_until_the_group_has_settled() -> None:
    state = State()
    for at in (0, 15):
        state, decision = decide(RULES, state, reading(at, 3, eligible=90_000))
    assert decision.action == "grow"
    seen = []
    for at in (30, 45, 60, 75):
        members = 3 if at < 60 else 12
        item = reading(at, 12, members=members, eligible=90_000, rebalancing=at == 60)
        state, decision = decide(RULES, state, item)
        seen.append((decision.action, decision.reasons[0].partition(":")[0]))
    assert seen == [("hold", "settling")] * 1 + [("hold", seen[1][1])] + [("hold", "settling")] * 2


def test_no_growth_while_workers_asked_for_have_not_joined() -> None:
    decision = steady(RULES, 120, 6, State(), members=4, eligible=400_000)
    assert decision.action == "hold"
    assert "only 4 of 6 workers have joined" in decision.reasons[0]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (reading(100, None, eligible=90_000), "does not say"),
        (reading(100, 3, eligible=90_000, read_at=30), "inputs are 70 s old"),
        (replace(reading(100, 3), work=()), "no partitions"),
        (replace(reading(100, 3), unknown=("Kafka is away",)), "Kafka is away"),
    ],
    ids=["size", "stale", "partitions", "said so"],
)
def test_what_is_unknown_holds_the_size_and_says_so(item: Reading, reason: str) -> None:
    state = State(rate=10.0)
    for at in (0.0, 15.0):
        state, _ = decide(RULES, state, reading(at, 3, arrival=60))
    after, decision = decide(RULES, state, item)
    assert decision.action == "hold"
    assert decision.target == item.workers
    assert reason in decision.reasons[0]
    assert after.rate == state.rate


def test_evidence_from_before_a_gap_does_not_count() -> None:
    state = State()
    for at in range(0, 300, 15):
        state, decision = decide(RULES, state, reading(at, 12, arrival=30))
        assert decision.action == "hold"
    dark = replace(reading(0, 12), unknown=("dark",))
    for at in range(300, 900, 15):
        state, _ = decide(RULES, state, replace(dark, at=at, read_at=at))
    _, decision = decide(RULES, state, reading(900, 12, arrival=30))
    assert decision.action == "hold"
    assert "lower for less than" in decision.reasons[0]


def test_a_group_scaled_to_nothing_by_hand_is_left_alone() -> None:
    decision = steady(RULES, 60, 0, State(), eligible=1_000_000)
    assert decision.action == "hold"
    assert "by hand" in decision.reasons[0]


def test_waiting_politely_is_no_reason_to_scale_and_the_log_says_so() -> None:
    rules = Rules(max_workers=20, assumed_rate=100.0)
    decision = steady(rules, 600, 1, State(), eligible=300, lag=1_000, saturated=False, served=1)
    assert decision.action == "hold"
    assert "700 of 1000 wait for politeness" in " ".join(decision.reasons)


def test_fetchers_that_have_all_that_is_due_in_flight_do_not_grow() -> None:
    # 60 hosts with 1 s delay on 12 partitions: 60/s whatever the number of fetchers.
    state = State()
    for at in range(0, 1_500, 15):
        item = reading(at, 1, eligible=18_000, lag=60_000, served=60, arrival=0, saturated=False)
        state, decision = decide(Rules(assumed_rate=20.0), state, item)
        assert decision.action == "hold"
    assert "all that is due is in flight" in decision.reasons[0] or "fits" in decision.reasons[0]


def test_the_rate_is_measured_only_while_workers_never_ran_dry() -> None:
    state = State()
    for at in (0.0, 15.0):
        state, _ = decide(RULES, state, reading(at, 3, eligible=50, arrival=30, served=30))
    assert state.rate is None
    for at in (30.0, 45.0):
        state, _ = decide(RULES, state, reading(at, 3, eligible=4_400, arrival=30, served=240))
    assert state.rate == pytest.approx(80.0)


def test_what_was_served_without_saturation_only_raises_the_rate() -> None:
    state = State(rate=50.0)
    for at in range(0, 600, 15):
        item = reading(at, 2, eligible=9_000, served=20, saturated=False, arrival=20)
        state, _ = decide(RULES, state, item)
    assert state.rate == 50.0
    for at in range(600, 1_200, 15):
        item = reading(at, 2, eligible=9_000, served=200, saturated=False, arrival=20)
        state, _ = decide(RULES, state, item)
    assert state.rate == pytest.approx(100.0, rel=0.01)


def test_growth_that_did_not_help_is_not_repeated() -> None:
    """Two cores: more workers serve no more than two, and the rule stops where it finds out."""
    state, workers = State(), 2
    sizes: list[int] = []
    reasons: list[str] = []
    for step in range(80):
        item = reading(step * 15, workers, eligible=50_000, arrival=60, served=100)
        state, decision = decide(RULES, state, item)
        workers = decision.target or workers
        sizes.append(workers)
        reasons.append(decision.reasons[0])
    assert set(sizes) == {2, 6}
    assert "did not raise the throughput" in reasons[-1]


def test_limits_are_restored_at_once() -> None:
    (above,) = drive(RULES, reading(0, 40, partitions=48))
    assert (above.action, above.target) == ("shrink", 24)
    (beyond,) = drive(RULES, reading(0, 14, partitions=12))
    assert (beyond.action, beyond.target) == ("shrink", 12)
    (below,) = drive(replace(RULES, min_workers=3), reading(0, 1))
    assert (below.action, below.target) == ("grow", 3)


@pytest.mark.parametrize(
    "values",
    [
        {"min_workers": 0},
        {"min_workers": 5, "max_workers": 4},
        {"utilisation": 0.0},
        {"utilisation": 1.5},
        {"drain_target_s": 0.0},
        {"full_step": 1.0},
    ],
    ids=str,
)
def test_rules_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"needed|must be"):
        Rules(**values)  # type: ignore[arg-type]


amounts = st.floats(0, 1e6, allow_nan=False)
works = st.lists(st.builds(Work, amounts, st.floats(0, 1e4), st.floats(0, 1e4)), max_size=24)
readings = st.builds(
    lambda work, workers, members, moving, saturated, lag: Reading(
        at=0.0,
        read_at=0.0,
        workers=workers,
        members=members,
        rebalancing=moving,
        lag=lag,
        work=tuple(work),
        saturated=saturated,
    ),
    works,
    st.none() | st.integers(0, 40),
    st.none() | st.integers(0, 40),
    st.booleans(),
    st.none() | st.booleans(),
    st.integers(0, 10**7),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(readings, min_size=1, max_size=12), st.integers(1, 5), st.integers(5, 30))
def test_any_readings_keep_the_promises(items: list[Reading], low: int, high: int) -> None:
    rules = Rules(min_workers=low, max_workers=high)
    state = State()
    for number, item in enumerate(items):
        at = number * 15.0
        state, decision = decide(rules, state, replace(item, at=at, read_at=at))
        assert decision.reasons
        if decision.action == "hold":
            assert decision.target == item.workers
            continue
        assert item.workers is not None
        assert item.workers > 0
        assert decision.target is not None
        assert 1 <= decision.target <= min(high, len(item.work))
        assert (decision.target > item.workers) == (decision.action == "grow")
        assert state.quiet_until >= at + rules.cooldown_s
        assert not state.needs


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0.1, 900),
    st.integers(1, 24),
    st.integers(0, 2**32),
)
def test_a_steady_load_with_noise_settles_and_stays(
    arrival: float, workers: int, seed: int
) -> None:
    """Whatever the first size, at most a few steps in one direction, then none: no oscillation."""
    state, sizes, noise = State(rate=50.0), [workers], random.Random(seed)
    for step in range(200):
        load = arrival * noise.uniform(0.95, 1.05)
        item = reading(step * 15, workers, partitions=24, arrival=load, served=load)
        state, decision = decide(RULES, state, item)
        if decision.target is not None and decision.target != workers:
            workers = decision.target
            sizes.append(workers)
    changes = [later - earlier for earlier, later in pairwise(sizes)]
    assert len(changes) <= 6
    assert all(item > 0 for item in changes) or all(item < 0 for item in changes)
    # The size carries the load.
    assert arrival <= 50 * effective(24, workers)


@settings(max_examples=25, deadline=None)
@given(
    st.floats(1, 6),
    st.floats(5, 200),
    st.floats(1.1, 8),
    st.integers(0, 2**32),
)
def test_workers_that_share_a_full_machine_are_not_added_for_ever(
    cores: float, rate: float, excess: float, seed: int
) -> None:
    """Each worker slows the others down, the backlog never ends, and the limit is far away."""
    rules = replace(RULES, max_workers=60, assumed_rate=50.0)
    state, workers, noise = State(), 1, random.Random(seed)
    sizes: list[int] = []
    for step in range(240):
        served = rate * min(workers, cores) * noise.uniform(0.97, 1.03)
        arrival = rate * cores * excess
        item = reading(
            step * 15, workers, partitions=60, eligible=5_000.0, arrival=arrival, served=served
        )
        state, decision = decide(rules, state, item)
        workers = decision.target or workers
        sizes.append(workers)
    # Once every half hour it may be tried again, since the machine may have less to do then.
    futile = [later for earlier, later in pairwise(sizes) if later > earlier >= cores]
    assert len(futile) <= 2 + 60 * 60 // rules.futile_s, sizes


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 500), st.floats(0, 600), st.floats(0, 100))
def test_the_size_for_a_need_is_worth_it_and_never_decreases(
    partitions: int, need: float, more: float
) -> None:
    size = fit(RULES, partitions, need)
    assert 1 <= size <= partitions
    assert min(need, partitions) * RULES.utilisation <= effective(
        partitions, size
    ) * 0.9 + 1e-6 or (size == partitions)
    assert fit(RULES, partitions, need + more) >= size


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(1, 50), st.integers(0, 200))
def test_busy_workers_are_bounded_and_grow(partitions: int, workers: int, busy: int) -> None:
    busy = min(busy, partitions)
    workers = min(workers, partitions)
    expected = busy_workers(partitions, busy, workers)
    assert 0 <= expected <= workers + 1e-9
    assert expected >= busy_workers(partitions, max(0, busy - 1), workers) - 1e-9
    if busy == partitions:
        assert expected == pytest.approx(workers)
