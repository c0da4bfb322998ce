"""The cases of lost and repeated messages (kaf-, psn-, ddp-, big-03), one test or pointer each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fetchers.policy.retry import after_failure
from fetchers.worker.messages import retried
from fetchers.worker.work import Unusable, read
from schemas.admission import compile_rules
from schemas.codec import decode, encode
from schemas.crawl import CrawlSpec
from schemas.errors import ContractError
from schemas.reasons import REASONS, Reason
from schemas.records import FetchRequest
from schemas.topics import FETCH_REQUESTS, MAX_MESSAGE_BYTES, partition_of
from streams.deadletters.letter import HEAD_BYTES, dead_letter
from streams.dedup import requests, seeds
from streams.dedup.policy import Here, decide
from streams.dedup.store import Memory, SeenStore
from streams.delivery.ledger import (
    ALONE_AFTER_DEATHS,
    NO_METADATA,
    POISON_AFTER_DEATHS,
    OffsetLedger,
    decode_metadata,
    encode_metadata,
)
from streams.delivery.stage import Delivery
from streams.kafka.messages import Source
from streams.settings import load
from tests.cases import case, ids
from tests.unit.parsers.parsing import parsed
from tests.unit.sim.crawl import Crawl, Fault
from tests.unit.sim.stages import batch
from tests.unit.sim.web import make_web

ELSEWHERE = {
    "kaf-01": "tests/integration/test_runtime_delivery.py",
    "kaf-04": "tests/unit/streams/delivery/test_ledger.py",
    "kaf-06": "tests/integration/test_runtime_faults.py",
    "kaf-07": "tests/integration/test_runtime_faults.py",
    "kaf-09": "tests/integration/test_runtime_delivery.py",
    "psn-04": "tests/integration/test_runtime_faults.py",
}
"""Cases that need a broker or live beside their module: the test's name has the id."""


def test_every_case_of_these_kinds_is_a_test() -> None:
    here = Path(__file__).read_text("utf-8")
    for kind in ("kaf-", "psn-", "ddp-", "big-03"):
        for case_id in ids(kind):
            file = ELSEWHERE.get(case_id)
            text = Path(file).read_text("utf-8") if file else here
            assert f"def test_{case_id.replace('-', '_')}_" in text, case_id


def heir_of(ledger: OffsetLedger, *, clean: bool) -> OffsetLedger:
    """The next owner, from what the last commit of this one says."""
    at = ledger.committable
    text = encode_metadata(at, ledger.metadata(clean=clean))
    return OffsetLedger(at, decode_metadata(at, text))


def test_kaf_03_the_group_resumes_at_the_message_that_failed() -> None:
    assert case("kaf-03")["expected"]["group_resumes_at"] == "N"
    ledger = OffsetLedger(10, NO_METADATA)
    for offset in (10, 11, 12):
        ledger.deliver(offset)
    for offset in (10, 12):
        ledger.complete(offset)
    heir = heir_of(ledger, clean=True)
    assert heir.start == 11
    assert [heir.deliver(offset) for offset in (11, 12)] == [True, False]


@pytest.mark.parametrize("record", case("psn-01")["input"]["records"])
def test_psn_01_no_value_or_an_empty_one_never_raises(record: dict[str, Any]) -> None:
    value = None if record.get("value", "") is None else record["value_latin1"].encode()
    key = record["key"].encode() if record["key"] else None
    door: Any = None
    found = read(Delivery(Source(FETCH_REQUESTS, 0), 0, key, value, 0, 0, door))
    assert isinstance(found, Unusable)
    assert found.reason is Reason.UNDECODABLE
    if value is not None:
        with pytest.raises(ContractError):
            list(seeds.read(value))


def a_request() -> FetchRequest:
    link = batch("a.test", ["http://a.test/"], depth=0)
    rules = compile_rules(CrawlSpec(crawl="default", scope="any"))
    partition = partition_of(b"a.test", 4)
    judged: Any = link
    found = decide(
        judged, Here(partition, 4, 0, 1), rules=rules, pages=0, seen=lambda keys: [None] * len(keys)
    )
    [admission] = found.admitted
    return requests.request(judged, admission, admission.links[0], timestamp_ms=1)


def test_psn_03_attempts_are_counted_in_the_message_over_restarts() -> None:
    """Each attempt is made by a process that knows nothing but the message."""
    reason, request, attempts = Reason.HTTP_502, a_request(), 0
    while True:
        request = decode("fetch-request", encode("fetch-request", request))
        attempts += 1
        retry = after_failure(
            reason, request["attempt"], tiers_s=load({}).retry_tiers_s, jitter=0.5
        )
        if retry is None:
            break
        request = retried(request, reason=reason, detail="", now_ms=1, wait_s=retry.wait_s)
    assert attempts == REASONS[reason].max_attempts == case("psn-03")["expected"]["attempts"]


