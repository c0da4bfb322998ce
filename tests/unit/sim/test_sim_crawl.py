"""The whole pipeline on fakes, under faults: nothing lost, nothing twice; and each protection
switched off, so that the oracle objects: it can fail.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.sim.crawl import ROLES, Crawl, Fault, Kind, Role, Verdict, random_faults
from tests.unit.sim.protections import Protections
from tests.unit.sim.web import make_web

HUNDREDTHS = st.integers(0, 99).map(lambda number: number / 100)
MOMENTS = st.integers(5, 200).map(lambda number: number / 10)
FAULTS = st.builds(
    Fault,
    at=MOMENTS,
    kind=st.sampled_from(["kill", "stop", "term", "wipe", "broker"]),
    role=st.sampled_from(ROLES),
    number=st.integers(0, 1),
    seconds=st.integers(1, 15).map(float),
)
STEPS = st.builds(
    Fault,
    at=MOMENTS,
    kind=st.just("clock"),
    role=st.sampled_from(ROLES),
    number=st.integers(0, 1),
    seconds=st.sampled_from([-7200.0, -20.0, 20.0, 7200.0]),
)


def crawl(
    seed: int,
    faults: Sequence[Fault],
    protections: Protections | None = None,
    more_links: int = 4,
    chains: int = 0,
) -> Verdict:
    """A crawl of 150 URLs, slow enough to be hit: some 10 s."""
    web, seeds = make_web(seed, 150, hosts=9, more_links=more_links, chains=chains)
    rng = random.Random(seed)
    delays = [rng.random() for _ in range(9_973)]
    made = Crawl(web, seeds, delays, protections=protections, fetch_limit=8, fetch_s=0.8)
    return made.run(faults, 300.0)


def schedule(seed: int, kinds: Sequence[Kind], roles: Sequence[Role]) -> list[Fault]:
    rng = random.Random(seed + 1_000)
    return random_faults(rng, 12, within_s=9.0, kinds=kinds, roles=roles)


def test_a_crawl_without_faults_fetches_each_url_as_often_as_planned() -> None:
    verdict = crawl(1, [])
    assert verdict.sound
    assert (verdict.refetches, verdict.allowance) == (0, 0)


def test_chains_that_come_round_end_as_pages_or_are_told_as_loops() -> None:
    web, seeds = make_web(4, 60, hosts=5, chains=4)
    verdict = Crawl(web, seeds, [0.4, 0.1, 0.9]).run([])
    assert verdict.sound, verdict
    assert (verdict.refetches, verdict.allowance) == (0, 0)
    assert all(web.hits[gate] == 2 for gate in web.gates)


@given(
    seed=st.integers(0, 50),
    faults=st.lists(FAULTS | STEPS, min_size=1, max_size=6),
    delays=st.lists(HUNDREDTHS, min_size=3, max_size=40),
)
@settings(
    max_examples=10,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_no_interleaving_of_faults_loses_or_repeats(
    seed: int, faults: list[Fault], delays: list[float]
) -> None:
    web, seeds = make_web(seed, 50, hosts=5, chains=2)
    verdict = Crawl(web, seeds, delays, partitions=2).run(faults)
    assert verdict.sound, verdict


class Off(NamedTuple):
    """How one protection is seen to matter: a crawl that is sound with it, and not without."""

    name: str
    seed: int
    faults: list[Fault]
    more_links: int = 4
    rows_first: bool = False
    chains: int = 0


OFF = [
    Off("first_sighting", 1, schedule(1, ["kill"], ["dedup"]), 0, rows_first=True),
    Off("ordered_acks", 43, schedule(43, ["kill"], ["dedup"]), 0),
    Off("prefix_commit", 7, schedule(7, ["kill"], ["fetcher"])),
    Off("await_before_complete", 3, schedule(3, ["kill"], ["fetcher"])),
    Off(
        "epoch_fencing",
        5,
        [Fault(3.0, "stop", "fetcher", 0, 8.0), Fault(11.3, "kill", "fetcher", 1)],
    ),
    Off("lease", 2, schedule(2, ["stop"], ["fetcher"]), 0),
    Off("completed_beyond", 3, schedule(3, ["kill"], ["fetcher"])),
    Off(
        "bounded_waits",
        1,
        [Fault(1.0, "clock", "fetcher", 0, 7200.0), Fault(6.0, "kill", "fetcher", 0)],
    ),
    Off("own_chain", 1, [], chains=2),
    Off("compared_cookies", 1, [], chains=2),
    Off("whole_recovery", 1, schedule(1, ["kill", "term"], ["dedup"]), 0),
]


@pytest.mark.parametrize("off", OFF, ids=lambda off: off.name)
def test_without_any_one_protection_the_oracle_objects(off: Off) -> None:
    without = Protections(rows_first=off.rows_first)._replace(**{off.name: False})
    broken = crawl(off.seed, off.faults, without, off.more_links, off.chains)
    assert not broken.sound
    whole = crawl(
        off.seed, off.faults, without._replace(**{off.name: True}), off.more_links, off.chains
    )
    if off.rows_first:
        # Requests repeated by the rule are more than a table written after them would need.
        assert broken.lost
        assert not whole.lost
    else:
        assert whole.sound, whole
