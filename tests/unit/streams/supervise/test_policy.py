"""When a worker is started again, and when not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.supervise.policy import (
    GiveUp,
    History,
    Restart,
    RestartPolicy,
    describe_end,
    on_end,
)

POLICY = RestartPolicy(base_s=1, cap_s=10, healthy_s=60, attempts=6)


def delays(uptimes: list[float], code: int = 1) -> list[float | None]:
    """Delay after each run, without jitter; None: given up."""
    history = History()
    found: list[float | None] = []
    for uptime_s in uptimes:
        history, decision = on_end(history, code, uptime_s, 0, POLICY)
        found.append(decision.after_s if isinstance(decision, Restart) else None)
    return found


def test_delays_double_up_to_the_cap_and_then_it_is_given_up() -> None:
    assert delays([0.1] * 7) == [1, 2, 4, 8, 10, 10, None]


def test_a_healthy_run_starts_the_count_anew() -> None:
    assert delays([0.1, 0.1, 60, 0.1]) == [1, 2, 1, 2]


def test_a_wrong_setting_is_not_tried_again() -> None:
    _, decision = on_end(History(), 2, 1000, 0, POLICY)
    assert isinstance(decision, GiveUp)
    assert "settings" in decision.reason


@pytest.mark.parametrize("code", [0, 1, 70, 75, -9, -15])
def test_any_other_end_is(code: int) -> None:
    assert delays([5], code) == [1]


def test_a_worker_that_crashes_once_a_minute_is_kept_for_ever() -> None:
    assert set(delays([61] * 1000)) == {1}


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0, 1e6), max_size=30),
    st.floats(0, 1),
    st.integers(-64, 255).filter(lambda code: code != 2),
)
def test_delays_are_bounded(uptimes: list[float], jitter: float, code: int) -> None:
    history = History()
    for uptime_s in uptimes:
        history, decision = on_end(history, code, uptime_s, jitter, POLICY)
        if isinstance(decision, Restart):
            assert POLICY.base_s <= decision.after_s <= POLICY.cap_s * 1.25
        else:
            assert history.failures > POLICY.attempts


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0 (stopped)"),
        (1, "exit code 1"),
        (2, "exit code 2 (settings or topics are wrong)"),
        (75, "exit code 75 (Kafka did not answer in time)"),
        (-9, "killed by SIGKILL"),
        (-99, "killed by signal 99"),
    ],
)
def test_ends_in_words(code: int, text: str) -> None:
    assert describe_end(code) == text
