"""A parse process: `python -m parsers.worker.child SOCKET CURSOR CONFIG`, started by `pool`.

It reads documents from a socket, parses one after the other, and writes back messages ready to
produce. It may die at any time, by the CPU timer, by its memory limit or by a fault in a library:
its parent sees from the shared cursor which document was in hand. It ends when its parent does.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import zstandard

from parsers.links.lru import RecentIds
from parsers.records.parse import CrawlParser, Failure, Parsed
from parsers.worker import wire
from parsers.worker.encode import encode_batches, encode_record
from schemas.admission import Rules, compile_rules
from schemas.codec import decode
from schemas.crawl import CrawlSpec
from schemas.errors import CrawlError, DecodeError, TransientInfraError, UnknownSchemaError
from schemas.reasons import Reason
from streams.process.clock import now_ms
from streams.process.collector import relax

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from schemas.records import FetchResult
    from streams.kafka.blobs import BlobStore
    from streams.settings import Settings

EXIT_MEMORY: Final = 86
"""The memory limit was met in Python code."""
MAX_CRAWLS: Final = 8
"""Crawls whose link memories are kept; those used last."""
KNOWN_LINKS: Final = 200_000
"""URL ids remembered per crawl as delivered, about 100 bytes each."""
_READ_BYTES: Final = 262_144
_FLUSH_BYTES: Final = 65_536
_FLUSH_S: Final = 0.005


class Config(NamedTuple):
    """What a parse process is told at its start."""

    agent: str
    deadline_s: float
    memory_mb: int
    max_html_bytes: int
    blob_url: str | None
    data_dir: str

    @classmethod
    def of(cls, settings: Settings) -> Config:
        """From the settings."""
        return cls(
            agent=settings.agent or "",
            deadline_s=settings.parse_deadline_s,
            memory_mb=settings.parse_memory_mb,
            max_html_bytes=settings.max_html_bytes,
            blob_url=settings.blob_url,
            data_dir=str(settings.data_dir),
        )


class Crawl(NamedTuple):
    """A crawl as a parse process keeps it."""

    parser: CrawlParser
    known: RecentIds


class Crawls:
    """Specs of all crawls seen, and parsers of those used last."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._rules: dict[str, Rules] = {}
        self._crawls: OrderedDict[str, Crawl] = OrderedDict()

    def submit(self, spec: CrawlSpec) -> None:
        """Take a new revision. What was delivered under the old one may be wanted again."""
        self._rules[spec.crawl] = compile_rules(spec)
        self._crawls.pop(spec.crawl, None)

    def get(self, crawl: str) -> Crawl:
        """The crawl of a document; its spec was sent before it."""
        found = self._crawls.get(crawl)
        if found is not None:
            self._crawls.move_to_end(crawl)
            return found
        known: RecentIds = RecentIds(KNOWN_LINKS)
        parser = CrawlParser(
            self._rules[crawl],
            agent=self._config.agent,
            max_html_bytes=self._config.max_html_bytes,
            known=known,
        )
        made = self._crawls[crawl] = Crawl(parser, known)
        if len(self._crawls) > MAX_CRAWLS:
            self._crawls.popitem(last=False)
        return made


