"""What dedup does with one batch: pure, so that a replay decides as the first run did.

The table `seen` has these kinds of rows, and those of `traps`:

* URL id (16 bytes) -> the position of its first sighting on `urls`: epoch (2 bytes), partition
  (2), offset (8), big-endian. The epoch is the partition count, so that no position of a
  re-partitioned topic equals one from before. One more byte follows where the URL was admitted on
  account (`traps`).
* `c` and a hash (17 bytes) -> how many URLs of one calendar-like shape were admitted (4 bytes).
* `r` and a hash (17 bytes) -> the position of a URL that a redirect chain leads back to. The
  fetcher asks it again if a cookie was set since, or tells it as a loop; either way the chain has
  an end, which a mere duplicate would not have. A URL seen elsewhere stays a duplicate.

A URL is new when its id is absent. An id whose row holds the position in hand was admitted by an
earlier run of this very message: it is admitted again whatever the rules say by now, so that a
replay is no second judgement, and it counts no second time against a budget. Every other row means
a duplicate.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from schemas.admission import Rules, calendar_shape, refuse_batch, refuse_url
from schemas.crawl import DEFAULT_CRAWL
from schemas.reasons import Reason
from schemas.records import Link, UrlBatch
from schemas.topics import partition_of
from schemas.url import URL_ID_BYTES, Rejected, chain_ids, parse, url_id
from streams.dedup.seeds import SEED, seed_payload
from streams.dedup.traps import POSITION_BYTES, Doubt, Lookup, Source, doubt

REKEY_LINKS: Final = 1_000
"""Most links in one re-keyed batch: keeps it far below the message limit of the topic."""
REKEY_CHARS: Final = 512 * 1024
"""Most characters of URLs in one re-keyed batch."""
MAX_LETTERS: Final = 100
"""Dead letters for invalid seeds of one batch; the rest is counted only."""

_POSITION = struct.Struct(">HHQ")
_COUNT = struct.Struct(">I")


class Here(NamedTuple):
    """Where and when the message in hand was read."""

    partition: int
    partitions: int
    offset: int
    timestamp_ms: int
    """The message's own time: a replay sees the same."""


class Admission(NamedTuple):
    """URLs of one host to request, with what they share."""

    host: str
    scope_host: str
    links: list[Link]


class Letter(NamedTuple):
    """A dead letter to write. `payload` None: the message as a whole."""

    reason: Reason
    detail: str
    payload: bytes | None


