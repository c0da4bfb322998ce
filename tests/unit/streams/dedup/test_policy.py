from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.admission import Rules, compile_rules
from schemas.crawl import CrawlSpec
from schemas.reasons import Reason
from schemas.records import Link, UrlBatch
from schemas.topics import partition_of
from schemas.url import url_id
from streams.dedup import policy, requests
from streams.dedup.policy import Decision, Here, decide, position
from streams.dedup.seeds import seed_batch

PARTITIONS = 4
NOW = 1_700_000_000_000


def rules_of(**fields: Any) -> Rules:
    return compile_rules(CrawlSpec(crawl="default", **fields))


RULES = rules_of()


def link(url: str, *, trusted: bool = True, priority: int = 0) -> Link:
    known = url_id("default", url) if trusted else None
    return {"url": url, "url_id": known, "priority": priority, "lastmod_at": None}


def batch_of(host: str, *urls: str, trusted: bool = True, **fields: Any) -> UrlBatch:
    batch = seed_batch("default", [link(url, trusted=trusted) for url in urls])
    batch["host"] = host if trusted else ""
    batch["via"] = "link"
    batch["depth"] = 1
    batch["scope_host"] = host
    batch.update(fields)  # type: ignore[typeddict-item]
    return batch


def here_of(host: str, offset: int = 7) -> Here:
    return Here(partition_of(host.encode(), PARTITIONS), PARTITIONS, offset, NOW)


def lookup(table: Mapping[bytes, bytes]) -> Callable[[list[bytes]], list[bytes | None]]:
    return lambda keys: [table.get(key) for key in keys]


def run(
    batch: UrlBatch,
    here: Here,
    table: dict[bytes, bytes] | None = None,
    *,
    rules: Rules | None = RULES,
    pages: int = 0,
) -> Decision:
    return decide(batch, here, rules=rules, pages=pages, seen=lookup(table or {}))


def urls_of(admissions: list[policy.Admission]) -> list[str]:
    return [link["url"] for admission in admissions for link in admission.links]


HOST = "a.example"
A, B, C = (f"https://{HOST}/{name}" for name in "abc")


def test_new_urls_are_admitted_once_with_the_position_as_value() -> None:
    here = here_of(HOST)
    decision = run(batch_of(HOST, A, B, A), here)
    assert urls_of(decision.admitted) == [A, B]
    mark = position(PARTITIONS, here.partition, 7)
    assert decision.rows == {url_id("default", A): mark, url_id("default", B): mark}
    assert decision.counts == {"admitted": 2, "duplicates": 1}
    assert len(mark) == 12


def test_seen_at_another_position_is_a_duplicate() -> None:
    here = here_of(HOST)
    table = {url_id("default", A): position(PARTITIONS, here.partition, 6)}
    decision = run(batch_of(HOST, A), here, table)
    assert (decision.admitted, decision.replayed, decision.rows) == ([], [], {})
    assert decision.counts == {"duplicates": 1}


def test_seen_at_this_position_is_a_replay_whatever_the_rules_say_now() -> None:
    here = here_of(HOST)
    table = {url_id("default", A): position(PARTITIONS, here.partition, 7)}
    decision = run(batch_of(HOST, A), here, table, rules=rules_of(state="stopped"))
    assert decision.admitted == []
    assert urls_of(decision.replayed) == [A]
    assert decision.rows == {}
    assert decision.counts == {"admitted": 1}


def test_a_position_of_another_partition_count_is_another_position() -> None:
    here = here_of(HOST)
    table = {url_id("default", A): position(PARTITIONS * 2, here.partition, 7)}
    assert run(batch_of(HOST, A), here, table).counts == {"duplicates": 1}


@pytest.mark.parametrize(
    ("fields", "batch_fields", "pages", "reason"),
    [
        ({"state": "stopped"}, {}, 0, Reason.CRAWL_STOPPED),
        ({"max_pages": 5}, {}, 5, Reason.BUDGET_SPENT),
        ({"max_depth": 0}, {}, 0, Reason.TOO_DEEP),
        ({}, {"scope_host": "b.example"}, 0, Reason.OUT_OF_SCOPE),
        ({"exclude": ["/a$"]}, {}, 0, Reason.EXCLUDED),
    ],
)
def test_refusals_are_counted_and_leave_no_row(
    fields: dict[str, Any], batch_fields: dict[str, Any], pages: int, reason: Reason
) -> None:
    decision = run(
        batch_of(HOST, A, **batch_fields), here_of(HOST), rules=rules_of(**fields), pages=pages
    )
    assert decision.counts == {f"rejected.{reason}": 1}
    assert (decision.admitted, decision.rows, decision.letters) == ([], {}, [])


