"""A crawl of a generated site in memory: the real parser, the real codec, the real policy of dedup.

Only the fetcher is missing: pages are answered in the order of their requests, but for a window of
some that are in flight at a time.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from parsers.links.lru import RecentIds
from parsers.records.parse import CrawlParser, Parsed
from schemas import codec
from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
from streams.dedup.fastread import read_batch
from streams.dedup.policy import Decision, Here, decide
from streams.dedup.seeds import seed_batch
from tests.unit.parsers.parsing import NOW_MS, fetch_result

if TYPE_CHECKING:
    from schemas.records import UrlBatch

HOST: Final = "site.example"
ROOT: Final = f"http://{HOST}"
IN_FLIGHT: Final = 16
Site = Callable[[str], str | None]
"""The HTML of a body at a path with its query; None: not found."""


@dataclass
class Crawl:
    """A crawl of one site, and what it has done."""

    site: Site
    spec: CrawlSpec
    children: int = 2
    """Parse processes, each with a memory of its own."""
    fetched: list[str] = field(default_factory=list)
    """Paths with their queries."""
    texts: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    trapped: Counter[str] = field(default_factory=Counter)
    rows: dict[bytes, bytes] = field(default_factory=dict)
    messages: list[UrlBatch] = field(default_factory=list)
    queue: deque[tuple[str, int]] = field(default_factory=deque)

    def run(self, *seeds: str, seed: int, most: int) -> Crawl:
        """Go on until nothing is left, or `most` pages were fetched."""
        rng = random.Random(seed)
        rules = compile_rules(self.spec)
        known = [RecentIds(200_000) for _ in range(self.children)]
        parsers = [CrawlParser(rules, known=one) for one in known]
        first = seed_batch(self.spec.crawl, [])
        for path in seeds:
            first["links"].append(
                {"url": ROOT + path, "url_id": None, "priority": 0, "lastmod_at": None}
            )
        self.take(first)
        while self.queue and len(self.fetched) < most:
            at = rng.randrange(min(IN_FLIGHT, len(self.queue)))
            url, depth = self.queue[at]
            del self.queue[at]
            self.fetched.append(url.removeprefix(ROOT))
            body = self.site(self.fetched[-1])
            if body is None:
                continue
            number = rng.randrange(self.children)
            data = f"<!doctype html><body>{body}".encode()
            parsed = parsers[number].parse(fetch_result(data, url=url, depth=depth), data, NOW_MS)
            assert isinstance(parsed, Parsed), parsed
            self.texts.add(parsed.record["text"])
            for batch in parsed.batches:
                self.take(read_batch(codec.encode("url-batch", batch)))
            for identity in parsed.sent:
                known[number].add(identity)
        return self

    def take(self, batch: UrlBatch) -> None:
        """The next message on `urls`."""
        self.messages.append(batch)
        decision = self.judge(batch, len(self.messages))
        self.rows.update(decision.rows)
        self.counts.update(decision.counts)
        self.trapped.update(decision.trapped)
        for admission in decision.admitted:
            self.queue.extend((link["url"], batch["depth"]) for link in admission.links)

    def judge(self, batch: UrlBatch, offset: int) -> Decision:
        """What dedup decides about a message by the table as it is now."""
        return decide(
            batch,
            Here(0, 1, offset, NOW_MS),
            rules=compile_rules(self.spec),
            pages=0,
            seen=lambda keys: [self.rows.get(key) for key in keys],
        )


def crawl(site: Site, *seeds: str, seed: int = 1, most: int = 3_000, **spec: object) -> Crawl:
    """Crawl a site from its seeds."""
    rules = CrawlSpec.model_validate({"crawl": "c", **spec})
    return Crawl(site, rules).run(*(seeds or ("/",)), seed=seed, most=most)