@dataclass(slots=True)
class Decision:
    """What one batch leads to."""

    crawl: str
    admitted: list[Admission] = field(default_factory=list)
    """New: request them."""
    replayed: list[Admission] = field(default_factory=list)
    """Admitted at this very position by an earlier run: to be requested again, unless the table
    is only written after delivery, as this worker does; then they were."""
    rows: dict[bytes, bytes] = field(default_factory=dict)
    """Rows to write: URL ids, then counters."""
    rekeyed: list[UrlBatch] = field(default_factory=list)
    """Batches of hosts that other partitions own, to be produced to `urls` again."""
    letters: list[Letter] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    trapped: dict[str, int] = field(default_factory=dict)
    """Links refused because their host's space is endless, by host; among the counts as well."""

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the crawl; zero adds no name."""
        if amount:
            self.counts[name] = self.counts.get(name, 0) + amount

    @property
    def new(self) -> int:
        """How many URLs are new."""
        return sum(len(admission.links) for admission in self.admitted)


def position(partitions: int, partition: int, offset: int) -> bytes:
    """The 12-byte value of a first sighting."""
    return _POSITION.pack(partitions, partition, offset)


def calendar_key(crawl: str, host: str, shape: str) -> bytes:
    """The 17-byte key of a calendar counter."""
    text = f"{crawl}\n{host}\n{shape}"
    return b"c" + blake2b(text.encode(), digest_size=16).digest()


def return_key(identity: bytes, chain: Sequence[str]) -> bytes:
    """The 17-byte key of a URL that a redirect chain leads back to: once for each chain."""
    return b"r" + blake2b(identity + "\n".join(chain).encode(), digest_size=16).digest()


@lru_cache(maxsize=65_536)
def owner_of(host: str, partitions: int) -> int:
    """The partition of a host."""
    return partition_of(host.encode(), partitions)


def crawl_of(batch: UrlBatch) -> str:
    """The crawl that a batch belongs to."""
    return batch["crawl"] or DEFAULT_CRAWL


def decide(
    batch: UrlBatch, here: Here, *, rules: Rules | None, pages: int, seen: Lookup
) -> Decision:
    """Judge one batch.

    Args:
        batch: as read; links with a URL id in a batch with a host are trusted to be serialised,
            hashed for this crawl and of that host. All others are parsed.
        here: the message's position.
        rules: of the batch's crawl; None: no such crawl.
        pages: pages of the crawl known to be fetched.
        seen: the table as of all earlier messages of this partition.
    """
    decision = Decision(crawl_of(batch))
    if rules is None:
        return _unknown_crawl(batch, decision)
    for host, links in _by_host(batch, rules, decision).items():
        if owner_of(host, here.partitions) == here.partition:
            keyed = _on_their_chain(links, batch, rules) if batch["redirects"] else links
            _judge(batch, host, keyed, here, rules, pages, seen, decision)
        else:
            decision.rekeyed.extend(_rekeyed(batch, host, list(links.values()), here))
    return decision


def _unknown_crawl(batch: UrlBatch, decision: Decision) -> Decision:
    links = batch["links"]
    decision.crawl = decision.crawl[:64]
    decision.count(f"rejected.{Reason.UNKNOWN_CRAWL}", len(links))
    payload = None
    if batch["via"] == SEED and not batch["host"]:
        payload = seed_payload(crawl_of(batch), [link["url"] for link in links])
    detail = f"no crawl {decision.crawl!r} was submitted ({len(links)} URLs)"
    decision.letters.append(Letter(Reason.UNKNOWN_CRAWL, detail, payload))
    return decision


def _by_host(batch: UrlBatch, rules: Rules, decision: Decision) -> dict[str, dict[bytes, Link]]:
    """The links by host and id, without duplicates inside the batch and without invalid ones."""
    host, crawl = batch["host"], decision.crawl
    groups: dict[str, dict[bytes, Link]] = {}
    own: dict[bytes, Link] = groups.setdefault(host, {}) if host else {}
    for link in batch["links"]:
        known = link["url_id"]
        if known is not None and host:
            own.setdefault(known, link)
            continue
        parsed = parse(link["url"])
        if isinstance(parsed, Rejected):
            _invalid(batch, link["url"], parsed, decision)
            continue
        known = url_id(crawl, parsed.href, rules.ignore_params)
        whole: Link = {
            "url": parsed.href,
            "url_id": known,
            "priority": link["priority"],
            "lastmod_at": link["lastmod_at"],
        }
        groups.setdefault(parsed.host, {}).setdefault(known, whole)
    kept = sum(map(len, groups.values()))
    refused = sum(decision.counts.values())
    decision.count("duplicates", len(batch["links"]) - kept - refused)
    return groups


def _invalid(batch: UrlBatch, url: str, rejected: Rejected, decision: Decision) -> None:
    decision.count(f"rejected.{rejected.reason}")
    # A person typed it and should be told; a page's broken link is only counted.
    if batch["via"] == SEED and len(decision.letters) < MAX_LETTERS:
        payload = seed_payload(decision.crawl, [url])
        decision.letters.append(Letter(rejected.reason, rejected.detail, payload))


def _on_their_chain(links: dict[bytes, Link], batch: UrlBatch, rules: Rules) -> dict[bytes, Link]:
    """The links by the keys of their rows, which are others for those that a chain returns to."""
    chain = batch["redirects"]
    passed = chain_ids(crawl_of(batch), chain, rules.ignore_params)
    return {return_key(key, chain) if key in passed else key: link for key, link in links.items()}


def _judge(
    batch: UrlBatch,
    host: str,
    links: dict[bytes, Link],
    here: Here,
    rules: Rules,
    pages: int,
    seen: Lookup,
    decision: Decision,
) -> None:
    mark = position(here.partitions, here.partition, here.offset)
    depth, scope_host = batch["depth"], batch["scope_host"] or host
    fresh: list[Link] = []
    again: list[Link] = []
    strangers: list[tuple[bytes, Link]] = []
    duplicates = 0
    for (key, link), value in zip(links.items(), seen(list(links)), strict=True):
        if value is None:
            strangers.append((key, link))
        elif value == mark or (len(value) > POSITION_BYTES and value.startswith(mark)):
            again.append(link)
        else:
            duplicates += 1
    if strangers:
        refusal = refuse_batch(rules, host=host, depth=depth, scope_host=scope_host, pages=pages)
        if refusal is not None:
            decision.count(f"rejected.{refusal}", len(strangers))
        else:
            fresh = _fresh(batch, host, strangers, mark, rules, seen, decision)
    if fresh:
        decision.admitted.append(Admission(host, scope_host, fresh))
    if again:
        decision.replayed.append(Admission(host, scope_host, again))
    decision.count("admitted", len(fresh) + len(again))
    decision.count("duplicates", duplicates)


def _fresh(
    batch: UrlBatch,
    host: str,
    strangers: list[tuple[bytes, Link]],
    mark: bytes,
    rules: Rules,
    seen: Lookup,
    decision: Decision,
) -> list[Link]:
    """The URLs without a row that may enter; their rows, and the counts of the others."""
    calendar = _Calendar(decision.crawl, host, rules.spec.calendar_budget, seen)
    trap = _doubt(batch, host, rules, seen, decision)
    fresh: list[Link] = []
    for key, link in strangers:
        href = link["url"]
        account: bytes | None = b""
        reason = refuse_url(rules, href, batch["depth"])
        if reason is None and trap is not None:
            account = trap.account(href)
        if account is None:
            reason = Reason.TRAP
            decision.trapped[host] = decision.trapped.get(host, 0) + 1
        if reason is None and len(key) == URL_ID_BYTES:  # what a chain returns to was counted then
            reason = calendar.refuse(href)
        if reason is not None or account is None:
            decision.count(f"rejected.{reason}")
            continue
        if account and trap is not None:
            trap.charge(account)
        decision.rows[key] = mark + account
        fresh.append(link)
    decision.rows.update(calendar.rows)
    if trap is not None:
        decision.rows.update(trap.rows)
    return fresh


def _doubt(
    batch: UrlBatch, host: str, rules: Rules, seen: Lookup, decision: Decision
) -> Doubt | None:
    """What to think of the page that these links of its own host come from; None: nothing."""
    sketch, budget = batch.get("sketch"), rules.spec.trap_budget
    if sketch is None or budget is None or batch["depth"] == 0:
        return None
    page = parse(batch["referrer"])
    if isinstance(page, Rejected) or page.host != host:
        return None
    known = url_id(decision.crawl, page.href, rules.ignore_params)
    return doubt(Source(decision.crawl, host, page.href, known, sketch), budget, seen)


class _Calendar:
    """The calendar budget of one host while one batch is judged."""

    __slots__ = ("_budget", "_crawl", "_host", "_seen", "rows")

    def __init__(self, crawl: str, host: str, budget: int, seen: Lookup) -> None:
        self._crawl = crawl
        self._host = host
        self._budget = budget
        self._seen = seen
        self.rows: dict[bytes, bytes] = {}

    def refuse(self, href: str) -> Reason | None:
        """CALENDAR_TRAP when the shape's budget is spent; else count the URL."""
        shape = calendar_shape(href)
        if shape is None:
            return None
        key = calendar_key(self._crawl, self._host, shape)
        value = self.rows.get(key) or self._seen([key])[0]
        spent = _COUNT.unpack(value)[0] if value else 0
        if spent >= self._budget:
            return Reason.CALENDAR_TRAP
        self.rows[key] = _COUNT.pack(spent + 1)
        return None


def _rekeyed(batch: UrlBatch, host: str, links: list[Link], here: Here) -> list[UrlBatch]:
    """The batch again for its owner, in parts; instants are fixed so that they do not move."""
    parts: list[UrlBatch] = []
    start = 0
    while start < len(links):
        end, chars = start, 0
        while end < len(links) and end - start < REKEY_LINKS and chars < REKEY_CHARS:
            chars += len(links[end]["url"])
            end += 1
        part: UrlBatch = {
            **batch,
            "host": host,
            "seeded_at": batch["seeded_at"] or here.timestamp_ms,
            "discovered_at": batch["discovered_at"] or here.timestamp_ms,
            "links": links[start:end],
        }
        parts.append(part)
        start = end
    return parts
