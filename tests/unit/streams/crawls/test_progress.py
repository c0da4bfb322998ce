"""Counters follow the committed offsets."""

from __future__ import annotations

from schemas.records import Progress
from streams.crawls.progress import ProgressBook, Totals, progress_key
from streams.kafka.messages import Source

P0 = Source("fetch-requests", 0)
P1 = Source("fetch-requests", 1)


def row(offset: int, pages: int, partition: int = 0, stage: str = "fetcher") -> Progress:
    return {
        "stage": stage,
        "topic": "fetch-requests",
        "partition": partition,
        "crawl": "a",
        "offset": offset,
        "at": 0,
        "counters": {"pages": pages},
    }


def test_counts_are_published_only_below_the_committed_offset() -> None:
    book = ProgressBook("fetcher", Totals())
    book.add(P0, 5, {"a": {"pages": 1, "bytes": 10}})
    book.add(P0, 7, {"a": {"pages": 1, "bytes": 20}, "b": {"retries": 1}})
    assert book.pages("a") == 2
    assert book.totals.pages("a") == 0

    (first,) = book.committed(P0, 6, now_ms=9)
    assert first["counters"] == {"pages": 1, "bytes": 10}
    assert (first["offset"], first["crawl"]) == (6, "a")
    assert book.pages("a") == 2

    rows = {progress["crawl"]: progress["counters"] for progress in book.committed(P0, 8, 9)}
    assert rows == {"a": {"pages": 2, "bytes": 30}, "b": {"retries": 1}}
    assert book.committed(P0, 8, now_ms=9) == []


def test_a_new_owner_goes_on_from_the_published_totals() -> None:
    totals = Totals()
    totals.apply(row(6, pages=40))
    book = ProgressBook("fetcher", totals)
    book.add(P0, 6, {"a": {"pages": 1}})
    (progress,) = book.committed(P0, 7, now_ms=9)
    assert progress["counters"] == {"pages": 41}


def test_revoked_counts_are_forgotten() -> None:
    book = ProgressBook("fetcher", Totals())
    book.add(P0, 5, {"a": {"pages": 3}})
    book.add(P1, 5, {"a": {"pages": 4}})
    book.revoked([P0])
    assert book.pages("a") == 4
    assert book.committed(P0, 9, now_ms=0) == []


def test_rows_of_an_older_offset_are_ignored_and_repeats_change_nothing() -> None:
    totals = Totals()
    totals.apply(row(10, pages=7))
    totals.apply(row(9, pages=5))
    totals.apply(row(10, pages=7))
    totals.apply(row(3, pages=2, partition=1))
    assert totals.pages("a") == 9


def test_only_the_fetcher_counts_towards_the_page_budget() -> None:
    totals = Totals()
    totals.apply(row(10, pages=7, stage="parser"))
    assert totals.pages("a") == 0
    book = ProgressBook("parser", totals)
    book.add(P0, 1, {"a": {"pages": 3}})
    assert book.pages("a") == 0


def test_sums_by_crawl_stage_and_name() -> None:
    totals = Totals()
    totals.apply(row(1, pages=2))
    totals.apply(row(1, pages=3, partition=1))
    totals.apply(row(1, pages=5, stage="parser"))
    assert totals.counters() == {"a": {"fetcher": {"pages": 5}, "parser": {"pages": 5}}}
    totals.forget("a")
    assert totals.counters() == {}
    assert totals.pages("a") == 0


def test_key_keeps_one_row_for_each_partition_and_crawl() -> None:
    assert progress_key(row(1, 1)) == b"fetcher/fetch-requests/0/a"
    assert progress_key(row(1, 1)) != progress_key(row(1, 1, partition=1))
