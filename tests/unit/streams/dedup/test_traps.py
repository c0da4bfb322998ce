from __future__ import annotations

from typing import Any

import pytest

from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
from schemas.records import Link, UrlBatch
from schemas.url import url_id
from streams.dedup.policy import Decision, Here, decide
from streams.dedup.seeds import seed_batch

HOST = "a.example"
ROOT = f"http://{HOST}"
ONE, OTHER = b"one content" + bytes(9), b"other content" + bytes(7)


class Table:
    """The table, and a crawl with a budget of three."""

    def __init__(self, budget: int | None = 3, **spec: Any) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.rules = compile_rules(CrawlSpec(crawl="default", trap_budget=budget, **spec))
        self.offset = 0

    def judge(
        self, page: str, sketch: bytes | None, *paths: str, offset: int = 0, **changes: Any
    ) -> Decision:
        links: list[Link] = [
            {
                "url": ROOT + path,
                "url_id": url_id("default", ROOT + path),
                "priority": 0,
                "lastmod_at": None,
            }
            for path in paths
        ]
        batch: Any = {
            **seed_batch("default", links),
            "host": HOST,
            "via": "link",
            "depth": 1,
            "scope_host": HOST,
            "referrer": ROOT + page,
            "sketch": sketch,
            **changes,
        }
        whole: UrlBatch = batch
        return decide(
            whole,
            Here(0, 1, offset or self.offset, 1),
            rules=self.rules,
            pages=0,
            seen=lambda keys: [self.rows.get(key) for key in keys],
        )

    def take(self, page: str, sketch: bytes | None, *paths: str, **changes: Any) -> Decision:
        self.offset += 1
        decision = self.judge(page, sketch, *paths, **changes)
        self.rows.update(decision.rows)
        return decision


def new(decision: Decision) -> list[str]:
    return [
        link["url"].removeprefix(ROOT)
        for admission in decision.admitted
        for link in admission.links
    ]


def spent() -> Table:
    """The account for deepening has two of three."""
    table = Table()
    table.take("/x/", ONE, "/x/a/")
    table.take("/y/x/", ONE, "/y/x/1/", "/y/x/2/")
    return table


def test_links_that_deepen_a_deeper_repeat_are_admitted_up_to_the_budget() -> None:
    decision = spent().take("/z/x/", ONE, "/z/x/1/", "/z/x/2/", "/elsewhere", "/z/page")
    assert new(decision) == ["/z/x/1/", "/elsewhere", "/z/page"]
    assert decision.counts == {"admitted": 3, "rejected.trap": 1}
    assert decision.trapped == {HOST: 1}


@pytest.mark.parametrize(
    ("page", "sketch"),
    [
        pytest.param("/z/x/", OTHER, id="another content"),
        pytest.param("/z/x/", None, id="nothing said"),
        pytest.param("/x/", ONE, id="the first page itself"),
        pytest.param("/w/", ONE, id="as deep as the first"),
        pytest.param("/z/y/", ONE, id="another last part of the path"),
    ],
)
def test_other_pages_are_free(page: str, sketch: bytes | None) -> None:
    decision = spent().take(page, sketch, *(f"{page}{number}/" for number in range(9)))
    assert decision.counts == {"admitted": 9}


def test_variants_of_a_page_have_an_account_of_their_own() -> None:
    table = spent()
    table.take("/list?p=1", ONE, "/list?p=2")
    decision = table.take("/list?p=2", ONE, *(f"/list?p={number}" for number in range(3, 9)))
    assert decision.counts == {"admitted": 3, "rejected.trap": 3}
    assert new(table.take("/z/x/", ONE, "/z/x/1/")) == ["/z/x/1/"]


def test_something_new_that_leads_out_of_the_space_clears_the_account() -> None:
    table = spent()
    table.take("/y/x/1/", OTHER, "/y/x/1/1/", "/event")
    decision = table.take("/z/x/", ONE, *(f"/z/x/{number}/" for number in range(5)))
    assert decision.counts == {"admitted": 3, "rejected.trap": 2}


def test_something_new_that_leads_deeper_only_takes_back_one() -> None:
    table = spent()
    table.take("/y/x/1/", OTHER, "/y/x/1/1/")
    decision = table.take("/z/x/", ONE, *(f"/z/x/{number}/" for number in range(5)))
    assert decision.counts == {"admitted": 2, "rejected.trap": 3}


