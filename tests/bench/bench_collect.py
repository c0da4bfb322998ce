"""What `crawl run` itself costs for each record: time, and memory that stays.

No broker: messages come from memory, as batches of the size that Kafka hands out. Prints one JSON
line: microseconds of CPU a record (the messages' making taken off), and how much the resident
memory grew over each further 100,000 records.

    python tests/bench/bench_collect.py --records 300000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from schemas import codec
from schemas.records import Record
from schemas.topics import RECORDS
from streams.kafka.messages import Source
from streams.kafka.reader import Message, TopicReader
from streams.run.collect import Collector
from streams.run.output import RecordFile

CRAWL: Final = "bench"
_BATCH: Final = 200
_HERE: Final = Source(RECORDS, 0)
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_WORDS: Final = "Ein Absatz über Größen, Maße und was man von ihnen weiß. "


def record(number: int) -> dict[str, Any]:
    """A whole record of a page with 3 KB of text and 40 links."""
    url = f"https://www.example.org/section-{number % 7}/page-{number}.html"
    links = [
        {"url": f"{url}?{at}", "anchor": f"Link {at}", "rel": "", "element": "a"}
        for at in range(40)
    ]
    article = [{"@type": "Article", "name": "x" * 100, "n": at} for at in (1, 2)]
    known: dict[str, Any] = {
        "crawl": CRAWL,
        "url_id": bytes(16),
        "url": url,
        "host": "www.example.org",
        "scope_host": "www.example.org",
        "via": "link",
        "kind": "html",
        "status": 200,
        "attempt": 1,
        "content_type": "text/html",
        "title": f"Page {number} of a site",
        "text": _WORDS * 50,
        "headers": [{"name": f"header-{at}", "value": "v" * 30} for at in range(12)],
        "headings": [{"level": 2, "text": f"Part {at}"} for at in range(6)],
        "json_ld": json.dumps(article, separators=(",", ":")),
        "microdata": "[]",
        "extracted": "{}",
        "meta": {f"og:{at}": "value" for at in range(6)},
        "outlinks": links,
    }
    return {
        field["name"]: known.get(field["name"], _empty(field["type"]))
        for field in codec.versions("record")[-1].raw["fields"]
    }


def _empty(kind: Any) -> Any:
    """A value that fits a field."""
    if isinstance(kind, list):
        return None
    if isinstance(kind, dict):
        return {"array": [], "map": {}, "fixed": bytes(kind.get("size", 0))}[kind["type"]]
    return {"string": "", "bytes": b"", "boolean": False}.get(kind, 0)


class Memory:
    """A topic whose messages are made as they are read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.rss: list[int] = []
        """Resident bytes, each 50,000 records."""
        self.done = asyncio.Event()
        whole = [codec.encode("record", cast("Record", record(number))) for number in range(100)]
        at = codec.HEADER_BYTES + 1 + len(CRAWL)
        self._parts = [(value[:at], value[at + 16 :]) for value in whole]

    def batches(self) -> Iterator[list[Message]]:
        """All messages; ids as a hash would give them."""
        for start in range(0, self.count, _BATCH):
            batch = []
            for number in range(start, min(start + _BATCH, self.count)):
                head, tail = self._parts[number % len(self._parts)]
                identity = (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16)
                batch.append(Message(_HERE, number, None, head + identity + tail, 0, ()))
            if start % 50_000 == 0:
                self.rss.append(resident())
            yield batch

    async def follow(self, positions: Mapping[Source, int]) -> AsyncIterator[list[Message]]:
        """As a reader does."""
        del positions
        for batch in self.batches():
            yield batch
            await asyncio.sleep(0)
        self.rss.append(resident())
        self.done.set()
        await asyncio.Event().wait()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE


async def collect(count: int, path: Path) -> dict[str, Any]:
    """Collect so many records into a file."""
    topic = Memory(count)
    began = time.process_time()
    for _ in topic.batches():
        pass
    making_s = time.process_time() - began
    topic.rss.clear()
    file = RecordFile(path, fresh=True)
    collector = Collector(cast("TopicReader", topic), {_HERE: 0}, CRAWL, file)
    began = time.process_time()
    task = asyncio.create_task(collector.run())
    await topic.done.wait()
    spent_s = time.process_time() - began - making_s
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    file.close()
    # The first records pay for caches and the allocator's pools.
    settled = topic.rss[1:]
    hundreds = (count - 50_000) / 100_000
    grown = (settled[-1] - settled[0]) / 2**20 if hundreds > 0 else 0.0
    return {
        "bench": "collect",
        "records": file.written,
        "us_per_record": round(1e6 * spent_s / count, 1),
        "rss_mb": round(settled[-1] / 2**20, 1),
        "rss_mb_per_100k": round(grown / hundreds, 2) if hundreds > 0 else None,
        "python": platform.python_version(),
    }


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=300_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        found = asyncio.run(collect(options.records, path))
        print(json.dumps(found | {"line_bytes": path.stat().st_size // options.records}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