def test_untrusted_links_are_parsed_and_hashed() -> None:
    spellings = ["HTTPS://A.example:443/a#x", "https://a.example/a?utm_source=y"]
    decision = run(batch_of(HOST, *spellings, trusted=False), here_of(HOST))
    assert urls_of(decision.admitted) == [A]
    assert list(decision.rows) == [url_id("default", A)]
    assert decision.counts == {"admitted": 1, "duplicates": 1}


def test_a_batch_with_ids_but_no_host_is_not_trusted() -> None:
    batch = batch_of(HOST, A)
    batch["host"] = ""
    batch["links"][0]["url_id"] = bytes(16)
    assert list(run(batch, here_of(HOST)).rows) == [url_id("default", A)]


def test_invalid_seeds_are_counted_and_dead_lettered_but_invalid_links_only_counted() -> None:
    bad = ["http://[", "mailto:x@a.example", "https://a.example/" + "x" * 5000]
    seeds = run(seed_batch("default", [link(url, trusted=False) for url in bad]), here_of(HOST))
    assert [letter.reason for letter in seeds.letters] == [
        Reason.INVALID_URL,
        Reason.UNSUPPORTED_SCHEME,
        Reason.URL_TOO_LONG,
    ]
    assert [letter.payload for letter in seeds.letters] == [url.encode() for url in bad]
    links = run(batch_of(HOST, *bad, trusted=False), here_of(HOST))
    assert links.letters == []
    assert seeds.counts == links.counts
    assert sum(seeds.counts.values()) == 3


def test_letters_of_one_batch_are_bounded() -> None:
    count = policy.MAX_LETTERS + 50
    decision = run(
        seed_batch("default", [link(f"x{i}", trusted=False) for i in range(count)]), here_of(HOST)
    )
    assert len(decision.letters) == policy.MAX_LETTERS
    assert decision.counts == {"rejected.invalid_url": count}


def other_host() -> str:
    own = partition_of(HOST.encode(), PARTITIONS)
    return next(
        host
        for host in (f"h{i}.example" for i in range(100))
        if partition_of(host.encode(), PARTITIONS) != own
    )


def test_links_of_hosts_that_others_own_are_rekeyed_by_host() -> None:
    away = other_host()
    batch = seed_batch(
        "default",
        [link(url, trusted=False) for url in (A, f"https://{away}/1", f"https://{away}/2")],
    )
    decision = run(batch, here_of(HOST))
    assert urls_of(decision.admitted) == [A]
    [part] = decision.rekeyed
    assert part["host"] == away
    assert part["via"] == "seed"
    assert part["seeded_at"] == part["discovered_at"] == NOW
    assert decision.counts == {"admitted": 1}
    again = run(part, here_of(away, 3))
    assert urls_of(again.admitted) == [f"https://{away}/1", f"https://{away}/2"]
    assert again.rekeyed == []
    assert again.admitted[0].scope_host == away


def test_a_trusted_batch_in_the_wrong_partition_is_rekeyed_whole() -> None:
    away = other_host()
    batch = batch_of(away, f"https://{away}/1", seeded_at=5, discovered_at=6)
    [part] = run(batch, here_of(HOST)).rekeyed
    assert part == batch


def test_rekeyed_parts_stay_far_below_the_message_limit() -> None:
    away = other_host()
    long = [f"https://{away}/{i}/" + "x" * 4000 for i in range(500)]
    many = [f"https://{away}/{i}" for i in range(2500)]
    for urls in (long, many):
        parts = run(batch_of(away, *urls), here_of(HOST)).rekeyed
        assert [link["url"] for part in parts for link in part["links"]] == urls
        assert max(len(codec.encode("url-batch", part)) for part in parts) < 1024 * 1024
        assert max(len(part["links"]) for part in parts) <= policy.REKEY_LINKS


