"""Quiescence: never drained too early, patient with retries, patient without end with turns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations
from typing import Any

import pytest

from schemas import codec
from schemas.topics import FETCH_REQUESTS, FETCH_RESULTS, RETRY_TIERS, URLS
from streams.kafka.messages import Source
from streams.standing.drain import (
    CONSUMED,
    Reading,
    Standing,
    Waiting,
    decide,
    pending,
    summarise,
    waits_its_turn,
)

NOW = 1_000_000_000
TIER = Source(RETRY_TIERS[1], 0)
ALL = {Source(topic, 0): 5 for topics in CONSUMED.values() for topic in topics}


def reading(**over: Any) -> Reading:
    base = Reading(
        starts=dict.fromkeys(ALL, 0),
        committed=dict(ALL),
        ends=dict(ALL),
        waiting={},
        at=NOW,
    )
    return base._replace(**over)


def request(**over: Any) -> bytes:
    return codec.encode(
        "fetch-request",
        {
            "crawl": "c",
            "url_id": bytes(16),
            "url": "http://a.example/",
            "host": "a.example",
            "depth": 0,
            "scope_host": "a.example",
            "via": "seed",
            "referrer": "",
            "redirects": [],
            "seeded_at": 0,
            "discovered_at": 0,
            "priority": 0,
            "attempt": 2,
            "first_attempt_at": 1,
            "not_before": NOW,
            "deferrals": 0,
            "first_reason": "http_503",
            "last_reason": "http_503",
            "last_detail": "",
            "etag": "",
            "last_modified": "",
            "replays": 0,
            "lastmod_at": None,
        }
        | over,
    )


def test_everything_committed_is_drained() -> None:
    drained = Standing(drained=True, backlog={}, later=0, next_due_at=None)
    assert decide(reading(), patience_s=120) == drained


def test_an_empty_deployment_is_drained_without_any_commit() -> None:
    empty = dict.fromkeys(ALL, 0)
    found = decide(reading(ends=empty, committed={}), patience_s=120)
    assert found.drained


@pytest.mark.parametrize("topic", [URLS, FETCH_REQUESTS, FETCH_RESULTS])
def test_one_message_not_committed_keeps_it_alive(topic: str) -> None:
    source = Source(topic, 0)
    found = decide(reading(committed=ALL | {source: 4}), patience_s=0)
    assert (found.drained, found.backlog) == (False, {topic: 1})


@pytest.mark.parametrize("topic", sorted(topic for topics in CONSUMED.values() for topic in topics))
def test_a_missing_commit_counts_from_the_start_of_the_log(topic: str) -> None:
    source = Source(topic, 0)
    rest = {other: offset for other, offset in ALL.items() if other != source}
    found = decide(reading(committed=rest), patience_s=0)
    assert (found.drained, found.backlog) == (False, {topic: 5})
    late = decide(reading(committed=rest, starts={source: 3}), patience_s=0)
    assert late.backlog == {topic: 2}


def test_a_commit_below_the_start_counts_from_the_start() -> None:
    source = Source(URLS, 0)
    found = pending(reading(committed=ALL | {source: 1}, starts={source: 4}))
    assert found == {source: 1}
    assert pending(reading(committed=ALL | {source: 1}, starts={source: 5})) == {}


@pytest.mark.parametrize(
    ("due_in_s", "patience_s", "drained"),
    [
        (0, 0, False),
        (-5, 0, False),
        (1, 0, True),
        (119, 120, False),
        (120, 120, False),
        (121, 120, True),
    ],
)
def test_patience_decides_about_retries(due_in_s: int, patience_s: float, drained: bool) -> None:
    waiting = {TIER: Waiting(NOW + due_in_s * 1000, 0)}
    found = decide(reading(committed=ALL | {TIER: 2}, waiting=waiting), patience_s=patience_s)
    assert found.drained is drained
    assert found.later == (3 if drained else 0)
    assert found.next_due_at == NOW + due_in_s * 1000


def test_a_tier_that_was_not_looked_at_keeps_it_alive() -> None:
    assert not decide(reading(committed=ALL | {TIER: 2}), patience_s=0).drained


def test_a_url_that_waits_for_its_turn_keeps_it_alive_without_end() -> None:
    waiting = {TIER: Waiting(NOW + 3_600_000, 1)}
    late = reading(committed=ALL | {TIER: 2}, waiting=waiting)
    assert not decide(late, patience_s=1).drained
    assert decide(late, patience_s=1, spent=True).drained


def test_a_spent_budget_waits_only_for_what_may_be_in_flight() -> None:
    soon = reading(committed=ALL | {TIER: 2}, waiting={TIER: Waiting(NOW + 1, 0)})
    due = reading(committed=ALL | {TIER: 2}, waiting={TIER: Waiting(NOW, 0)})
    assert decide(soon, patience_s=120, spent=True).drained
    assert not decide(due, patience_s=120, spent=True).drained


def test_summarise_takes_the_earliest_and_counts_turns() -> None:
    retry = request(not_before=NOW + 9_000)
    turn = request(
        not_before=NOW + 5_000,
        attempt=1,
        deferrals=1,
        first_reason="",
        last_reason="",
        first_attempt_at=0,
    )
    assert summarise([retry, turn, retry]) == Waiting(NOW + 5_000, 1)


@pytest.mark.parametrize("values", [[], [None], [b"junk"], [request(), b"\xc3\x01junk"]])
def test_what_cannot_be_read_is_due_at_once(values: list[bytes | None]) -> None:
    assert summarise(values).first_due_at == 0


@pytest.mark.parametrize(
    ("over", "turn"),
    [
        ({"attempt": 1, "deferrals": 1, "first_reason": "", "last_reason": ""}, True),
        ({"attempt": 2, "deferrals": 3}, False),
        ({"attempt": 1, "deferrals": 0, "first_reason": "", "last_reason": ""}, False),
        (
            {"attempt": 1, "deferrals": 2, "first_reason": "", "last_reason": "host_unavailable"},
            False,
        ),
    ],
)
def test_only_untried_deferrals_wait_for_their_turn(over: dict[str, Any], turn: bool) -> None:
    assert waits_its_turn(codec.decode("fetch-request", request(**over))) is turn


ORDER = (URLS, FETCH_REQUESTS, FETCH_RESULTS)


def histories() -> Iterator[list[tuple[dict[str, int], dict[str, int]]]]:
    """Ends and commits, moment by moment, of a seed that leads to one more URL.

    Each stage processes its message, which appends the output, and commits it: at once, or only
    when the following stages are done.
    """
    works = [(topic, "work") for topic in ORDER * 2]
    for late in (0, 1, 3):
        steps: list[tuple[str, str]] = []
        for number, (topic, _) in enumerate(works):
            steps.append((topic, "work"))
            if number >= late:
                steps.append((works[number - late][0], "commit"))
        steps += [(topic, "commit") for topic in ORDER]
        ends = {URLS: 1, FETCH_REQUESTS: 0, FETCH_RESULTS: 0}
        done, committed = dict.fromkeys(ORDER, 0), dict.fromkeys(ORDER, 0)
        history = [(dict(ends), dict(committed))]
        for topic, what in steps:
            if what == "commit":
                committed[topic] = done[topic]
            else:
                done[topic] += 1
                following = ORDER[(ORDER.index(topic) + 1) % 3]
                if ends[URLS] < 2 or following != URLS:
                    ends[following] += 1
            history.append((dict(ends), dict(committed)))
        yield history


@pytest.mark.parametrize("order", list(permutations(ORDER)))
def test_never_drained_while_a_message_is_unprocessed(order: tuple[str, ...]) -> None:
    """Every choice of moments for the looks at the commits, then at the ends."""
    drained = 0
    for history in histories():
        last = len(history) - 1
        for looks in combinations_with_replacement(range(0, last + 1, 2), 4):
            found = Reading(
                starts={},
                committed={
                    Source(topic, 0): history[at][1][topic]
                    for topic, at in zip(order, looks[:3], strict=True)
                },
                ends={Source(topic, 0): history[looks[3]][0][topic] for topic in ORDER},
                waiting={},
                at=NOW,
            )
            if decide(found, patience_s=0).drained:
                drained += 1
                ends, committed = history[looks[2]]
                assert ends == committed, "a message was not committed"
                assert history[-1][0] == ends, "something was produced after all"
    assert drained > 0


def test_ends_before_commits_would_not_do() -> None:
    """The fault that the order of the looks rules out, as one history."""
    # The only URL is processed and committed between the looks; its request is not yet seen.
    ends_first = {Source(URLS, 0): 1, Source(FETCH_REQUESTS, 0): 0}
    commits_later = {Source(URLS, 0): 1}
    wrong = Reading({}, commits_later, ends_first, {}, NOW)
    assert decide(wrong, patience_s=0).drained
    right = Reading({}, commits_later, {**ends_first, Source(FETCH_REQUESTS, 0): 1}, {}, NOW)
    assert not decide(right, patience_s=0).drained
