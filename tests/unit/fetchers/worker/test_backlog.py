"""The fetchers' account of their backlog, as those who scale them read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.crawl import CrawlSpec
from streams.autoscale.eligible import ELIGIBLE, WINDOW, parse
from streams.autoscale.model import Rules
from tests.unit.fetchers.fakes import request_for, running

if TYPE_CHECKING:
    from pathlib import Path

DELAY_S = 60.0


async def test_eligible_is_what_politeness_allows_within_the_drain_target(tmp_path: Path) -> None:
    """The autoscaler and KEDA divide it by that time: a shorter horizon hides work from them."""
    spec = CrawlSpec(crawl="c", delay_s=DELAY_S)
    tiers = "30,120,600,3600,21600"
    async with running(tmp_path, spec, retry_tiers_s=tiers) as runtime:
        for host in ("127.0.0.2", "127.0.0.3"):
            runtime.seed(*(request_for(f"http://{host}:9/{number}") for number in range(8)))
        await runtime.until(lambda: runtime.offered == 16)
        sample = parse(runtime.stage._context.metrics.render().decode())
    assert sample is not None
    allowed = Rules().drain_target_s / DELAY_S
    assert sample.gauges[WINDOW] == 16
    assert 2 * (allowed - 1) <= sample.gauges[ELIGIBLE] <= 2 * (allowed + 1)
