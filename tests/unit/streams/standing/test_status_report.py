"""The status report: rates, time left, lag and ages."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from rich.console import Console

from schemas.crawl import CrawlSpec
from schemas.topics import FETCH_REQUESTS, RETRY_TIERS, URLS
from streams.cli.status import tables
from streams.kafka.messages import Source
from streams.standing.drain import Reading
from streams.standing.status import Status, crawl_statuses, stage_statuses

NOW = 1_700_000_000_000
COUNTERS = {
    "a": {
        "dedup": {"admitted": 100},
        "fetcher": {"pages": 40, "failed.http_4xx": 8, "redirects": 2},
        "parser": {"records": 42},
    }
}
EARLIER = {
    "a": {
        "dedup": {"admitted": 90},
        "fetcher": {"pages": 20, "failed.http_4xx": 8, "redirects": 2},
    }
}


def crawl(**rules: Any) -> Any:
    (found,) = crawl_statuses([CrawlSpec(crawl="a", **rules)], COUNTERS, EARLIER, 4.0)
    return found


def test_rates_and_time_left() -> None:
    found = crawl()
    assert (found.outstanding, found.pages_per_s, found.ended_per_s) == (50, 5.0, 5.0)
    assert found.eta_s == 10.0


def test_a_budget_shortens_the_time_left() -> None:
    assert crawl(max_pages=45).eta_s == 1.0
    assert crawl(max_pages=10).eta_s == 0.0


def test_no_rate_no_time_left() -> None:
    (found,) = crawl_statuses([CrawlSpec(crawl="a")], COUNTERS, COUNTERS, 4.0)
    assert (found.pages_per_s, found.eta_s) == (0.0, None)


def test_counters_that_shrank_are_no_negative_rate() -> None:
    (found,) = crawl_statuses([CrawlSpec(crawl="a")], EARLIER, COUNTERS, 4.0)
    assert (found.pages_per_s, found.ended_per_s) == (0.0, 0.0)


def test_default_is_hidden_until_it_does_something() -> None:
    specs = [CrawlSpec(crawl="default"), CrawlSpec(crawl="a", state="stopped")]
    assert [found.crawl for found in crawl_statuses(specs, {}, {}, 1.0)] == ["a"]
    used = {"default": {"dedup": {"admitted": 1}}}
    assert [found.crawl for found in crawl_statuses(specs, used, {}, 1.0)] == ["a", "default"]


def test_counters_without_a_spec_are_shown() -> None:
    (found,) = crawl_statuses([], COUNTERS, {}, 0.0)
    assert (found.crawl, found.state, found.pages_per_s) == ("a", "unknown", 0.0)


def test_hosts_of_endless_spaces_are_in_the_table_the_worst_first() -> None:
    trapped = {"trapped.a.example": 5, "trapped.b.example": 1_700}
    counters = {"a": {"dedup": {"rejected.trap": 1_705, **trapped}}}
    crawls = crawl_statuses([CrawlSpec(crawl="a")], counters, counters, 0.0)
    told = Status(NOW, crawls, ())
    assert told.as_json()["crawls"]["a"]["counts"]["trapped"] == {
        "b.example": 1_700,
        "a.example": 5,
    }
    console = Console(file=io.StringIO(), width=120)
    console.print(tables(told))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1,705 rejected" in text
    assert re.search(r"a +b\.example +1,700 *\n +a +a\.example +5", text)
    console.print(tables(Status(NOW, (crawl(),), ())))
    assert console.file.getvalue().count("endless space") == 1  # type: ignore[attr-defined]


def test_lag_by_stage_with_retries_apart() -> None:
    tier = Source(RETRY_TIERS[2], 0)
    sources = [Source(URLS, 0), Source(URLS, 1), Source(FETCH_REQUESTS, 0), tier]
    reading = Reading(
        starts={},
        committed=dict(zip(sources, (3, 1, 5, 2), strict=True)),
        ends=dict(zip(sources, (5, 1, 9, 9), strict=True)),
        waiting={},
        at=NOW,
    )
    oldest = {URLS: NOW - 1_500, FETCH_REQUESTS: NOW + 50, RETRY_TIERS[2]: NOW - 900_000}
    dedup, fetcher, parser = stage_statuses(reading, oldest)
    assert (dedup.stage, dedup.lag, dedup.waiting, dedup.oldest_age_s) == ("dedup", 2, 0, 1.5)
    assert (fetcher.lag, fetcher.waiting, fetcher.oldest_age_s) == (4, 7, 0.0)
    assert (parser.lag, parser.oldest_age_s, parser.topics) == (0, None, {})
    text = json.dumps(Status(NOW, (crawl(),), (dedup, fetcher, parser)).as_json())
    assert json.loads(text)["crawls"]["a"]["eta_s"] == 10.0
