"""The frontier window: order, fairness, caps, deferral."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from fetchers.policy import breaker
from fetchers.policy.window import Deferral, Host, Window
from schemas.reasons import Reason
from schemas.topics import RETRY_TIERS_S


def _window(per_address: int = 64) -> Window[str]:
    return Window(tiers_s=RETRY_TIERS_S, per_address=per_address)


def _host(window: Window[str], key: str, delay_s: float = 1.0, parallel: int = 1) -> Host[str]:
    host = window.host(key, 0)
    host.delay_s = host.setting_s = delay_s
    host.parallel = parallel
    return host


def _begin(window: Window[str], now: float) -> list[str]:
    """Begin all that may be begun at an instant."""
    begun = []
    while popped := window.pop(now):
        window.begin(popped[0], now=now, jitter=0.0)
        begun.append(popped[1])
    return begun


def test_a_host_is_asked_one_at_a_time_and_one_delay_apart() -> None:
    window = _window()
    host = _host(window, "h")
    for item in "abc":
        window.add(host, item, priority=0, now=0.0)
    assert _begin(window, 0.0) == ["a"]
    assert _begin(window, 5.0) == []
    window.release(host, address_held="", now=0.2)
    assert window.next_due() == 1.0
    assert _begin(window, 0.99) == []
    assert _begin(window, 1.0) == ["b"]


def test_ready_hosts_take_turns() -> None:
    window = _window()
    hosts = [_host(window, f"h{number}", 0.0) for number in range(3)]
    for turn in range(4):
        for host in hosts:
            window.add(host, f"{host.key}.{turn}", priority=0, now=0.0)
    order = []
    for _ in range(12):
        popped = window.pop(0.0)
        assert popped is not None
        order.append(popped[1][:2])
        window.begin(popped[0], now=0.0, jitter=0.0)
        window.release(popped[0], address_held="", now=0.0)
    assert order == ["h0", "h1", "h2"] * 4


def test_priority_within_a_host_then_order() -> None:
    window = _window()
    host = _host(window, "h", 0.0, parallel=9)
    for item, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        window.add(host, item, priority=priority, now=0.0)
    assert _begin(window, 0.0) == ["b", "d", "a", "c"]


def test_what_is_put_back_comes_first_again() -> None:
    window = _window()
    host = _host(window, "h", 0.0)
    for item in "ab":
        window.add(host, item, priority=0, now=0.0)
    popped = window.pop(0.0)
    assert popped is not None
    window.put_back(host, popped[1], priority=0, now=0.0)
    window.release(host, address_held="", now=0.0)
    assert _begin(window, 0.0) == ["a"]


def test_parallel_requests_of_a_host() -> None:
    window = _window()
    host = _host(window, "h", 0.0, parallel=3)
    for item in "abcde":
        window.add(host, item, priority=0, now=0.0)
    assert _begin(window, 0.0) == ["a", "b", "c"]
    window.release(host, address_held="", now=0.0)
    assert _begin(window, 0.0) == ["d"]


def test_a_gated_host_waits_for_its_robots() -> None:
    window = _window()
    host = _host(window, "h", 0.0, parallel=3)
    window.add(host, "a", priority=0, now=0.0)
    host.gated = True
    assert _begin(window, 0.0) == []
    window.ungate(host, 0.0)
    assert _begin(window, 0.0) == ["a"]


def test_the_cap_of_an_address_is_shared_by_its_hosts() -> None:
    window = _window(per_address=2)
    for number in range(4):
        host = _host(window, f"h{number}")
        host.address = "192.0.2.1"
        window.add(host, host.key, priority=0, now=0.0)
    first = [window.pop(0.0), window.pop(0.0)]
    assert window.pop(0.0) is None
    assert first[0] is not None
    window.release(first[0][0], address_held=first[0][2], now=0.0)
    third = window.pop(0.0)
    assert third is not None
    assert third[1] == "h2"
    assert window.pop(0.0) is None


def test_an_address_learned_late_is_counted_too() -> None:
    window = _window(per_address=1)
    one, two = _host(window, "one"), _host(window, "two")
    window.add(one, "a", priority=0, now=0.0)
    window.add(two, "b", priority=0, now=0.0)
    popped = window.pop(0.0)
    assert popped is not None
    assert popped[2] == ""
    held = window.hold_address(one, "192.0.2.1")
    two.address = "192.0.2.1"
    assert window.pop(0.0) is None
    window.release(one, address_held=held, now=0.0)
    assert _begin(window, 0.0) == ["b"]


def test_a_half_open_breaker_lets_one_through() -> None:
    window = _window()
    host = _host(window, "h", 0.0, parallel=4)
    for _ in range(breaker.THRESHOLD):
        host.breaker = breaker.failed(host.breaker, Reason.CONNECT, now=0.0, jitter=0.0)
    for item in "abc":
        window.add(host, item, priority=0, now=0.0)
    assert _begin(window, 59.0) == []
    assert _begin(window, 60.0) == ["a"]
    host.breaker = breaker.answered(host.breaker)
    window.release(host, address_held="", now=61.0)
    assert _begin(window, 61.0) == ["b", "c"]


# Deferral.


def _place(
    window: Window[str], host: Host[str], count: int, *, fullness: float, returned: bool = False
) -> list[Deferral]:
    deferred = []
    for number in range(count):
        deferral = window.place(host, now=0.0, fullness=fullness, returned=returned)
        if deferral is None:
            window.add(host, str(number), priority=0, now=0.0)
        else:
            deferred.append(deferral)
    return deferred


def test_the_excess_gets_slots_one_delay_apart_in_the_matching_tier() -> None:
    window = _window()
    host = _host(window, "h")
    deferred = _place(window, host, 1_000, fullness=1.0)
    assert len(host.queue) == 31
    waits = [deferral.wait_s for deferral in deferred]
    assert {round(after - before, 6) for before, after in itertools.pairwise(waits)} == {1.0}
    assert all(
        RETRY_TIERS_S[deferral.tier] >= deferral.wait_s
        and (deferral.tier == 0 or RETRY_TIERS_S[deferral.tier - 1] < deferral.wait_s)
        for deferral in deferred
    )


def test_an_empty_window_holds_more_of_one_host() -> None:
    assert len(_place(_window(), _host(_window(), "h"), 500, fullness=0.0)) == 0


def test_what_was_queued_and_comes_again_after_an_assignment_gets_its_place_back() -> None:
    window = _window()
    host = _host(window, "h")
    deferred = _place(window, host, 1_000, fullness=1.0)
    queued = window.discard(lambda _: True)
    assert queued == 1_000 - len(deferred)
    window.reassigned({0}, 0.0)
    assert host.pace.next_at == 1.0
    assert _place(window, host, queued - 1, fullness=1.0) == []


def test_no_delay_means_no_deferral() -> None:
    window = _window()
    host = _host(window, "h", 0.0)
    host.took(0.02)
    assert _place(window, host, 20_000, fullness=1.0) == []


def test_a_slow_host_without_delay_is_deferred_too() -> None:
    window = _window()
    host = _host(window, "h", 0.0)
    host.took(5.0)
    assert len(_place(window, host, 100, fullness=1.0)) > 80


def test_an_idle_host_takes_a_new_request_whatever_is_deferred() -> None:
    window = _window()
    host = _host(window, "h")
    host.virtual_at = 10_000.0
    assert window.place(host, now=0.0, fullness=1.0, returned=False) is None


def test_a_request_with_priority_does_not_wait_behind_the_deferred() -> None:
    window = _window()
    host = _host(window, "h")
    window.add(host, "a", priority=0, now=0.0)
    host.virtual_at = 10_000.0
    assert window.place(host, now=0.0, fullness=0.5, returned=False) is not None
    assert window.place(host, now=0.0, fullness=0.5, returned=False, priority=1) is None


def test_slots_of_a_blocked_host_begin_after_the_block() -> None:
    window = _window()
    host = _host(window, "h")
    host.pace = host.pace._replace(next_at=700.0)
    first, second = window.defer(host, now=0.0), window.defer(host, now=0.0)
    assert (first.wait_s, second.wait_s) == (700.0, 701.0)


def test_a_wait_beyond_the_last_tier_is_cut_to_it() -> None:
    window = _window()
    host = _host(window, "h", 60.0)
    host.virtual_at = 1e6
    assert window.defer(host, now=0.0) == (4, RETRY_TIERS_S[-1])


# Keeping house.


def test_discard_and_drain_keep_count() -> None:
    window = _window()
    host = _host(window, "h", 0.0)
    for number in range(10):
        window.add(host, str(number), priority=number % 2, now=0.0)
    assert window.discard(lambda item: int(item) < 4) == 4
    assert window.size == 6
    assert window.drain(host) == ["5", "7", "9", "4", "6", "8"]
    assert window.size == 0
    assert _begin(window, 0.0) == []


def test_idle_hosts_are_forgotten_and_busy_ones_are_not() -> None:
    window = _window()
    for key in ("idle", "queued", "deferred"):
        _host(window, key)
    window.add(window.hosts["queued"], "a", priority=0, now=0.0)
    window.hosts["deferred"].virtual_at = 5_000.0
    assert window.forget_idle(1_000.0) == 1
    assert set(window.hosts) == {"queued", "deferred"}


def test_eligible_backlog_is_what_politeness_allows() -> None:
    window = _window()
    slow, fast = _host(window, "slow", 10.0), _host(window, "fast", 0.0)
    for number in range(50):
        window.add(slow, str(number), priority=0, now=0.0)
        window.add(fast, str(number), priority=0, now=0.0)
    assert window.eligible(0.0, 60.0) == 7 + 50


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=60),
    st.floats(0, 2),
    st.integers(1, 3),
)
def test_no_order_of_events_breaks_the_delay_or_loses_an_item(
    events: list[tuple[int, int]], delay_s: float, parallel: int
) -> None:
    window = _window(per_address=2)
    added = Counter[str]()
    begun = Counter[str]()
    last: dict[str, float] = {}
    running: list[tuple[Host[str], str]] = []
    now = 0.0

    def step() -> None:
        while popped := window.pop(now):
            host, item, held = popped
            assert now - last.get(host.key, -10.0) >= delay_s - 1e-9
            last[host.key] = now
            window.begin(host, now=now, jitter=0.5)
            begun[item] += 1
            running.append((host, held))
            assert Counter(h.key for h, _ in running)[host.key] <= parallel

    for number, (which, what) in enumerate(events):
        host = _host(window, f"h{which}", delay_s, parallel)
        host.address = f"a{which % 2}"
        window.add(host, f"{which}-{number}", priority=what % 2, now=now)
        added[f"{which}-{number}"] += 1
        step()
        if what == 3 and running:
            ended, held = running.pop(0)
            window.release(ended, address_held=held, now=now)
        now += what * 0.3
    for _ in range(1_000):
        step()
        while running:
            ended, held = running.pop()
            window.release(ended, address_held=held, now=now)
        due = window.next_due()
        if due is None:
            break
        now = max(now, due)
    assert begun == added
    assert window.size == 0
