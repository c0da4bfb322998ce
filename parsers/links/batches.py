"""Links to messages for topic `urls`: admitted early, grouped by host, bounded.

What is hopeless is counted and kept out of Kafka here; dedup has the last word on the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from parsers.links.lru import RecentIds
from parsers.links.resolve import Target
from schemas.admission import Rules, refuse_batch, refuse_url
from schemas.reasons import Reason
from schemas.shapes import may_grow, shape

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from schemas.records import FetchResult, Link, UrlBatch

MAX_BATCH_LINKS: Final = 500
"""Links in one message: with URLs of the greatest length it is half of what a topic takes."""

MAX_SENT_IDS: Final = 100_000
"""Ids of one document kept to drop repeats; a repeat beyond is dropped by dedup."""


class LinkSink:
    """Collects the links of one document.

    Args:
        result: the document's fetch result; depth, scope and times are carried over from it.
        rules: of its crawl.
        known: URL ids already delivered to `urls` for this crawl; they are not sent again.
        now_ms: when the links were found.
        shown: sketches of pages before this one.
    """

    def __init__(
        self,
        result: FetchResult,
        rules: Rules,
        known: Container[bytes],
        now_ms: int,
        shown: RecentIds | None = None,
    ) -> None:
        self._result = result
        self._rules = rules
        self._known = known
        self._now_ms = now_ms
        self._refusals: dict[tuple[str, int], Reason | None] = {}
        self._open: dict[tuple[str, str, int], list[Link]] = {}
        self._own = result["url_id"]
        self._sent: set[bytes] = {self._own}
        self._shown = shown
        self._sketched = False
        self._sketch: bytes | None = None
        self._repeats = False
        self.content: Callable[[], bytes | None] | None = None
        """The document's sketch, made only where its links may lead into an endless space."""
        self.counts: dict[str, int] = {}
        self.full: list[UrlBatch] = []
        """Messages that are complete; the caller may take them at any time."""

    @property
    def sent(self) -> list[bytes]:
        """Ids of links that were put into messages, the last ones where they are very many.

        None of a page that repeats an earlier one: dedup may refuse its links, and another page's
        word for the same ones must reach it then.
        """
        if self._repeats:
            return []
        return [identity for identity in self._sent if identity != self._own]

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        self.counts[name] = self.counts.get(name, 0) + by

    def reject(self, reason: Reason, by: int = 1) -> None:
        """Count links that are not sent."""
        self.count(f"rejected.{reason.value}", by)

    def add(self, target: Target, via: str, *, lastmod_at: int | None = None) -> None:
        """Send a link one deeper than the document, unless a rule refuses it or it is known."""
        if target.refused is not None:
            self.reject(target.refused)
            return
        self._put(target, via, self._result["depth"] + 1, lastmod_at)

    def add_sitemap(self, target: Target, *, lastmod_at: int | None = None) -> None:
        """Send the URL of a sitemap.

        It has the depth of what named it: it is no page, so it must not use up a link of depth.
        """
        depth = self._result["depth"]
        refused = refuse_url(self._rules, target.url, depth)
        if refused is not None:
            self.reject(refused)
            return
        self._put(target, "sitemap", depth, lastmod_at)

    def close(self) -> list[UrlBatch]:
        """All messages not taken yet."""
        for (host, via, depth), links in self._open.items():
            self._emit(host, via, depth, links)
        self._open.clear()
        taken, self.full = self.full, []
        return taken

    def _put(self, target: Target, via: str, depth: int, lastmod_at: int | None) -> None:
        identity = target.url_id
        if identity in self._sent:
            return
        refused = self._refuse_host(target.host, depth)
        if refused is not None:
            self.reject(refused)
            return
        if identity in self._known:
            self.count("links_known")
            return
        if len(self._sent) >= MAX_SENT_IDS:
            self._sent = {self._own}
        self._sent.add(identity)
        key = (target.host, via, depth)
        links = self._open.get(key)
        if links is None:
            links = self._open[key] = []
        links.append(
            {"url": target.url, "url_id": identity, "priority": 0, "lastmod_at": lastmod_at}
        )
        if len(links) >= MAX_BATCH_LINKS:
            del self._open[key]
            self._emit(target.host, via, depth, links)

    def _refuse_host(self, host: str, depth: int) -> Reason | None:
        key = (host, depth)
        if key in self._refusals:
            return self._refusals[key]
        refused = refuse_batch(
            self._rules,
            host=host,
            depth=depth,
            scope_host=self._result["scope_host"] or self._result["host"],
            pages=0,
        )
        self._refusals[key] = refused
        return refused

    def _emit(self, host: str, via: str, depth: int, links: list[Link]) -> None:
        result = self._result
        self.count("links_sent", len(links))
        sketch = self._sketch_for(links) if host == result["host"] else None
        self.full.append(
            {
                "crawl": result["crawl"],
                "host": host,
                "via": via,
                "depth": depth,
                "scope_host": result["scope_host"] or result["host"],
                "referrer": result["url"],
                "redirects": [],
                "seeded_at": result["seeded_at"],
                "discovered_at": self._now_ms,
                "sketch": sketch,
                "links": links,
            }
        )

    def _sketch_for(self, links: list[Link]) -> bytes | None:
        if self._sketched or self.content is None or self._rules.spec.trap_budget is None:
            return self._sketch
        page = shape(self._result["url"])
        if not any(may_grow(page, link["url"]) for link in links):
            return None
        self._sketched = True
        self._sketch = self.content()
        if self._sketch is not None and self._shown is not None:
            self._repeats = self._sketch in self._shown
            self._shown.add(self._sketch)
        return self._sketch