class Child:
    """The loop of a parse process."""

    def __init__(self, sock: socket.socket, cursor: mmap.mmap, config: Config) -> None:
        self._sock = sock
        self._cursor = cursor
        self._config = config
        self._crawls = Crawls(config)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flushed_at = time.monotonic()
        self._undelivered: dict[int, tuple[RecentIds, list[bytes]]] = {}
        self._inflate = zstandard.ZstdDecompressor()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._blobs: BlobStore | None = None

    def run(self) -> None:
        """Work until the parent closes the socket."""
        self._send(wire.frame(wire.Kind.READY))
        self._flush()
        frames = wire.Frames()
        while data := self._sock.recv(_READ_BYTES):
            for one in frames.feed(data):
                self._handle(one)
            self._flush()

    def _handle(self, one: wire.Frame) -> None:
        if one.kind is wire.Kind.DOCUMENT:
            wire.CURSOR.pack_into(self._cursor, 0, one.number)
            signal.setitimer(signal.ITIMER_PROF, self._config.deadline_s)
            try:
                self._document(one.number, one.payload)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            wire.CURSOR.pack_into(self._cursor, 0, 0)
        elif one.kind is wire.Kind.SPEC:
            self._crawls.submit(CrawlSpec.model_validate_json(one.payload))
        elif one.kind is wire.Kind.DELIVERED:
            for number in struct.unpack(f"<{len(one.payload) // 8}Q", one.payload):
                known, ids = self._undelivered.pop(number, (None, ()))
                if known is not None:
                    for identity in ids:
                        known.add(identity)

    def _document(self, number: int, message: bytes) -> None:
        begun = time.process_time()
        try:
            result: FetchResult = decode("fetch-result", message)
            crawl = self._crawls.get(result["crawl"])
            chunks = self._chunks(result)
            parsed = self._parse(number, crawl, result, chunks)
        except UnknownSchemaError as error:
            parsed = Failure(Reason.UNKNOWN_SCHEMA, str(error))
        except (DecodeError, zstandard.ZstdError) as error:
            parsed = Failure(Reason.UNDECODABLE, str(error))
        except TransientInfraError as error:
            self._send(wire.frame(wire.Kind.LATER, number, str(error).encode()))
            return
        except (
            CrawlError
        ) as error:  # streams.kafka.blobs.BlobMissingError, not loaded for small bodies
            parsed = Failure(Reason.BODY_MISSING, str(error))
        if isinstance(parsed, Failure):
            said = {"reason": parsed.reason.value, "detail": parsed.detail}
            self._send(wire.frame(wire.Kind.FAILED, number, json.dumps(said).encode()))
            return
        record = parsed.record
        messages = [encode_record(record), *encode_batches(parsed.batches)]
        if parsed.sent:
            self._undelivered[number] = (crawl.known, parsed.sent)
        facts = {
            "kind": record["kind"],
            "cpu_s": round(time.process_time() - begun, 6),
            "seeded_at": record["seeded_at"],
            "discovered_at": record["discovered_at"],
            "counts": parsed.counts,
            "issues": sorted({code.partition(":")[0] for code in record["issues"]}),
        }
        self._send(wire.frame(wire.Kind.DONE, number, wire.pack_messages(facts, messages)))

    def _parse(
        self, number: int, crawl: Crawl, result: FetchResult, chunks: Iterable[bytes]
    ) -> Parsed | Failure:
        steps = crawl.parser.stream(result, chunks, now_ms())
        while True:
            try:
                batches = next(steps)
            except StopIteration as stop:
                parsed: Parsed | Failure = stop.value
                return parsed
            signal.setitimer(signal.ITIMER_PROF, self._config.deadline_s)
            if batches or time.monotonic() - self._flushed_at > 1.0:
                payload = wire.pack_messages({}, encode_batches(batches))
                self._send(wire.frame(wire.Kind.PART, number, payload))
                self._flush()

    def _chunks(self, result: FetchResult) -> Iterable[bytes]:
        """The decoded body: in one piece when it came along, else in pieces from the store."""
        if result["body_ref"]:
            return self._from_store(result["body_ref"], result["body_coding"])
        body = result["body"]
        if body and result["body_coding"] == "zstd":
            body = self._inflate.decompress(body, max_output_size=max(1, result["body_bytes"]))
        return (body,) if body else ()

    def _from_store(self, key: str, coding: str) -> Iterator[bytes]:
        if self._loop is None or self._blobs is None:
            from streams.kafka.blobs import BlobStore
            from streams.settings import Settings

            self._loop = asyncio.new_event_loop()
            settings = Settings(
                blob_url=self._config.blob_url, data_dir=Path(self._config.data_dir)
            )
            self._blobs = BlobStore.open(settings)
        pieces: AsyncIterator[bytes] = self._blobs.stream_body(key, coding)
        while True:
            try:
                piece = self._loop.run_until_complete(anext(pieces))
            except StopAsyncIteration:
                return
            yield piece

    def _send(self, data: bytes) -> None:
        """Send soon: waking the parent for each document would cost more than parsing some."""
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes > _FLUSH_BYTES or time.monotonic() - self._flushed_at > _FLUSH_S:
            self._flush()

    def _flush(self) -> None:
        if self._out:
            self._sock.sendall(b"".join(self._out))
            self._out.clear()
            self._out_bytes = 0
        self._flushed_at = time.monotonic()


def limit_memory(extra_mb: int) -> None:
    """Allow this process so much address space beyond what it has now."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):  # no such file system: the limit is left alone
        return
    limit = pages * os.sysconf("SC_PAGE_SIZE") + extra_mb * 1024 * 1024
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(arguments: list[str]) -> int:
    """Run one parse process."""
    socket_fd, cursor_fd = int(arguments[0]), int(arguments[1])
    options: dict[str, Any] = json.loads(arguments[2])
    config = Config(**options)
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent drains and then hangs up
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    relax()
    limit_memory(config.memory_mb)
    cursor = mmap.mmap(cursor_fd, wire.CURSOR.size)
    with socket.socket(fileno=socket_fd) as sock:
        try:
            Child(sock, cursor, config).run()
        except MemoryError:
            os._exit(EXIT_MEMORY)
        except (BrokenPipeError, ConnectionResetError):
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
