"""Choosing dead letters and replaying them: once, at most three times, history kept."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.reasons import Reason
from schemas.records import FetchRequest
from schemas.topics import DEAD_LETTERS, FETCH_REQUESTS, FETCH_RESULTS, RECORDS, RETRY_TIERS, URLS
from streams.deadletters.letter import MAX_PAYLOAD_BYTES, dead_letter
from streams.deadletters.redrive import MAX_REPLAYS, Filter, Shelf, by_reason, mark, plan
from streams.kafka.messages import Out, Source
from streams.kafka.reader import Message


def request(number: int = 1, **over: Any) -> FetchRequest:
    values: Any = {
        "crawl": "c",
        "url_id": number.to_bytes(16, "big"),
        "url": f"http://a.example/{number}",
        "host": "a.example",
        "depth": 2,
        "scope_host": "a.example",
        "via": "link",
        "referrer": "",
        "redirects": [],
        "seeded_at": 5,
        "discovered_at": 6,
        "priority": 0,
        "attempt": 4,
        "first_attempt_at": 100,
        "not_before": 999,
        "deferrals": 1,
        "first_reason": "http_500",
        "last_reason": "http_500",
        "last_detail": "",
        "etag": "",
        "last_modified": "",
        "replays": 0,
        "lastmod_at": None,
    }
    return values | over  # type: ignore[no-any-return]


def letter(
    number: int = 1,
    *,
    offset: int = 10,
    topic: str = FETCH_REQUESTS,
    reason: Reason = Reason.HTTP_500,
    dead_at: int = 1_000,
    attempts: int = 4,
    payload: bytes | None = None,
    **over: Any,
) -> Out:
    row = request(number, **over)
    return dead_letter(
        Source(topic, 0),
        offset,
        b"a.example",
        codec.encode("fetch-request", row) if payload is None else payload,
        reason=reason,
        stage="fetcher",
        detail="gone",
        request=row,
        attempts=attempts,
        now_ms=dead_at,
    )


def shelf(*messages: Out) -> Shelf:
    found = Shelf()
    for offset, message in enumerate(messages):
        found.add(
            Message(Source(DEAD_LETTERS, 3), offset, message.key, message.value, 0, message.headers)
        )
    return found


def replayed(out: Out) -> FetchRequest:
    row: FetchRequest = codec.decode("fetch-request", out.value or b"")
    return row


def test_a_replay_keeps_the_history_and_asks_for_the_next_attempt() -> None:
    found = plan(shelf(letter()), Filter())
    ((source, out),) = found.replays
    again = replayed(out)
    assert (out.topic, out.key) == (FETCH_REQUESTS, b"a.example")
    assert (again["attempt"], again["replays"], again["not_before"]) == (5, 1, 0)
    assert (again["first_attempt_at"], again["first_reason"]) == (100, "http_500")
    assert (again["last_reason"], again["last_detail"]) == ("http_500", "gone")
    assert (again["depth"], again["seeded_at"], again["deferrals"]) == (2, 5, 1)
    assert source.position == "3/0"


@pytest.mark.parametrize("topic", RETRY_TIERS)
def test_what_waited_in_a_tier_goes_to_fetch_requests(topic: str) -> None:
    ((_, out),) = plan(shelf(letter(topic=topic)), Filter()).replays
    assert out.topic == FETCH_REQUESTS


@pytest.mark.parametrize(("topic", "payload"), [(URLS, b"http://["), (FETCH_RESULTS, b"\xc3\x01x")])
def test_other_messages_are_repeated_byte_for_byte(topic: str, payload: bytes) -> None:
    ((_, out),) = plan(shelf(letter(topic=topic, payload=payload)), Filter()).replays
    assert (out.topic, out.key, out.value) == (topic, b"a.example", payload)


@pytest.mark.parametrize("topic", [RECORDS, DEAD_LETTERS, "crawls", "somebody-elses"])
def test_other_origins_are_refused(topic: str) -> None:
    found = plan(shelf(letter(topic=topic)), Filter())
    assert not found.replays
    assert "is not replayed" in next(iter(found.skipped))


def test_disregarded_only_when_named() -> None:
    rows = shelf(letter(1, reason=Reason.ROBOTS_DENIED, attempts=0), letter(2))
    found = plan(rows, Filter())
    assert found.histogram() == {"http_500": 1}
    assert sum(found.skipped.values()) == 1
    named = plan(rows, Filter(reasons=frozenset({"robots_denied"})))
    assert named.histogram() == {"robots_denied": 1}
    assert replayed(named.replays[0][1])["attempt"] == 4


def test_marked_letters_are_not_replayed_again() -> None:
    first = shelf(letter(1), letter(2, dead_at=2_000))
    done = plan(first, Filter(), limit=1)
    assert done.skipped == {"beyond --max": 1}
    out = mark(done.replays[0][0])
    assert (out.topic, out.value) == (DEAD_LETTERS, None)
    first.add(Message(Source(DEAD_LETTERS, 3), 2, out.key, None, 0, out.headers))
    again = plan(first, Filter())
    assert [item.row["url"] for item, _ in again.replays] == ["http://a.example/2"]
    assert again.skipped == {"redriven before": 1}


def test_only_the_newest_letter_of_a_message_is_replayed() -> None:
    found = plan(
        shelf(letter(1, offset=1), letter(1, offset=2, dead_at=2_000, replays=1)), Filter()
    )
    assert [replayed(out)["replays"] for _, out in found.replays] == [2]
    assert found.skipped == {"a newer letter of the same message exists": 1}


def test_replays_are_capped_by_their_count() -> None:
    found = plan(shelf(letter(replays=MAX_REPLAYS)), Filter())
    assert not found.replays
    assert plan(shelf(letter(replays=MAX_REPLAYS - 1)), Filter()).replays


def test_replays_without_a_count_are_capped_by_their_letters() -> None:
    same = [
        letter(topic=FETCH_RESULTS, payload=b"x", offset=n, dead_at=n)
        for n in range(MAX_REPLAYS + 1)
    ]
    assert not plan(shelf(*same), Filter()).replays
    assert plan(shelf(*same[:-1]), Filter()).replays
    twice = [*same[:-1], same[-2]]
    assert plan(shelf(*twice), Filter()).replays, "two letters of one origin count once"


def test_a_cut_payload_is_not_replayed() -> None:
    long = letter(topic=URLS, payload=b"x" * (MAX_PAYLOAD_BYTES + 1))
    assert plan(shelf(long), Filter()).skipped == {"message too long to be kept whole": 1}


@pytest.mark.parametrize(
    ("wanted", "urls"),
    [
        (Filter(), ["1", "2", "3"]),
        (Filter(host="b.example"), ["2"]),
        (Filter(crawl="other"), ["3"]),
        (Filter(since_ms=2_000), ["2", "3"]),
        (Filter(reasons=frozenset({"incomplete"})), ["2"]),
        (Filter(reasons=frozenset({"incomplete"}), crawl="other"), []),
    ],
)
def test_filters(wanted: Filter, urls: list[str]) -> None:
    rows = shelf(
        letter(1),
        letter(2, host="b.example", reason=Reason.INCOMPLETE, dead_at=2_000),
        letter(3, crawl="other", dead_at=3_000),
    )
    assert [found.row["url"].rpartition("/")[2] for found in rows.chosen(wanted)] == urls
    assert sum(by_reason(rows.chosen(wanted)).values()) == len(urls)


def test_unreadable_letters_are_counted() -> None:
    found = shelf(Out(DEAD_LETTERS, None, b"junk"), letter())
    assert (found.unreadable, len(found.letters)) == (1, 1)
