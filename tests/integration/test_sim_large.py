"""The simulation at the size of a real crawl."""

from __future__ import annotations

import random

from tests.unit.sim.crawl import Crawl, random_faults
from tests.unit.sim.web import make_web


def test_ten_thousand_urls_under_forty_faults() -> None:
    web, seeds = make_web(7, 10_000, hosts=200)
    rng = random.Random(7)
    delays = [rng.random() for _ in range(9_973)]
    crawl = Crawl(web, seeds, delays, workers=3, partitions=6)
    verdict = crawl.run(random_faults(rng, 40, within_s=90.0))
    assert verdict.sound, verdict
    assert verdict.refetches > 0
    assert sum(web.hits.values()) >= 10_000
