"""A web of known links: cycles, redirects, errors, duplicates. And what a crawl of it must find."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from schemas.reasons import REASONS, Reason

OK: Final = 200
MOVED: Final = 301
GONE: Final = 404
BROKEN: Final = 500


class Page(NamedTuple):
    """One URL: its status, its links, where it redirects to, how many attempts fail at first."""

    status: int
    links: tuple[str, ...] = ()
    location: str = ""
    fails: int = 0


class Answer(NamedTuple):
    status: int
    links: tuple[str, ...] = ()
    location: str = ""


class Web:
    """Pages by URL, and how often each was asked for."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self.pages = pages
        self.hits: Counter[str] = Counter()

    def answer(self, url: str, attempt: int) -> Answer:
        self.hits[url] += 1
        page = self.pages[url]
        if attempt <= page.fails:
            return Answer(BROKEN)
        return Answer(page.status, page.links, page.location)

    def planned(self, url: str) -> int:
        """How often a crawl without faults asks for a URL."""
        page = self.pages[url]
        most = REASONS[Reason.HTTP_500].max_attempts
        return most if page.status == BROKEN else min(page.fails + 1, most)

    def expected(self, seeds: Sequence[str]) -> dict[str, str]:
        """The outcome of each reachable URL: `record` or `letter`."""
        found: dict[str, str] = {}
        waiting = deque(seeds)
        while waiting:
            url = waiting.popleft()
            if url in found:
                continue
            page = self.pages[url]
            found[url] = "letter" if page.status in (GONE, BROKEN) else "record"
            waiting.extend(page.links)
            if page.location:
                waiting.append(page.location)
        return found


def make_web(seed: int, size: int, hosts: int, more_links: int = 4) -> tuple[Web, list[str]]:
    """A web of `size` URLs that are all reachable from the seeds, which are returned too.

    Each page has `more_links` links beside those that make all reachable.
    """
    rng = random.Random(seed)
    urls = [f"http://h{rng.randrange(hosts)}.test/{n}" for n in range(size)]
    links: dict[str, list[str]] = {url: [] for url in urls}
    kinds: dict[str, int] = {}
    last_pages = [urls[0]]
    for number, url in enumerate(urls):
        kind = rng.random() if number else 1.0
        kinds[url] = MOVED if kind < 0.05 else GONE if kind < 0.09 else BROKEN if kind < 0.1 else OK
        if number:
            links[last_pages[rng.randrange(len(last_pages))]].append(url)
        if kinds[url] == OK:
            last_pages = [*last_pages[-20:], url]
    pages = {}
    for url in urls:
        location = rng.choice(urls) if kinds[url] == MOVED else ""
        more = [rng.choice(urls) for _ in range(more_links)] if kinds[url] == OK else []
        fails = rng.randrange(1, 3) if kinds[url] == OK and rng.random() < 0.03 else 0
        pages[url] = Page(kinds[url], tuple(links[url] + more), location, fails)
    return Web(pages), [urls[0]]