def test_something_new_that_was_not_admitted_on_account_changes_nothing() -> None:
    table = spent()
    table.take("/new/", OTHER, "/new/1/", "/event")
    decision = table.take("/z/x/", ONE, *(f"/z/x/{number}/" for number in range(5)))
    assert decision.counts == {"admitted": 1, "rejected.trap": 4}


def test_a_replay_decides_as_the_first_run_did() -> None:
    table = spent()
    args = ("/z/x/", ONE, "/z/x/1/", "/z/x/2/", "/elsewhere")
    first = table.take(*args)
    again = table.judge(*args)
    assert (first.admitted, first.counts) == (again.replayed, again.counts)
    assert (again.admitted, again.rows) == ([], {})


def test_a_replay_by_a_table_that_has_the_urls_but_not_the_account_loses_no_url() -> None:
    table = spent()
    args = ("/z/x/", ONE, "/z/x/1/", "/z/x/2/")
    before = dict(table.rows)
    first = table.take(*args)
    table.rows = before | {key: row for key, row in first.rows.items() if len(key) == 16}
    again = table.judge(*args)
    assert again.replayed == first.admitted


def test_a_second_batch_of_a_page_is_judged_like_the_first() -> None:
    table = spent()
    table.take("/new/", OTHER, *(f"/new/{number}/" for number in range(5)))
    more = table.take("/new/", OTHER, *(f"/new/{number}/" for number in range(5, 10)))
    assert more.counts == {"admitted": 5}


def test_a_second_batch_of_variants_is_judged_like_the_first() -> None:
    table = Table()
    table.take("/list?p=1", ONE, *(f"/list?p={number}" for number in range(2, 7)))
    more = table.take("/list?p=1", ONE, *(f"/list?p={number}" for number in range(7, 12)))
    assert more.counts == {"admitted": 5}


def test_what_is_repeated_stays_in_memory_and_the_oldest_else_is_forgotten() -> None:
    table = Table(budget=1_000)
    table.take("/x/", ONE, "/x/a/")
    for number in range(40):
        content = bytes([number]) * 20
        table.take(f"/{number}/x/", content, f"/{number}/x/a/")
        if number % 10 == 9:
            decision = table.take(f"/w/{number}/x/", ONE, f"/w/{number}/x/a/")
            assert [len(row) for key, row in decision.rows.items() if len(key) == 16] == [13]
    forgotten = table.take("/w/w/x/", bytes(20), "/w/w/x/a/")
    assert [len(row) for key, row in forgotten.rows.items() if len(key) == 16] == [12]


@pytest.mark.parametrize("page", ["http://b.example/z/x/", "", "nonsense", "http://["])
def test_a_sketch_of_no_page_of_the_host_is_ignored(page: str) -> None:
    paths = [f"/z/x/{number}/" for number in range(5)]
    assert spent().take("/z/x/", ONE, *paths, referrer=page).counts == {"admitted": 5}


def test_a_seed_is_never_refused() -> None:
    decision = spent().take("/z/x/", ONE, *(f"/z/x/{n}/" for n in range(5)), depth=0)
    assert decision.counts == {"admitted": 5}


def test_no_budget_no_rows() -> None:
    table = Table(budget=None)
    table.take("/x/", ONE, "/x/a/")
    decision = table.take("/y/x/", ONE, *(f"/y/x/{number}/" for number in range(5)))
    assert decision.counts == {"admitted": 5}
    assert {len(key) for key in table.rows} == {16}
    assert {len(row) for row in table.rows.values()} == {12}


def test_what_one_budget_refuses_is_not_charged_to_the_other() -> None:
    table = Table(budget=2, calendar_budget=4)
    month = "/cal?month=2026-{:02}"
    table.take(month.format(1), ONE, month.format(2))
    table.take(month.format(2), ONE, *(month.format(at) for at in range(3, 9)))
    assert table.take("/", None, month.format(10), month.format(11)).counts == {
        "admitted": 1,
        "rejected.calendar_trap": 1,
    }
    table.take(month.format(3), OTHER, "/event")
    decision = table.take(
        month.format(4), ONE, month.format(12), "/cal?x=1", "/cal?x=2", "/cal?x=3"
    )
    assert decision.counts == {"admitted": 2, "rejected.calendar_trap": 1, "rejected.trap": 1}
