"""Redirect chains through the fetch stage and dedup's policy: each ends in something to see.

No chain may end in nothing but a count, unless its target was seen elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from schemas.admission import compile_rules
from schemas.codec import decode
from schemas.crawl import CrawlSpec
from schemas.records import FetchRequest
from streams.dedup import requests
from streams.dedup.policy import Here, decide
from tests.unit.fetchers.fakes import (
    FakeRuntime,
    Request,
    Web,
    html,
    request_for,
    response,
    running,
)

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = CrawlSpec(crawl="c", delay_s=0, scope="any")
COOKIES = CrawlSpec(crawl="c", delay_s=0, scope="any", cookies=True)


class Chains:
    """Dedup beside a fake runtime: one partition, a table in memory."""

    def __init__(self, runtime: FakeRuntime, spec: CrawlSpec) -> None:
        self._runtime = runtime
        self._rules = compile_rules(spec)
        self._table: dict[bytes, bytes] = {}
        self._read = 0
        self.duplicates = 0

    def admit(self, batch: Any, offset: int) -> list[FetchRequest]:
        here = Here(0, 1, offset, 5)
        decision = decide(
            batch,
            here,
            rules=self._rules,
            pages=0,
            seen=lambda keys: [self._table.get(key) for key in keys],
        )
        self._table.update(decision.rows)
        self.duplicates += decision.counts.get("duplicates", 0)
        return [
            requests.request(batch, admission, link, timestamp_ms=5)
            for admission in (*decision.admitted, *decision.replayed)
            for link in admission.links
        ]

    async def follow(self, *urls: str) -> None:
        """Seed, and carry redirects to their ends."""
        for number, url in enumerate(urls):
            parsed = request_for(url)
            batch = {
                "crawl": "c", "host": "", "via": "seed", "depth": 0, "scope_host": "",
                "referrer": "", "redirects": [], "seeded_at": 1, "discovered_at": 1,
                "links": [
                    {"url": parsed["url"], "url_id": None, "priority": 0, "lastmod_at": None}
                ],
            }  # fmt: skip
            self._runtime.seed(*self.admit(batch, 1_000_000 + number))
        await self._runtime.until_idle()
        while self._read < len(batches := self._runtime.urls()):
            for offset in range(self._read, len(batches)):
                self._runtime.seed(*self.admit(batches[offset], offset))
            self._read = len(batches)
            await self._runtime.until_idle()


def ends(runtime: FakeRuntime) -> list[int]:
    return [result["status"] for result in runtime.results() if result["status"] == 200]


def knows(request: Request, cookie: str) -> bool:
    return cookie in request.headers.get("cookie", "").split("; ")


def shop(web: Web) -> None:
    """`/a` wants a cookie that `/a?c=1` sets."""

    async def gate(request: Request, reader: Any, writer: Any) -> None:
        del reader
        known = knows(request, "s=1")
        writer.write(html(b"<p>in</p>") if known else response(302, b"", "Location: /a?c=1"))
        await writer.drain()

    web.pages["/a"] = gate
    web.pages["/a?c=1"] = response(302, b"", "Set-Cookie: s=1", "Location: /a")


async def test_a_round_trip_that_sets_a_cookie_reaches_its_page(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        shop(web)
        await Chains(runtime, COOKIES).follow(web.url("/a"))
        results = runtime.results()
        assert runtime.letters() == []
    assert web.paths() == ["/a", "/a?c=1", "/a"]
    assert [result["status"] for result in results] == [302, 302, 200]
    first, _, last = results
    assert first["url_id"] == last["url_id"]
    assert first["fetch_id"] != last["fetch_id"]
    assert last["redirects"] == [web.url("/a"), web.url("/a?c=1")]


async def test_without_cookies_it_is_told_as_a_loop(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, PLAIN) as runtime:
        shop(web)
        await Chains(runtime, PLAIN).follow(web.url("/a"))
        (letter,) = runtime.letters()
    assert (letter["reason"], letter["kind"]) == ("too_many_redirects", "failed")
    assert letter["detail"] == f"a loop: leads back to {web.url('/a')}"
    assert web.paths() == ["/a", "/a?c=1"]


async def test_a_cookie_that_the_jar_refuses_changes_nothing(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/a"] = response(302, b"", "Location: /b")
        web.pages["/b"] = response(302, b"", "Set-Cookie: s=1; Domain=b.example", "Location: /a")
        await Chains(runtime, COOKIES).follow(web.url("/a"))
        (letter,) = runtime.letters()
    assert (letter["reason"], letter["attempts"]) == ("too_many_redirects", 0)
    assert web.paths() == ["/a", "/b"]


async def test_a_cookie_that_is_set_again_as_it_was_changes_nothing(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/a"] = response(302, b"", "Location: /b")
        web.pages["/b"] = response(302, b"", "Set-Cookie: s=1", "Location: /a")
        await Chains(runtime, COOKIES).follow(web.url("/a"))
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"
    assert web.paths() == ["/a", "/b", "/a", "/b"]


async def test_a_cookie_that_is_taken_away_is_a_change(tmp_path: Path) -> None:
    async def gate(request: Request, reader: Any, writer: Any) -> None:
        del reader
        known = knows(request, "old=1")
        writer.write(response(302, b"", "Location: /out") if known else html())
        await writer.drain()

    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/in"] = html(b"x", "Set-Cookie: old=1")
        web.pages["/a"] = gate
        web.pages["/out"] = response(302, b"", "Set-Cookie: old=; Max-Age=0", "Location: /a")
        chains = Chains(runtime, COOKIES)
        await chains.follow(web.url("/in"))
        await chains.follow(web.url("/a"))
        assert runtime.letters() == []
    assert web.paths() == ["/in", "/a", "/out", "/a"]


async def test_an_ever_new_cookie_ends_with_the_longest_chain(tmp_path: Path) -> None:
    async def mint(request: Request, reader: Any, writer: Any) -> None:
        del reader
        other = "/b" if request.path == "/a" else "/a"
        count = len(web.requests)
        writer.write(response(302, b"", f"Set-Cookie: n={count}", f"Location: {other}"))
        await writer.drain()

    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/a"] = web.pages["/b"] = mint
        await Chains(runtime, COOKIES).follow(web.url("/a"))
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"
    assert letter["detail"] == "more than 10 redirects"
    assert len(web.paths()) == 11


async def test_single_sign_on_over_two_hosts(tmp_path: Path) -> None:
    def here(path: str) -> str:
        return web.url(path)

    def there(path: str) -> str:
        return web.url(path, host="127.0.0.2")

    async def page(request: Request, reader: Any, writer: Any) -> None:
        del reader
        known = knows(request, "session=9")
        away = response(302, b"", f"Location: {there('/login?back=page')}")
        writer.write(html(b"<p>members</p>") if known else away)
        await writer.drain()

    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/page"] = page
        web.pages["/login?back=page"] = response(
            302, b"", "Set-Cookie: idp=1", f"Location: {here('/ticket?t=77')}"
        )
        web.pages["/ticket?t=77"] = response(
            302, b"", "Set-Cookie: session=9", f"Location: {here('/welcome')}"
        )
        web.pages["/welcome"] = response(302, b"", f"Location: {here('/page')}")
        await Chains(runtime, COOKIES).follow(here("/page"))
        assert runtime.letters() == []
        assert ends(runtime) == [200]
    assert web.paths() == ["/page", "/login?back=page", "/ticket?t=77", "/welcome", "/page"]


async def test_a_target_seen_elsewhere_stays_a_duplicate(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/a"] = html()
        web.pages["/b"] = response(302, b"", "Set-Cookie: s=1", "Location: /a")
        chains = Chains(runtime, COOKIES)
        await chains.follow(web.url("/a"), web.url("/b"))
        assert chains.duplicates == 1
        assert runtime.letters() == []
    assert sorted(web.paths()) == ["/a", "/b"]


async def test_a_redirect_that_is_produced_twice_is_followed_once(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        shop(web)
        chains = Chains(runtime, COOKIES)
        await chains.follow(web.url("/a"))
        back = runtime.urls()[-1]
        assert back["links"][0]["url"] == web.url("/a")
        assert chains.admit(back, 500) == []
        # The very message again, as after a crash: requested again at its own position only.
        assert len(chains.admit(back, len(runtime.urls()) - 1)) == 1


async def test_a_scheme_that_changes_to_and_fro_is_a_loop(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, PLAIN) as runtime:
        target = web.url("/x")
        web.pages["/x"] = response(302, b"", f"Location: {target.replace('http', 'https')}")
        chain = [target.replace("http", "https")]
        runtime.seed(request_for(target, redirects=chain))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"


async def test_a_fragment_is_no_difference(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, PLAIN) as runtime:
        web.pages["/b"] = response(302, b"", "Location: /x?a=1#frag")
        runtime.seed(request_for(web.url("/b"), redirects=[web.url("/x?a=1"), "no URL"]))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"


@pytest.mark.parametrize("spec", [PLAIN, COOKIES], ids=["plain", "cookies"])
async def test_another_spelling_was_not_asked_yet(tmp_path: Path, spec: CrawlSpec) -> None:
    async with Web() as web, running(tmp_path, spec) as runtime:
        web.pages["/x?utm_source=q"] = response(302, b"", "Location: /b")
        web.pages["/b"] = response(302, b"", "Location: /x")
        web.pages["/x"] = html()
        await Chains(runtime, spec).follow(web.url("/x?utm_source=q"))
        assert runtime.letters() == []
        assert [one["status"] for one in runtime.results()] == [302, 302, 200]
    assert web.paths() == ["/x?utm_source=q", "/b", "/x"]


@pytest.mark.parametrize("spec", [PLAIN, COOKIES], ids=["plain", "cookies"])
async def test_spellings_that_take_turns_are_a_loop(tmp_path: Path, spec: CrawlSpec) -> None:
    async with Web() as web, running(tmp_path, spec) as runtime:
        web.pages["/x?utm_source=q"] = response(302, b"", "Location: /x")
        web.pages["/x"] = response(302, b"", "Location: /b")
        web.pages["/b"] = response(302, b"", "Location: /x?utm_source=q")
        await Chains(runtime, spec).follow(web.url("/x?utm_source=q"))
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"
    assert len(web.paths()) <= 6


async def test_cookies_in_another_order_are_no_change(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/in"] = html(b"x", "Set-Cookie: s=1", "Set-Cookie: t=2")
        web.pages["/a"] = response(302, b"", "Location: /b")
        web.pages["/b"] = response(302, b"", "Set-Cookie: s=1", "Location: /a")
        chains = Chains(runtime, COOKIES)
        await chains.follow(web.url("/in"))
        await chains.follow(web.url("/a"))
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"
    assert web.paths() == ["/in", "/a", "/b"]


async def test_a_loop_that_is_redriven_is_asked_again(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/a"] = response(302, b"", "Location: /b")
        web.pages["/b"] = response(302, b"", "Location: /a")
        await Chains(runtime, COOKIES).follow(web.url("/a"))
        (letter,) = runtime.letters()
        web.pages["/a"] = html()
        request = decode("fetch-request", letter["payload"])
        runtime.seed({**request, "attempt": 2, "replays": 1})
        await runtime.until_idle()
        assert runtime.results()[-1]["status"] == 200


async def test_what_a_chain_returns_to_counts_once_against_the_calendar(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, scope="any", cookies=True, calendar_budget=1)
    month = "/calendar/2026/05/"
    async with Web() as web, running(tmp_path, spec) as runtime:
        shop(web)
        web.pages[month] = web.pages.pop("/a")
        web.pages["/a?c=1"] = response(302, b"", "Set-Cookie: s=1; Path=/", f"Location: {month}")
        await Chains(runtime, spec).follow(web.url(month))
        assert [one["status"] for one in runtime.results()] == [302, 302, 200]


async def test_robots_hold_for_the_spelling_that_a_url_redirects_to(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, PLAIN) as runtime:
        web.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /*utm_")
        web.pages["/a"] = response(302, b"", "Location: /a?utm_source=x")
        await Chains(runtime, PLAIN).follow(web.url("/a"))
        (letter,) = runtime.letters()
    assert (letter["reason"], letter["kind"]) == ("robots_denied", "disregarded")
    assert web.paths() == ["/a"]


async def test_a_page_that_redirects_to_itself_is_a_loop_at_once(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        web.pages["/a"] = response(302, b"", "Set-Cookie: s=1", "Location: /a")
        await Chains(runtime, COOKIES).follow(web.url("/a"))
        (letter,) = runtime.letters()
    assert (letter["reason"], letter["detail"]) == (
        "too_many_redirects",
        "a loop: redirects to itself",
    )
    assert web.paths() == ["/a", "/a"]


async def test_a_host_that_was_away_is_asked_again(tmp_path: Path) -> None:
    """Another process may have had the answer with the cookie: what this jar has is no proof."""
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        shop(web)
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        await runtime.rebalance()
        chain = [web.url("/a"), web.url("/a?c=1")]
        runtime.seed(request_for(web.url("/a"), redirects=chain))
        await runtime.until_idle()
        assert runtime.letters() == []
    assert web.paths() == ["/a", "/a"]


async def test_a_sign_on_that_knows_its_visitor_is_passed_again(tmp_path: Path) -> None:
    """The site lost its cookie on the way; the other host has nothing new, and is no loop."""

    async def page(request: Request, reader: Any, writer: Any) -> None:
        del reader
        known = knows(request, "session=9")
        writer.write(html() if known else response(302, b"", f"Location: {desk}"))
        await writer.drain()

    async def ticket(request: Request, reader: Any, writer: Any) -> None:
        del request, reader
        given = next(tickets)
        writer.write(response(302, b"", f"Set-Cookie: {given}", f"Location: {web.url('/page')}"))
        await writer.drain()

    tickets = iter(["other=1", "session=9"])
    async with Web() as web, running(tmp_path, COOKIES) as runtime:
        desk = web.url("/desk", host="127.0.0.2")
        web.pages = {"/page": page, "/ticket": ticket}
        web.pages["/desk"] = response(302, b"", f"Location: {web.url('/ticket')}")
        await Chains(runtime, COOKIES).follow(web.url("/page"))
        assert runtime.letters() == []
        assert ends(runtime) == [200]
    assert web.paths() == ["/page", "/desk", "/ticket"] * 2 + ["/page"]
