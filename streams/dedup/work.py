"""The work of the dedup agent: messages in, judged in order, handed to their partition's lane."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import structlog
from faust.types import TP

from schemas import codec
from schemas.admission import Rules
from schemas.errors import ContractError, TransientInfraError, UnknownSchemaError
from schemas.reasons import Reason
from schemas.records import UrlBatch
from schemas.topics import PROGRESS, URLS
from streams.crawls.directory import Directory
from streams.crawls.progress import TRAPPED, ProgressBook, progress_key
from streams.deadletters.letter import dead_letter
from streams.dedup import fastread, requests, seeds
from streams.dedup.lane import Lane, Work
from streams.dedup.outlet import KafkaOutlet
from streams.dedup.policy import Decision, Here, Letter, crawl_of, decide
from streams.dedup.store import SeenStore
from streams.kafka.messages import Out, Source
from streams.process.clock import now_ms
from streams.process.die import die
from streams.settings import Settings
from streams.telemetry.metrics import Metrics
from streams.telemetry.pulse import Pulse

log = structlog.get_logger(__name__)

STAGE: Final = "dedup"
MAX_HELD: Final = 5_000
"""Most messages judged and not yet acked."""
MAX_HELD_BYTES: Final = 32 * 1024 * 1024
UNKNOWN_CRAWL_WAIT_S: Final = 5.0
"""How long a batch waits for the spec of its crawl, which may be on its way."""
_UNKNOWN_CRAWL_MEMORY_S: Final = 30.0
MAX_TRAPS: Final = 20
"""Hosts of a partition and crawl that are named with their endless spaces; others only count."""
_DIRECTORY_S: Final = 30.0


class DedupWork:
    """State of one worker. The plain attributes are what metrics and health are made of."""

    def __init__(self, settings: Settings, store: SeenStore, consumer: Any, pulse: Pulse) -> None:
        self.settings = settings
        self.directory = Directory(settings)
        self.outlet = KafkaOutlet(settings)
        self.book = ProgressBook(STAGE, self.directory.totals)
        self.metrics = Metrics(STAGE)
        self.store = store
        self.new = 0
        """URLs admitted since the start."""
        self.known = 0
        """URLs found in the table, or twice in one message."""
        self.refused = 0
        """URLs rejected at admission."""
        self.tombstones = 0
        """Messages without a value."""
        self.undecodable = 0
        """Messages that could not be read or judged."""
        self.held = 0
        """Messages judged and not yet acked."""
        self.held_bytes = 0
        self.last_commit_at = time.monotonic()
        """Monotonic time of the last commit, or of the last time nothing was held."""
        self._consumer = consumer
        self._generation = -1
        self._lanes: dict[int, Lane] = {}
        self._room = asyncio.Event()
        self.pulse = pulse
        self._still_ours: asyncio.Future[bool] | None = None
        self._unknown: dict[str, float] = {}
        self._named: dict[tuple[int, str], set[str]] = {}
        self._publishing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connect and read the crawls."""
        requests.check_layout()
        fastread.check_layout()
        await self.outlet.start()
        await self.directory.start()

    async def stop(self) -> None:
        """Release everything; the lanes are empty by now."""
        self._close_lanes()
        if self._publishing:
            await asyncio.wait(self._publishing)
        await self.directory.stop()
        await self.outlet.stop()

    async def assigned(self, partitions: Iterable[int], generation: int) -> None:
        """Begin work on these partitions, whose tables are complete now."""
        await self.directory.catch_up(_DIRECTORY_S)
        self._close_lanes()
        self.book.revoked([Source(URLS, number) for number in range(self.settings.partitions)])
        self._generation = generation
        self._still_ours = None
        self._named.clear()
        self.metrics.inc("crawler_rebalances_total")
        for number in partitions:
            self._lanes[number] = Lane(
                number, self.outlet, self.store, self._finished, self._ours, self._forgotten
            )

    def _close_lanes(self) -> None:
        for lane in self._lanes.values():
            lane.closed = True
        self._lanes.clear()

    def committed(self, offsets: Mapping[TP, int]) -> None:
        """Publish the counts of what was committed."""
        self.last_commit_at = time.monotonic()
        now = now_ms()
        rows = [
            row
            for tp, offset in offsets.items()
            for row in self.book.committed(Source(URLS, tp.partition), offset, now)
        ]
        if rows:
            outs = [Out(PROGRESS, progress_key(row), codec.encode("progress", row)) for row in rows]
            task = asyncio.create_task(self.outlet.deliver(outs), name="progress")
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)

    async def accept(self, event: Any) -> None:
        """Judge one message and hand on what it leads to. Called for one message at a time.

        Whatever the message is, it is acked in the end: with its outputs delivered, or with a
        dead letter delivered. What our own side cannot do ends the process instead.
        """
        message = event.message
        while self.held >= MAX_HELD or self.held_bytes >= MAX_HELD_BYTES:
            self._room.clear()
            await self._room.wait()
        if self._stale(message):
            self._consumer().done(message)
            return
        try:
            work = await self._judge(message)
        except TransientInfraError as error:
            die(str(error))
        except ContractError as error:
            newer = isinstance(error, UnknownSchemaError)
            reason = Reason.UNKNOWN_SCHEMA if newer else Reason.UNDECODABLE
            work = self._unreadable(message, reason, str(error))
        except Exception as error:  # a bug must neither lose the message nor stop the others
            log.exception("unexpected failure", partition=message.partition, offset=message.offset)
            work = self._unreadable(message, Reason.UNEXPECTED, repr(error))
        if self._stale(message):
            self._consumer().done(message)
            return
        self.held += 1
        self.held_bytes += work.size_bytes
        self._lanes[message.partition].put(work)

    def _stale(self, message: Any) -> bool:
        """Whether the partition was taken away: whoever owns it now reads the message again."""
        return message.generation_id != self._generation or message.partition not in self._lanes

    def _finished(self, work: Work) -> None:
        """All of a message's outputs are delivered and written. Called in offset order."""
        self.held -= 1
        self.held_bytes -= work.size_bytes
        self._room.set()
        message = work.message
        if self._consumer().done(message) and work.counts:
            self.book.add(Source(URLS, message.partition), message.offset, work.counts)

    async def _ours(self) -> bool:
        """False after a standstill in which the partitions were taken away.

        It stays so until the next assignment. All lanes wait for one answer. The session ran since
        the last heartbeat, before the standstill began: half of it is surely short enough.
        """
        if self.pulse.stood_still(self.settings.session_timeout_s / 2):
            log.warning("the process stood still: are the partitions still its own?")
            self._still_ours = asyncio.ensure_future(self._consumer().still_ours())
        if self._still_ours is None:
            return True
        answer = self._still_ours
        if not await asyncio.shield(answer):
            return False
        if self._still_ours is answer:
            self._still_ours = None
        return True

    def _forgotten(self, work: Work) -> None:
        """A message whose partition was taken away before anything of it was sent."""
        self.held -= 1
        self.held_bytes -= work.size_bytes
        self._room.set()
        self._consumer().ack(work.message)

    async def _judge(self, message: Any) -> Work:
        value = message.value
        timestamp_ms = int(message.timestamp * 1000) if message.timestamp else now_ms()
        if value is None:
            self.tombstones += 1
            return Work(message, (), {}, (), {}, timestamp_ms, 0)
        here = Here(message.partition, self.settings.partitions, message.offset, timestamp_ms)
        lane = self._lanes[message.partition]
        found: list[tuple[UrlBatch, Decision]] = []
        for batch in seeds.read(value):
            crawl = crawl_of(batch)
            rules = self.directory.rules(crawl) or await self._late_rules(crawl)
            pages = self.directory.pages(crawl)
            found.append((batch, decide(batch, here, rules=rules, pages=pages, seen=lane.seen)))
        return self._work(message, found, timestamp_ms)

    async def _late_rules(self, crawl: str) -> Rules | None:
        """Rules of a crawl not known yet; None when its spec does not come in time."""
        if self._unknown.get(crawl, 0.0) > time.monotonic():
            return None
        deadline = time.monotonic() + UNKNOWN_CRAWL_WAIT_S
        while time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            rules = self.directory.rules(crawl)
            if rules is not None:
                return rules
        log.warning("batches of an unknown crawl are rejected", crawl=crawl[:64])
        self._unknown[crawl] = time.monotonic() + _UNKNOWN_CRAWL_MEMORY_S
        return None

    def _work(
        self, message: Any, found: list[tuple[UrlBatch, Decision]], timestamp_ms: int
    ) -> Work:
        pairs: list[tuple[bytes, bytes]] = []
        rows: dict[bytes, bytes] = {}
        outs: list[Out] = []
        counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for batch, decision in found:
            for admission in decision.admitted:
                key = admission.host.encode()
                encoded = requests.encode(batch, admission, timestamp_ms=timestamp_ms)
                pairs += [(key, value) for value in encoded]
            rows.update(decision.rows)
            outs += [
                Out(URLS, part["host"].encode(), codec.encode("url-batch", part))
                for part in decision.rekeyed
            ]
            outs += [self._letter(message, letter) for letter in decision.letters]
            if decision.counts:
                counts[decision.crawl] = decision.counts
                self._tally(decision)
            if decision.trapped:
                traps = self._traps(message.partition, batch, decision)
                counts[decision.crawl] = {**decision.counts, **traps}
        size_bytes = len(message.value) + 64 * len(rows)
        return Work(message, pairs, rows, outs, counts, timestamp_ms, size_bytes)

    def _tally(self, decision: Decision) -> None:
        new = decision.counts.get("admitted", 0)
        known = decision.counts.get("duplicates", 0)
        refused = sum(decision.counts.values()) - new - known
        self.new += new
        self.known += known
        self.refused += refused
        if new:
            self.metrics.inc("crawler_dedup_urls_total", "new", by=new)
        if known:
            self.metrics.inc("crawler_dedup_urls_total", "known", by=known)
        self.metrics.count({decision.crawl: decision.counts})

    def _traps(self, partition: int, batch: UrlBatch, decision: Decision) -> dict[str, int]:
        """Counters of the hosts whose spaces are endless, for `crawl status`: so many at most."""
        named = self._named.get((partition, decision.crawl))
        if named is None:
            known = self.directory.totals.of(STAGE, Source(URLS, partition), decision.crawl)
            named = {name for name in known if name.startswith(TRAPPED)}
            self._named[partition, decision.crawl] = named
        found = {}
        for host, refused in decision.trapped.items():
            name = TRAPPED + host
            if name not in named and len(named) < MAX_TRAPS:
                named.add(name)
                log.warning(
                    "an endless space: the trap budget of a host is spent",
                    crawl=decision.crawl,
                    host=host,
                    page=batch["referrer"],
                )
            if name in named:
                found[name] = refused
        return found

    def _letter(self, message: Any, letter: Letter) -> Out:
        self.metrics.inc("crawler_dead_letters_total", letter.reason)
        return dead_letter(
            Source(URLS, message.partition),
            message.offset,
            message.key,
            message.value if letter.payload is None else letter.payload,
            reason=letter.reason,
            stage=STAGE,
            detail=letter.detail,
            now_ms=now_ms(),
        )

    def _unreadable(self, message: Any, reason: Reason, detail: str) -> Work:
        self.undecodable += 1
        out = self._letter(message, Letter(reason, detail, None))
        return Work(message, (), {}, (out,), {}, now_ms(), len(message.value or b""))
