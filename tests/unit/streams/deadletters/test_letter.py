"""The dead-letter builder: it fits, it is faithful, it never fails."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from schemas.codec import decode
from schemas.reasons import Reason
from schemas.topics import DEAD_LETTERS, MAX_MESSAGE_BYTES
from streams.deadletters.letter import HEAD_BYTES, MAX_PAYLOAD_BYTES, dead_letter, kind_of
from streams.kafka.messages import Source

if TYPE_CHECKING:
    from schemas.records import DeadLetter, FetchRequest

SOURCE = Source("fetch-requests", 3)

REQUEST: FetchRequest = {
    "crawl": "c",
    "url_id": b"i" * 16,
    "url": "http://a.example/x",
    "host": "a.example",
    "depth": 0,
    "scope_host": "a.example",
    "via": "seed",
    "referrer": "",
    "redirects": [],
    "seeded_at": 1,
    "discovered_at": 2,
    "priority": 0,
    "attempt": 5,
    "first_attempt_at": 77,
    "not_before": 0,
    "deferrals": 0,
    "first_reason": "connect_timeout",
    "last_reason": "connect",
    "last_detail": "",
    "etag": "",
    "last_modified": "",
    "replays": 2,
    "lastmod_at": None,
}


def _letter(value: bytes | None, key: bytes | None = b"a.example") -> DeadLetter:
    out = dead_letter(
        SOURCE, 9, key, value, reason=Reason.UNDECODABLE, stage="fetcher", detail="x", now_ms=5
    )
    assert out.topic == DEAD_LETTERS
    assert out.value is not None
    letter: DeadLetter = decode("dead-letter", out.value)
    return letter


def test_payload_is_kept_as_found() -> None:
    letter = _letter(b"\xff\x00raw")
    assert letter["payload"] == b"\xff\x00raw"
    assert not letter["payload_truncated"]
    assert (letter["origin_topic"], letter["origin_partition"], letter["origin_offset"]) == (
        "fetch-requests",
        3,
        9,
    )


@pytest.mark.parametrize("size", [MAX_PAYLOAD_BYTES + 1, MAX_MESSAGE_BYTES, 20_000_000])
def test_long_payload_is_replaced_by_head_size_and_hash(size: int) -> None:
    value = b"ab" * (size // 2) + b"c" * (size % 2)
    letter = _letter(value)
    assert letter["payload"] == value[:HEAD_BYTES]
    assert letter["payload_truncated"]
    assert letter["payload_bytes"] == size
    assert letter["payload_sha256"] == hashlib.sha256(value).digest()


def test_the_message_always_fits() -> None:
    request: FetchRequest = {**REQUEST, "url": "u" * 5_000_000, "first_reason": "r" * 1_000_000}
    out = dead_letter(
        SOURCE,
        9,
        b"k" * 4_000_000,
        b"v" * MAX_PAYLOAD_BYTES,
        reason=Reason.CONNECT,
        stage="fetcher",
        detail="d" * 4_000_000,
        request=request,
        attempts=5,
        now_ms=1,
    )
    assert out.value is not None
    assert out.key is not None
    assert len(out.value) + len(out.key) < MAX_MESSAGE_BYTES // 2


def test_history_of_the_request_is_kept() -> None:
    out = dead_letter(
        SOURCE,
        9,
        b"a.example",
        b"v",
        reason=Reason.CONNECT,
        stage="fetcher",
        request=REQUEST,
        attempts=5,
        now_ms=1,
    )
    assert out.value is not None
    letter = decode("dead-letter", out.value)
    assert letter["first_reason"] == "connect_timeout"
    assert letter["first_attempt_at"] == 77
    assert letter["replays"] == 2
    assert letter["attempts"] == 5
    assert letter["url_id"] == b"i" * 16


def test_first_failure_is_its_own_first_reason() -> None:
    request: FetchRequest = {**REQUEST, "first_reason": ""}
    out = dead_letter(
        SOURCE, 9, None, b"v", reason=Reason.TLS, stage="fetcher", request=request, attempts=1,
        now_ms=1,
    )  # fmt: skip
    assert out.value is not None
    assert decode("dead-letter", out.value)["first_reason"] == "tls"


def test_tombstones_and_lone_surrogates_do_not_fail() -> None:
    assert _letter(None)["payload"] == b""
    out = dead_letter(
        SOURCE, 0, None, b"", reason=Reason.UNEXPECTED, stage="fetcher", detail="\ud800x", now_ms=1
    )
    assert out.value is not None
    assert decode("dead-letter", out.value)["detail"] == "?x"


def test_kinds() -> None:
    assert kind_of(Reason.ROBOTS_DENIED) == "disregarded"
    assert kind_of(Reason.HTTP_4XX) == "failed"
    assert kind_of(Reason.UNKNOWN_CRAWL) == "failed"
