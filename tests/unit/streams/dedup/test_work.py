from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from aiokafka.errors import KafkaError
from faust.types import TP

from schemas import codec
from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
from schemas.topics import (
    DEAD_LETTERS,
    FETCH_REQUESTS,
    PROGRESS,
    SEEN_CHANGELOG,
    URLS,
)
from schemas.url import url_id
from streams.crawls.progress import Totals
from streams.dedup import outlet as outlets
from streams.dedup import work as works
from streams.dedup.outlet import KafkaOutlet
from streams.dedup.seeds import seed_batch
from streams.dedup.store import SeenStore
from streams.dedup.work import DedupWork
from streams.kafka.messages import Out
from streams.settings import load
from streams.telemetry.pulse import Pulse

SETTINGS = load({}, bootstrap_servers="127.0.0.1:1", partitions=1)


class FakeDirectory:
    def __init__(self, settings: Any) -> None:
        self.totals = Totals()
        self.specs = {"default": compile_rules(CrawlSpec(crawl="default"))}

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def catch_up(self, timeout_s: float) -> None: ...

    def rules(self, crawl: str) -> Any:
        return self.specs.get(crawl)

    def pages(self, crawl: str) -> int:
        return 0


class FakeBulk:
    def __init__(self, outlet: FakeOutlet, topic: str) -> None:
        self.outlet = outlet
        self.topic = topic
        self.values: list[bytes] = []

    def add(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        self.values.append(value)

    async def send(self) -> int | None:
        await self.outlet.open.wait()
        self.outlet.sent += [(self.topic, value) for value in self.values]
        return 0


class FakeOutlet:
    def __init__(self, settings: Any) -> None:
        self.sent: list[tuple[str, bytes | None]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def bulk(self, topic: str, partition: int) -> FakeBulk:
        return FakeBulk(self, topic)

    async def deliver(self, messages: Sequence[Out]) -> None:
        await self.open.wait()
        self.sent += [(message.topic, message.value) for message in messages]


class FakeStore:
    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.error: Exception | None = None

    def lookup(self, partition: int, keys: list[bytes]) -> list[bytes | None]:
        if self.error is not None:
            raise self.error
        return [self.rows.get(key) for key in keys]

    def write(self, partition: int, rows: Any, offset: int | None) -> None:
        self.rows.update(rows)


class FakeConsumer:
    def __init__(self) -> None:
        self.done_offsets: list[int] = []
        self.forgotten: list[int] = []
        self.asked = 0
        self.owner = True

    async def still_ours(self) -> bool:
        self.asked += 1
        await asyncio.sleep(0)
        return self.owner

    def ack(self, message: Any) -> bool:
        self.forgotten.append(message.offset)
        return False

    def done(self, message: Any) -> bool:
        self.done_offsets.append(message.offset)
        return bool(message.generation_id == 1)


class Bench:
    def __init__(self) -> None:
        self.store = FakeStore()
        self.consumer = FakeConsumer()
        self.work = DedupWork(
            SETTINGS, cast("SeenStore", self.store), lambda: self.consumer, Pulse()
        )
        self.outlet = cast("FakeOutlet", self.work.outlet)
        self.directory = cast("FakeDirectory", self.work.directory)

    async def take(self, offset: int, value: bytes | None, generation: int = 1) -> None:
        message = SimpleNamespace(
            partition=0,
            offset=offset,
            key=b"k",
            value=value,
            timestamp=1.0,
            generation_id=generation,
        )
        await self.work.accept(SimpleNamespace(message=message))

    async def settle(self, acks: int) -> None:
        async with asyncio.timeout(5):
            while len(self.consumer.done_offsets) < acks:  # noqa: ASYNC110 - a fake to watch
                await asyncio.sleep(0.001)

    def reasons(self) -> list[str]:
        return [
            codec.decode("dead-letter", value)["reason"]
            for topic, value in self.outlet.sent
            if topic == DEAD_LETTERS and value is not None
        ]


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(works, "Directory", FakeDirectory)
    monkeypatch.setattr(works, "KafkaOutlet", FakeOutlet)
    monkeypatch.setattr(works, "UNKNOWN_CRAWL_WAIT_S", 0.2)
    made = Bench()
    await made.work.start()
    await made.work.assigned({0}, 1)
    return made


async def test_counts_are_published_when_the_offset_is_committed(bench: Bench) -> None:
    await bench.take(0, b"https://a.example/\nhttps://a.example/")
    await bench.settle(1)
    assert [topic for topic, _ in bench.outlet.sent] == [FETCH_REQUESTS, SEEN_CHANGELOG]
    bench.work.committed({TP("urls", 0): 1})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    topic, value = bench.outlet.sent[-1]
    assert topic == PROGRESS
    assert value is not None
    row = codec.decode("progress", value)
    assert (row["stage"], row["topic"], row["offset"]) == ("dedup", URLS, 1)
    assert row["counters"] == {"admitted": 1, "duplicates": 1}
    assert (bench.work.new, bench.work.known, bench.work.refused) == (1, 1, 0)


async def test_a_bug_becomes_a_dead_letter_and_an_ack(bench: Bench) -> None:
    bench.store.error = ZeroDivisionError("a bug")
    await bench.take(0, b"https://a.example/")
    bench.store.error = None
    await bench.take(1, b"https://b.example/")
    await bench.settle(2)
    assert bench.reasons() == ["unexpected"]
    assert bench.consumer.done_offsets == [0, 1]


async def test_nothing_is_acked_before_a_dead_letter_is_delivered(bench: Bench) -> None:
    bench.outlet.open.clear()
    await bench.take(0, b"\xff")
    await bench.take(1, None)
    await asyncio.sleep(0.01)
    assert bench.consumer.done_offsets == []
    bench.outlet.open.set()
    await bench.settle(2)
    assert bench.reasons() == ["undecodable"]
    assert bench.work.tombstones == 1
    assert (bench.work.held, bench.work.held_bytes) == (0, 0)


async def test_a_message_of_an_old_generation_leads_to_nothing(bench: Bench) -> None:
    await bench.take(0, b"https://a.example/", generation=0)
    assert bench.outlet.sent == []
    assert bench.store.rows == {}
    assert bench.consumer.done_offsets == [0]


async def test_a_spec_on_its_way_is_waited_for_once(bench: Bench) -> None:
    late = asyncio.get_running_loop().call_later(
        0.05,
        lambda: bench.directory.specs.update(c1=compile_rules(CrawlSpec(crawl="c1"))),
    )
    await bench.take(0, b'{"url": "https://a.example/", "crawl": "c1"}')
    assert late.when() < asyncio.get_running_loop().time()
    assert bench.work.new == 1
    loop = asyncio.get_running_loop()
    await bench.take(1, b'{"url": "https://a.example/", "crawl": "never"}')
    began = loop.time()
    await bench.take(2, b'{"url": "https://b.example/", "crawl": "never"}')
    assert loop.time() - began < 0.1
    await bench.settle(3)
    assert bench.reasons() == ["unknown_crawl", "unknown_crawl"]


async def test_the_agent_waits_when_too_much_is_held(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(works, "MAX_HELD", 2)
    bench.outlet.open.clear()
    await bench.take(0, b"https://a.example/")
    await bench.take(1, b"https://b.example/")
    third = asyncio.create_task(bench.take(2, b"https://c.example/"))
    await asyncio.sleep(0.02)
    assert not third.done()
    assert bench.work.held == 2
    bench.outlet.open.set()
    await asyncio.wait_for(third, 5)
    await bench.settle(3)


@pytest.mark.parametrize("fault", ["silence", "refusal"])
async def test_a_delivery_that_fails_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    class Died(BaseException):
        pass

    def die(message: str) -> NoReturn:
        raise Died(message)

    async def delivery() -> None:
        if fault == "refusal":
            raise KafkaError("no")
        await asyncio.Event().wait()

    monkeypatch.setattr(outlets, "die", die)
    outlet = KafkaOutlet.__new__(KafkaOutlet)
    outlet._timeout_s = 0.05
    with pytest.raises(Died, match="3 messages"):
        await outlet.in_time(delivery(), "3 messages")


def stand_still(bench: Bench, seconds: float = SETTINGS.session_timeout_s + 1.0) -> None:
    bench.work.pulse._last -= seconds


@pytest.mark.parametrize("share", [0.7, 1.1])
async def test_a_worker_that_stood_still_asks_before_it_sends(bench: Bench, share: float) -> None:
    """The session may be over in less than its length: it runs since the last heartbeat."""
    stand_still(bench, SETTINGS.session_timeout_s * share)
    await bench.take(1, b"https://a.example/")
    await bench.settle(1)
    assert bench.consumer.asked >= 1
    assert bench.outlet.sent
    assert bench.consumer.done_offsets == [1]


async def test_what_became_anothers_in_a_standstill_is_neither_sent_nor_acked(
    bench: Bench,
) -> None:
    bench.consumer.owner = False
    stand_still(bench)
    for offset in (1, 2):
        await bench.take(offset, b"https://a.example/")
    async with asyncio.timeout(5):
        while bench.work.held:  # noqa: ASYNC110 - a fake to watch
            await asyncio.sleep(0.001)
    assert bench.consumer.forgotten == [1, 2]
    assert not bench.consumer.done_offsets
    assert not bench.outlet.sent
    bench.consumer.owner = True
    bench.work.pulse = Pulse()
    await bench.work.assigned({0}, 1)
    await bench.take(1, b"https://a.example/")
    await bench.settle(1)
    assert bench.outlet.sent


def repeat(path: str, host: str = "a.example") -> bytes:
    """A message of a page that tells what all others do, with two links that deepen it."""
    page = f"http://{host}{path}x/"
    links: list[Any] = [
        {"url": url, "url_id": url_id("default", url), "priority": 0, "lastmod_at": None}
        for url in (f"{page}a/", f"{page}b/")
    ]
    batch = {
        **seed_batch("default", links),
        "host": host,
        "via": "link",
        "depth": 1,
        "scope_host": host,
        "referrer": page,
        "sketch": bytes(20),
    }
    return codec.encode("url-batch", batch)


async def test_hosts_of_endless_spaces_are_counted_and_told_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(works.log, "warning", lambda _, **fields: told.append(fields))
    spec = CrawlSpec(crawl="default", trap_budget=1)
    bench.directory.specs["default"] = compile_rules(spec)
    for offset, path in enumerate(("/", "/q/", "/r/", "/s/")):
        await bench.take(offset, repeat(path))
    await bench.settle(4)
    bench.work.committed({TP(URLS, 0): 4})
    counts = bench.work.book.totals.counters()["default"]["dedup"]
    assert counts["rejected.trap"] == counts["trapped.a.example"] == 5
    assert told == [
        {"crawl": "default", "host": "a.example", "page": "http://a.example/q/x/"},
    ]


async def test_so_many_hosts_are_named_and_the_others_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(works, "MAX_TRAPS", 2)
    spec = CrawlSpec(crawl="default", trap_budget=1)
    bench.directory.specs["default"] = compile_rules(spec)
    hosts = ["a.example", "b.example", "c.example"]
    messages = [repeat(path, host=host) for host in hosts for path in ("/", "/q/")]
    for offset, value in enumerate(messages):
        await bench.take(offset, value)
    await bench.settle(6)
    bench.work.committed({TP(URLS, 0): 6})
    counts = bench.work.book.totals.counters()["default"]["dedup"]
    assert counts["rejected.trap"] == 3
    assert sorted(name for name in counts if name.startswith("trapped.")) == [
        "trapped.a.example",
        "trapped.b.example",
    ]