def test_psn_06_a_killer_is_known_to_its_heirs_and_parked_after_three_deaths() -> None:
    """The death before its beginning was recorded is the one that puts its heir on guard."""
    ledger = OffsetLedger(5, NO_METADATA)
    for offset in (5, 6, 7):
        ledger.deliver(offset)
    ledger.complete(5)
    for deaths in range(case("psn-06")["input"]["max_attempts"]):
        ledger = heir_of(ledger, clean=False)
        assert ledger.deaths(7) == deaths
        assert (ledger.deaths(7) >= ALONE_AFTER_DEATHS) == (deaths >= 2)
        for offset in (6, 7):
            assert ledger.deliver(offset)
            assert ledger.guarded(offset)
        ledger.begin(7)
    last = heir_of(ledger, clean=False)
    assert last.deaths(7) == POISON_AFTER_DEATHS == case("psn-06")["input"]["max_attempts"]
    assert last.deaths(6) == 0


def test_ddp_01_a_worker_that_dies_before_the_response_loses_no_seen_url() -> None:
    web, seeds_ = make_web(3, 60, hosts=4)
    faults = [Fault(at, "kill", "fetcher", number) for at in (2.0, 3.5, 5.0) for number in (0, 1)]
    verdict = Crawl(web, seeds_, [0.37, 0.91, 0.12], fetch_limit=3, fetch_s=1.0).run(faults)
    assert verdict.sound, verdict
    assert verdict.allowance > 0


def test_ddp_03_the_filter_alone_never_drops_an_unseen_url(tmp_path: Path) -> None:
    """More keys than any filter bit pattern tells apart: each miss is confirmed by the store."""
    app: Any = SimpleNamespace(conf=SimpleNamespace(table_key_index_size=9, tabledir=tmp_path))
    table: Any = SimpleNamespace(changelog_topic=SimpleNamespace(topics=["log"]))
    store = SeenStore(
        "rocksdb://", app, table, table_name="seen", key_type=bytes, value_type=bytes,
        options={"driver": "rocksdict"}, memory=Memory(32 << 20), partitions=1,
    )  # fmt: skip
    known = [os.urandom(16) for _ in range(20_000)]
    store.write(0, [(key, b"x" * 12) for key in known], 1)
    store._db_for_partition(0).flush()
    unseen = [os.urandom(16) for _ in range(20_000)]
    assert not any(store.lookup(0, unseen))
    assert all(store.lookup(0, known))


def test_ddp_04_twenty_finders_of_one_url_lead_to_one_request() -> None:
    url, table = "http://a.test/new", dict[bytes, bytes]()
    rules = compile_rules(CrawlSpec(crawl="default", scope="any"))
    partitions = {partition_of(b"a.test", 12) for _ in range(20)}
    assert len(partitions) == 1

    def seen(keys: list[bytes]) -> Sequence[bytes | None]:
        return [table.get(key) for key in keys]

    admitted = 0
    for offset in range(20):
        judged: Any = batch("a.test", [url, url], depth=1)
        here = Here(partitions.copy().pop(), 12, offset, 1)
        decision = decide(judged, here, rules=rules, pages=0, seen=seen)
        table.update(decision.rows)
        admitted += decision.new
    assert admitted == case("ddp-04")["expected"]["fetches"]


def test_ddp_06_canonical_links_are_a_hint_and_no_identity() -> None:
    pages = {"http://a.test/a": "http://a.test/b", "http://a.test/b": "http://a.test/a"}
    rules = compile_rules(CrawlSpec(crawl="default", scope="any"))
    judged: Any = batch("a.test", list(pages), depth=1)
    here = Here(partition_of(b"a.test", 4), 4, 0, 1)
    decision = decide(judged, here, rules=rules, pages=0, seen=lambda keys: [None] * len(keys))
    assert decision.new == 2
    for url, other in pages.items():
        page = f"<html><head><link rel=canonical href='{other}'></head><body>x</body></html>"
        record = parsed(page.encode(), url=url).record
        assert record["url"] == url
        assert record["canonical_url"] == other


@pytest.mark.parametrize(
    "size", [case("big-03")["input"]["message_bytes"], MAX_MESSAGE_BYTES - 100]
)
def test_big_03_the_dead_letter_of_the_largest_message_fits(size: int) -> None:
    value = os.urandom(64) * (size // 64)
    out = dead_letter(
        Source(FETCH_REQUESTS, 0), 7, b"k", value,
        reason=Reason.UNDECODABLE, stage="fetcher", detail="d" * 2_000, now_ms=1,
    )  # fmt: skip
    assert out.value is not None
    assert len(out.value) < MAX_MESSAGE_BYTES
    letter = decode("dead-letter", out.value)
    assert letter["payload_bytes"] == len(value)
    if letter["payload_truncated"]:
        assert letter["payload"] == value[:HEAD_BYTES]
        assert len(letter["payload_sha256"]) == 32
    else:
        assert letter["payload"] == value
