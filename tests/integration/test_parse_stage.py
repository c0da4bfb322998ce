"""The parse stage with real parse processes: crashes, deadlines, pipelining, large bodies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from parsers.worker.pool import MAX_DEATHS
from parsers.worker.stage import ParseStage
from schemas.admission import Rules, compile_rules
from schemas.codec import decode, encode
from schemas.crawl import CrawlSpec
from schemas.topics import DEAD_LETTERS, RECORDS, URLS
from streams.delivery.stage import Context, Delivery
from streams.kafka.messages import Out, Source
from streams.settings import load
from streams.telemetry.metrics import Metrics
from tests.unit.parsers.parsing import fetch_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

SOURCE = Source("fetch-results", 0)


class Ledger:
    def __init__(self) -> None:
        self.completed: dict[int, Any] = {}

    async def begin(self, delivery: Delivery) -> bool:
        return True

    def put_back(self, delivery: Delivery) -> None: ...

    def complete(self, delivery: Delivery, counts: Any) -> bool:
        assert delivery.offset not in self.completed
        self.completed[delivery.offset] = counts
        return True

    def current(self, delivery: Delivery) -> bool:
        return True


class Outputs:
    def __init__(self) -> None:
        self.messages: list[Out] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def deliver(self, messages: Sequence[Out]) -> None:
        await self.gate.wait()
        self.messages.extend(messages)

    def of(self, topic: str, schema: str) -> list[dict[str, Any]]:
        return [decode(schema, one.value or b"") for one in self.messages if one.topic == topic]


class Crawls:
    def __init__(self, **rules: Any) -> None:
        self.known: dict[str, Rules] = {"c": compile_rules(CrawlSpec(crawl="c", **rules))}

    def rules(self, crawl: str) -> Rules | None:
        return self.known.get(crawl)

    def pages(self, crawl: str) -> int:
        return 0


class Scene:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stage = ParseStage()
        self.ledger, self.outputs, self.crawls = Ledger(), Outputs(), Crawls()
        self.offered = 0

    async def start(self, **settings: Any) -> None:
        values = {"parse_deadline_s": 1.0, "data_dir": self.folder, **settings}
        context = Context(load({}, **values), self.outputs, self.crawls, Metrics("parser"))
        await self.stage.start(context)
        self.stage.assigned(frozenset([SOURCE]))

    def offer(self, value: bytes | None, key: bytes | None = None) -> None:
        key = key or b"%d" % self.offered
        delivery = Delivery(SOURCE, self.offered, key, value, 0, 1, self.ledger)
        self.offered += 1
        self.stage.offer(delivery)

    def page(self, body: bytes, **changes: Any) -> None:
        url = f"http://a.example/p{self.offered}"
        self.offer(encode("fetch-result", fetch_result(body, url=url, **changes)))

    async def settle(self, limit_s: float = 60.0) -> None:
        async with asyncio.timeout(limit_s):
            while len(self.ledger.completed) < self.offered:  # noqa: ASYNC110 - no event here
                await asyncio.sleep(0.01)

    def records(self) -> list[dict[str, Any]]:
        return self.outputs.of(RECORDS, "record")

    def letters(self) -> list[dict[str, Any]]:
        return self.outputs.of(DEAD_LETTERS, "dead-letter")

    def processes(self) -> list[psutil.Process]:
        found = psutil.Process().children()
        return [one for one in found if "parsers.worker.child" in " ".join(one.cmdline())]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(tmp_path)
    yield made
    await made.stage.stop()
    assert made.processes() == []


async def test_documents_become_records_and_links(scene: Scene) -> None:
    await scene.start(parse_processes=2)
    for at in range(200):
        scene.page(b"<a href=/nav><a href=/%d>" % at)
    await scene.settle()
    assert {record["url"] for record in scene.records()} == {
        f"http://a.example/p{at}" for at in range(200)
    }
    assert all(one.key == b"a.example" for one in scene.outputs.messages if one.topic == URLS)
    sent = [link["url"] for batch in scene.outputs.of(URLS, "url-batch") for link in batch["links"]]
    assert {f"http://a.example/{at}" for at in range(200)} <= set(sent)
    assert 1 <= sent.count("http://a.example/nav") < 200
    assert scene.stage.totals["records"] == 200
    assert scene.stage.room(SOURCE) == 200


async def test_links_are_known_only_when_they_were_delivered(scene: Scene) -> None:
    await scene.start()
    scene.outputs.gate.clear()
    scene.page(b"<a href=/nav>")
    scene.page(b"<a href=/nav>")
    await asyncio.sleep(1.0)
    assert scene.ledger.completed == {}
    scene.outputs.gate.set()
    await scene.settle()
    scene.page(b"<a href=/nav>")
    await scene.settle()
    counts = [scene.ledger.completed[at]["c"] for at in range(3)]
    assert [one.get("links_sent", 0) for one in counts] == [1, 1, 0]
    assert counts[2]["links_known"] == 1


async def test_a_changed_spec_reaches_the_processes_and_empties_what_they_know(
    scene: Scene,
) -> None:
    await scene.start()
    scene.page(b"<a href=/nav>")
    await scene.settle()
    scene.crawls.known["c"] = compile_rules(CrawlSpec(crawl="c", exclude=("/x",)))
    scene.page(b"<a href=/nav><a href=/x>")
    await scene.settle()
    assert scene.ledger.completed[1]["c"]["links_sent"] == 1
    assert scene.ledger.completed[1]["c"]["rejected.excluded"] == 1


async def test_messages_that_are_no_results_are_buried(scene: Scene) -> None:
    await scene.start()
    scene.offer(b"junk")
    scene.offer(None)
    scene.offer(b"")
    scene.offer(b"\xc3\x01" + b"\0" * 20)
    scene.offer(encode("fetch-result", fetch_result(b"x"))[:-3])
    scene.page(b"x", body_coding="zstd")
    scene.page(b"", body_ref="00/none.bin", body_bytes=9)
    await scene.settle()
    assert sorted(letter["reason"] for letter in scene.letters()) == [
        "body_missing",
        "undecodable",
        "undecodable",
        "undecodable",
        "undecodable",
        "undecodable",
        "unknown_schema",
    ]
    assert {letter["stage"] for letter in scene.letters()} == {"parser"}


async def test_the_result_of_an_unknown_crawl_waits_for_its_spec(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsers.worker.stage.UNKNOWN_CRAWL_S", 1.0)
    await scene.start()
    scene.page(b"x", crawl="late")
    scene.page(b"x", crawl="never")
    await asyncio.sleep(0.2)
    scene.crawls.known["late"] = compile_rules(CrawlSpec(crawl="late"))
    await scene.settle()
    assert [record["crawl"] for record in scene.records()] == ["late"]
    assert [letter["reason"] for letter in scene.letters()] == ["unknown_crawl"]


SLOW = b"".join(b"<p><font color=%d>" % at for at in range(4_000))
"""Formatting elements are reopened in each paragraph: quadratic, and past the guard."""


async def test_a_document_beyond_the_deadline_is_given_up_alone(scene: Scene) -> None:
    await scene.start(parse_deadline_s=0.2, parse_memory_mb=4_096)
    for at in range(40):
        scene.page(SLOW if at == 7 else b"<a href=/%d>" % at)
    await scene.settle()
    (letter,) = scene.letters()
    assert letter["reason"] == "parse_deadline"
    assert letter["url"] == "http://a.example/p7"
    assert len({record["url"] for record in scene.records()}) == 39
    assert scene.stage.pool.deaths == {"deadline": 1}


async def test_a_document_that_kills_its_process_is_parked_after_three_deaths(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plugin = tmp_path / "killer"
    (plugin / "killer-1.dist-info").mkdir(parents=True)
    (plugin / "killer-1.dist-info" / "METADATA").write_text("Name: killer\nVersion: 1\n")
    (plugin / "killer-1.dist-info" / "entry_points.txt").write_text(
        "[crawlstream.extractors]\nkiller = killer:run\n"
    )
    (plugin / "killer.py").write_text(
        "import os, signal\n"
        "def run(page):\n"
        "    if b'die' in page.body: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return {}\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{plugin}{os.pathsep}{Path.cwd()}")
    scene.crawls.known["c"] = compile_rules(CrawlSpec(crawl="c", plugins=("killer",)))
    await scene.start()
    for at in range(60):
        scene.page(b"die" if at in (5, 6) else b"<a href=/%d>" % at)
    await scene.settle()
    assert scene.stage.pool.deaths == {"crash": 2 * MAX_DEATHS}
    assert sorted(letter["url"] for letter in scene.letters()) == [
        "http://a.example/p5",
        "http://a.example/p6",
    ]
    assert {letter["reason"] for letter in scene.letters()} == {"parse_crash"}
    assert {letter["attempts"] for letter in scene.letters()} == {MAX_DEATHS}
    assert len({record["url"] for record in scene.records()}) == 58


async def test_a_document_beyond_the_memory_limit_does_not_take_the_worker_along(
    scene: Scene,
) -> None:
    await scene.start(parse_memory_mb=128, parse_deadline_s=20)
    scene.page(b"<b>x</b>" * 1_000_000)
    scene.page(b"<a href=/after>")
    await scene.settle(120)
    assert {record["url"] for record in scene.records()} >= {"http://a.example/p1"}
    assert [letter["reason"] in ("parse_crash", "parse_error") for letter in scene.letters()] == [
        True
    ]


async def test_processes_killed_from_outside_lose_nothing(scene: Scene) -> None:
    await scene.start(parse_processes=2)
    for at in range(600):
        scene.page(b"<p>" + b"text " * 500 + b"<a href=/%d>" % at)
    for _ in range(3):
        await asyncio.sleep(0.15)
        for process in scene.processes():
            process.send_signal(signal.SIGKILL)
    await scene.settle()
    assert len({record["url"] for record in scene.records()}) == 600
    assert scene.letters() == []


async def test_revoked_partitions_are_finished_or_forgotten(scene: Scene) -> None:
    await scene.start()
    for at in range(150):
        scene.page(b"<a href=/%d>" % at)
    await scene.stage.revoke(frozenset([SOURCE]))
    assert scene.stage.room(SOURCE) == 200
    done = len(scene.ledger.completed)
    assert done <= 150
    await asyncio.sleep(0.3)
    assert len(scene.ledger.completed) == done
    assert len(scene.records()) == done


async def test_results_of_one_url_become_records_in_the_order_of_their_fetches(
    scene: Scene,
) -> None:
    """The last record of a URL is what it became, however long those before it took."""
    await scene.start(parse_processes=2, parse_deadline_s=30.0)
    while not all(one.ready for one in scene.stage.pool._processes):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    for attempt, size in enumerate((50_000, 10_000, 1), 1):
        body = b"<p>text</p>" * size
        result = fetch_result(body, url="http://a.example/", attempt=attempt)
        scene.offer(encode("fetch-result", result), result["url_id"])
    scene.page(b"another URL does not wait")
    await scene.settle()
    of_one = [one for one in scene.records() if one["url"] == "http://a.example/"]
    assert [one["attempt"] for one in of_one] == [1, 2, 3]
    assert scene.stage.room(SOURCE) == 200
    assert scene.stage._turns == {}


async def test_what_waits_for_its_turn_is_forgotten_with_its_partition(scene: Scene) -> None:
    await scene.start()
    for _ in range(30):
        scene.offer(encode("fetch-result", fetch_result(b"x")), b"one")
    await scene.stage.revoke(frozenset([SOURCE]))
    assert scene.stage.room(SOURCE) == 200
    assert len(scene.ledger.completed) <= 1
    assert scene.stage._turns == {}


async def test_the_event_loop_is_never_blocked(scene: Scene) -> None:
    await scene.start(parse_deadline_s=3.0)
    for _ in range(2):
        scene.page(SLOW)
    worst = 0.0
    while len(scene.ledger.completed) < 2:
        before = time.perf_counter()
        await asyncio.sleep(0.005)
        worst = max(worst, time.perf_counter() - before)
    assert worst < 0.5


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", ["sitemap", "feed"])
async def test_a_huge_document_is_read_with_flat_memory(
    scene: Scene, tmp_path: Path, kind: str
) -> None:
    size_mb = int(os.environ.get("HUGE_MB", "64"))
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    head, entry, tail = {
        "sitemap": (b"<urlset>", b"<url><loc>http://a.example/%012d</loc></url>\n", b"</urlset>"),
        "feed": (
            b"<rss><channel>",
            b"<item><link>http://a.example/%012d</link><title>&lt;p&gt;text</title></item>\n",
            b"</channel></rss>",
        ),
    }[kind]
    per_piece = 1024 * 1024 // len(entry)
    with (blobs / "huge.bin").open("wb") as file:
        file.write(head)
        at = 0
        while file.tell() < size_mb * 1024 * 1024:
            file.write(b"".join(entry % number for number in range(at, at + per_piece)))
            at += per_piece
        file.write(tail)
    scene.crawls.known["c"] = compile_rules(CrawlSpec(crawl="c", max_links=100_000))
    await scene.start(parse_deadline_s=5.0)
    (process,) = scene.processes()
    scene.page(b"<a href=/warm>")
    await scene.settle()
    before = process.memory_info().rss
    scene.page(b"", content_type="text/xml", body_ref="huge.bin", body_bytes=size_mb * 1024 * 1024)
    peak = before
    while len(scene.ledger.completed) < 2:
        await asyncio.sleep(0.02)
        peak = max(peak, process.memory_info().rss)
    print(f"{kind} of {size_mb} MB: growth {(peak - before) / 1e6:.0f} MB")
    assert peak - before < 100 * 1024 * 1024
    counts = scene.ledger.completed[1]["c"]
    assert counts["links_sent"] == 100_000
    assert counts["rejected.too_many_links"] == at - 100_000
    assert scene.stage.pool.deaths == {}
