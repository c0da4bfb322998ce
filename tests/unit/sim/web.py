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
    """One URL: its status, its links, where it redirects to, how many attempts fail at first.

    With `needs`, it redirects only those who do not bring that cookie. `sets` is a cookie.
    """

    status: int
    links: tuple[str, ...] = ()
    location: str = ""
    fails: int = 0
    needs: str = ""
    sets: str = ""


class Answer(NamedTuple):
    status: int
    links: tuple[str, ...] = ()
    location: str = ""
    sets: str = ""


class Web:
    """Pages by URL, and how often each was asked for."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self.pages = pages
        self.hits: Counter[str] = Counter()
        self.circles = {url for url in pages if self._comes_round(url)}
        """URLs whose redirects lead back to them for ever."""
        self.gates = {url for url, page in pages.items() if page.needs}
        """URLs that become pages in the end, with the cookie of their own round trip."""

        self.rounds = self.circles | {url for gate in self.gates for url in self._round(gate)}
        """URLs of chains that come round. A fault, or a cookie that another page sets meanwhile,
        sends a chain round once more; the limit of redirects bounds how often."""

    def _round(self, gate: str) -> list[str]:
        found = [gate]
        while (at := self.pages[found[-1]].location) != gate:
            found.append(at)
        return found

    def _comes_round(self, url: str) -> bool:
        at = self.pages[url].location
        for _ in self.pages:
            if not at or self.pages[at].needs or at == url:
                break
            at = self.pages[at].location
        return at == url and not self.pages[url].needs

    def answer(self, url: str, attempt: int, cookie: str) -> Answer:
        self.hits[url] += 1
        page = self.pages[url]
        if attempt <= page.fails:
            return Answer(BROKEN)
        if page.needs:
            missing = page.needs not in cookie.split("; ")
            return Answer(MOVED, (), page.location) if missing else Answer(OK, page.links)
        return Answer(page.status, page.links, page.location, page.sets)

    def planned(self, url: str) -> int:
        """How often a crawl without faults asks for a URL."""
        page = self.pages[url]
        most = REASONS[Reason.HTTP_500].max_attempts
        return most if page.status == BROKEN else min(page.fails + 1, most)

    def expected(self, seeds: Sequence[str]) -> dict[str, str]:
        """The outcome of each reachable URL: `record`, `letter`, or `loop` to itself."""
        found: dict[str, str] = {}
        waiting = deque(seeds)
        while waiting:
            url = waiting.popleft()
            if url in found:
                continue
            page = self.pages[url]
            found[url] = "letter" if page.status in (GONE, BROKEN) else "record"
            if page.location == url:
                found[url] = "loop"
            waiting.extend(page.links)
            if page.location:
                waiting.append(page.location)
        return found


def make_web(
    seed: int, size: int, hosts: int, more_links: int = 4, chains: int = 0
) -> tuple[Web, list[str]]:
    """A web of `size` URLs that are all reachable from the seeds, which are returned too.

    Each page has `more_links` links beside those that make all reachable. Beside them, `chains`
    each of round trips for a cookie, of sign-ons at another host, and of loops.
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
    seed_page = pages[urls[0]]
    chained = _chains(chains, hosts)
    entries = tuple(url for url in chained if url.endswith("/in"))
    pages[urls[0]] = seed_page._replace(links=seed_page.links + entries)
    return Web(pages | chained), [urls[0]]


def _chains(count: int, hosts: int) -> dict[str, Page]:
    pages: dict[str, Page] = {}
    for number in range(count):
        host, other = (f"http://h{(number + more) % hosts}.test" for more in (0, 1))
        trip, sign_on, loop = (f"{host}/{name}{number}" for name in ("trip", "sign", "loop"))
        pages[f"{trip}/in"] = Page(OK, location=f"{trip}/set", needs=f"t{number}=1")
        pages[f"{trip}/set"] = Page(MOVED, location=f"{trip}/in", sets=f"t{number}=1; Path=/")
        desk = f"{other}/desk{number}"
        pages[f"{sign_on}/in"] = Page(OK, location=desk, needs=f"s{number}=1")
        pages[desk] = Page(MOVED, location=f"{sign_on}/ticket", sets="who=me")
        pages[f"{sign_on}/ticket"] = Page(
            MOVED, location=f"{sign_on}/in", sets=f"s{number}=1; Path=/"
        )
        pages[f"{loop}/in"] = Page(MOVED, location=f"{loop}/on")
        pages[f"{loop}/on"] = Page(MOVED, location=f"{loop}/in")
    return pages
