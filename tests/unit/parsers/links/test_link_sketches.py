"""Which messages carry the sketch of their page, and what is remembered of its links."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.records.parse import CrawlParser, Parsed
from tests.unit.parsers.parsing import NOW_MS, crawl_parser, fetch_result

PAGE = "http://a.example/d/p"


def parse(parser: CrawlParser, *hrefs: str, url: str = PAGE, text: str = "some words") -> Parsed:
    anchors = "".join(f'<a href="{href}">x</a>' for href in hrefs)
    body = f"<body>{text}{anchors}".encode()
    outcome = parser.parse(fetch_result(body, url=url), body, NOW_MS)
    assert isinstance(outcome, Parsed)
    return outcome


def sketches(parsed: Parsed) -> dict[str, Any]:
    return {batch["host"]: batch["sketch"] for batch in parsed.batches}


@pytest.mark.parametrize(
    ("href", "carried"),
    [
        ("e/f", True),
        ("?page=2", True),
        ("/d/e/", True),
        ("q", False),
        ("/", False),
        ("/other/e/", False),
    ],
)
def test_links_that_may_grow_carry_it(href: str, *, carried: bool) -> None:
    found = sketches(parse(crawl_parser(), href))["a.example"]
    assert (found is not None) is carried


def test_every_link_of_a_page_with_an_id_carries_it() -> None:
    parsed = parse(crawl_parser(), "/q", url="http://a.example/s/4f6e1a9b2c3d/p")
    assert sketches(parsed)["a.example"] is not None


def test_messages_to_other_hosts_do_not() -> None:
    parsed = parse(crawl_parser(scope="any"), "e/f", "http://b.example/d/e/f")
    found = sketches(parsed)
    assert found["b.example"] is None
    assert found["a.example"] is not None


def test_all_messages_of_a_page_carry_the_same() -> None:
    parsed = parse(crawl_parser(), *(f"e/{number}" for number in range(1_200)))
    assert len(parsed.batches) == 3
    assert len({batch["sketch"] for batch in parsed.batches}) == 1


def test_a_crawl_without_a_budget_needs_none() -> None:
    assert sketches(parse(crawl_parser(trap_budget=None), "e/f"))["a.example"] is None


def test_a_page_without_words_has_none() -> None:
    body = b'<body><a href="e/f"><img src="x.png"></a>'
    outcome = crawl_parser().parse(fetch_result(body), body, NOW_MS)
    assert isinstance(outcome, Parsed)
    assert sketches(outcome)["a.example"] is None


def test_links_of_a_page_that_repeats_an_earlier_one_are_not_remembered_as_delivered() -> None:
    parser = crawl_parser()
    first = parse(parser, "e/f")
    again = parse(parser, "e/f", url="http://a.example/d/g/p")
    other = parse(parser, "e/f", url="http://a.example/d/h/p", text="something else said")
    assert [len(parsed.sent) for parsed in (first, again, other)] == [1, 0, 1]
    assert again.counts["links_sent"] == 1
