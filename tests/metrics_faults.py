"""Declared metrics that need a fault, or a scale, that a healthy small crawl does not have.

Each is moved by a test of its own (`tests/unit/streams/telemetry/test_metrics_moved.py`); all
others must move in the end-to-end run of `tests/integration/test_metrics_end_to_end.py`.
"""

from __future__ import annotations

from typing import Final

NEED_A_FAULT: Final[dict[tuple[str, str], str]] = {
    ("fetcher", "crawler_breakers_open"): "a host that does not answer",
    ("fetcher", "crawler_deferrals_total"): "more requests of a host than its delay lets through",
    ("fetcher", "crawler_robots_cut_total"): "a robots.txt that exceeds what is read of one",
    ("fetcher", "crawler_ready_requests"): "a scrape while no connection is free",
    ("fetcher", "crawler_rejected_urls_total"): "a crawl that was stopped, or spent its budget",
    ("parser", "crawler_parse_process_deaths_total"): "a document that kills a parse process",
    ("parser", "crawler_parse_issues_total"): "a document with something odd in it",
    ("parser", "crawler_dead_letters_total"): "a document that cannot be parsed",
    ("dedup", "crawler_dead_letters_total"): "a message that is no batch of URLs",
    ("dedup", "crawler_table_recovering"): "a scrape while partitions move",
}
