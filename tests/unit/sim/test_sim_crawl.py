"""The whole pipeline on fakes, under faults: nothing lost, nothing twice; and each protection
switched off, so that the oracle objects: it can fail.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.sim.crawl import ROLES, Crawl, Fault, Verdict, random_faults
from tests.unit.sim.protections import Protections
from tests.unit.sim.web import make_web

HUNDREDTHS = st.integers(0, 99).map(lambda number: number / 100)
FAULTS = st.builds(
    Fault,
    at=st.integers(5, 200).map(lambda number: number / 10),
    kind=st.sampled_from(["kill", "stop", "term", "wipe", "broker"]),
    role=st.sampled_from(ROLES),
    number=st.integers(0, 1),
    seconds=st.integers(1, 15).map(float),
)


def crawl(seed: int, urls: int, faults: int, protections: Protections | None = None) -> Verdict:
    web, seeds = make_web(seed, urls, hosts=9)
    rng = random.Random(seed)
    delays = [rng.random() for _ in range(9_973)]
    made = Crawl(web, seeds, delays, protections=protections)
    return made.run(random_faults(rng, faults, within_s=16.0))


def test_a_crawl_without_faults_fetches_each_url_as_often_as_planned() -> None:
    verdict = crawl(1, 400, 0)
    assert verdict.sound
    assert (verdict.refetches, verdict.allowance) == (0, 0)


@given(
    seed=st.integers(0, 50),
    faults=st.lists(FAULTS, min_size=1, max_size=5),
    delays=st.lists(HUNDREDTHS, min_size=3, max_size=40),
)
@settings(
    max_examples=12,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_no_interleaving_of_faults_loses_or_repeats(
    seed: int, faults: list[Fault], delays: list[float]
) -> None:
    web, seeds = make_web(seed, 50, hosts=5)
    verdict = Crawl(web, seeds, delays, partitions=2).run(faults)
    assert verdict.sound, verdict


def test_rows_before_requests_are_safe_with_the_first_sighting_rule() -> None:
    for seed in SEEDS:
        verdict = crawl(seed, 150, 8, Protections(rows_first=True))
        assert not verdict.lost, verdict


SEEDS = range(2, 8)
OFF = {
    "first_sighting": {"rows_first": True, "first_sighting": False},
    "ordered_acks": {"ordered_acks": False},
    "prefix_commit": {"prefix_commit": False},
    "await_before_complete": {"await_before_complete": False},
    "epoch_fencing": {"epoch_fencing": False},
    "lease": {"lease": False},
    "completed_beyond": {"completed_beyond": False},
    "whole_recovery": {"whole_recovery": False},
}


@pytest.mark.parametrize("name", OFF)
def test_without_any_one_protection_the_oracle_objects(name: str) -> None:
    """Some seed shows it, and that seed is sound with the protection on."""
    broken = Protections(**OFF[name])
    for seed in SEEDS:
        if not crawl(seed, 150, 8, broken).sound:
            assert crawl(seed, 150, 8, broken._replace(**{name: True})).sound
            return
    pytest.fail(f"{name} makes no difference")