def test_unknown_crawl_is_counted_and_dead_lettered() -> None:
    decision = run(batch_of(HOST, A, B, crawl="nope"), here_of(HOST), rules=None)
    assert decision.counts == {"rejected.unknown_crawl": 2}
    [letter] = decision.letters
    assert letter.reason is Reason.UNKNOWN_CRAWL
    assert letter.payload is None
    assert "nope" in letter.detail


def calendar_urls(count: int) -> list[str]:
    return [f"https://{HOST}/events?month={i % 12 + 1}&year={2000 + i // 12}" for i in range(count)]


def test_calendar_budget_spans_batches_and_survives_in_the_table() -> None:
    rules = rules_of(calendar_budget=5)
    table: dict[bytes, bytes] = {}
    urls = calendar_urls(9)
    first = run(batch_of(HOST, *urls[:3]), here_of(HOST, 1), table, rules=rules)
    table.update(first.rows)
    second = run(batch_of(HOST, *urls[3:], A), here_of(HOST, 2), table, rules=rules)
    assert first.counts == {"admitted": 3}
    assert second.counts == {"admitted": 3, "rejected.calendar_trap": 4}


def test_calendar_budget_is_not_spent_by_a_replay() -> None:
    rules = rules_of(calendar_budget=5)
    urls = calendar_urls(4)
    here = here_of(HOST, 1)
    table = dict(run(batch_of(HOST, *urls), here, rules=rules).rows)
    replay = run(batch_of(HOST, *urls), here, table, rules=rules)
    assert replay.rows == {}
    assert replay.counts == {"admitted": 4}


def test_calendar_counters_have_keys_of_their_own_form() -> None:
    rows = run(batch_of(HOST, *calendar_urls(1)), here_of(HOST)).rows
    assert sorted(len(key) for key in rows) == [16, 17]


names = st.sampled_from("abcdefgh")
messages = st.lists(st.lists(names, min_size=1, max_size=6), min_size=1, max_size=12)


@settings(max_examples=60)
@given(messages, st.data())
def test_any_crash_leaves_every_url_admitted_and_a_full_run_admits_each_once(
    log: list[list[str]], data: st.DataObject
) -> None:
    """Rows are written after delivery; the process dies between any two steps and replays."""
    table: dict[bytes, bytes] = {}
    sent: list[str] = []
    in_flight = committed = offset = 0
    crashes = data.draw(st.integers(0, 3))
    while offset < len(log):
        batch = batch_of(HOST, *(f"https://{HOST}/{name}" for name in log[offset]))
        decision = run(batch, here_of(HOST, offset), table)
        steps = data.draw(st.integers(0, 3)) if crashes else 4
        if steps >= 1:
            sent.extend(urls_of(decision.admitted))
        if steps >= 2:
            table.update(decision.rows)
        if steps == 1:
            in_flight += decision.new
        if steps >= 3:
            committed = offset + 1
        if steps < 4:
            crashes -= 1
            offset = committed
        else:
            offset += 1
    assert set(sent) == {f"https://{HOST}/{name}" for names in log for name in names}
    assert len(sent) - len(set(sent)) <= in_flight


def test_requests_equal_the_codec_bytes() -> None:
    requests.check_layout()
    batch = batch_of(HOST, A, B, "https://a.example/" + "ü" * 200, redirects=["https://z/"])
    batch["links"][1]["priority"] = -3
    batch["links"][2]["lastmod_at"] = NOW
    [admission] = run(batch, here_of(HOST)).admitted
    encoded = requests.encode(batch, admission, timestamp_ms=NOW)
    for value, item in zip(encoded, admission.links, strict=True):
        whole = requests.request(batch, admission, item, timestamp_ms=NOW)
        assert value == codec.encode("fetch-request", whole)
        assert codec.decode("fetch-request", value) == whole


def test_requests_of_a_batch_without_instants_have_the_message_time() -> None:
    batch = batch_of(HOST, A)
    [admission] = run(batch, here_of(HOST)).admitted
    [value] = requests.encode(batch, admission, timestamp_ms=NOW)
    decoded = codec.decode("fetch-request", value)
    assert (decoded["seeded_at"], decoded["discovered_at"], decoded["attempt"]) == (NOW, NOW, 1)
