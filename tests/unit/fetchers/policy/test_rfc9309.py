"""Scorecard of RFC 9309: every MUST and SHOULD that is about crawlers, by section."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest

from fetchers.http.transport import Transport
from fetchers.policy.robots import MAX_REDIRECTS, is_allowed, judge_answer, normal_path
from fetchers.policy.robots_file import MAX_BYTES
from fetchers.worker.messages import user_agent
from fetchers.worker.robots_cache import Entry, RobotsCache
from schemas.errors import ConfigError
from schemas.url import CrawlUrl, path_of
from schemas.url import parse as parse_url
from streams.settings import load
from tests.unit.fetchers.fakes import Web, response, settings_for
from tests.unit.fetchers.robots_files import parse

if TYPE_CHECKING:
    from pathlib import Path


def allows(rules: str, path: str, agent: str = "acmebot") -> bool:
    return is_allowed(parse(rules.encode(), agent), path)


ALL = "User-agent: *\n"


def token_characters() -> bool:
    for token in ("acme bot", "acmebot/1.0", "acme1", ""):
        try:
            load({"CRAWL_AGENT": token or "\u00e9"})
        except ConfigError:
            continue
        return False
    return load({"CRAWL_AGENT": "Acme_Bot-news"}).agent == "Acme_Bot-news"


def whole_lines_within_the_limit() -> bool:
    early = (ALL + "Disallow: /early\n").encode()
    late = b"Disallow: /late\n"
    filler = b"#" * (MAX_BYTES - len(early) - len(late) - 1) + b"\n"
    rules = parse(early + filler + late + b"Disallow: /beyond\n", "acmebot")
    return (
        not is_allowed(rules, "/early")
        and not is_allowed(rules, "/late")
        and is_allowed(rules, "/beyond")
    )


@dataclass(frozen=True)
class Row:
    section: str
    level: Literal["MUST", "SHOULD", "MAY"]
    says: str
    check: Callable[[], bool]


ROWS = (
    Row("2.2.1", "MUST", "a product token holds letters, _ and - only", token_characters),
    Row(
        "2.2.1", "SHOULD", "the product token is part of the User-Agent sent",
        lambda: user_agent("acmebot", "https://x.example").startswith("acmebot "),
    ),
    Row(
        "2.2.1", "MUST", "tokens are compared without regard to case",
        lambda: not allows("User-agent: AcMeBoT\nDisallow: /\n", "/x"),
    ),
    Row(
        "2.2.1", "MUST", "all groups of one token are one group",
        lambda: not allows(
            "User-agent: acmebot\nDisallow: /a\n\nUser-agent: o\nDisallow: /\n\n"
            "User-agent: acmebot\nDisallow: /b\n", "/a",
        )
        and not allows(
            "User-agent: acmebot\nDisallow: /a\n\nUser-agent: acmebot\nDisallow: /b\n", "/b"
        ),
    ),
    Row(
        "2.2.1", "MUST", "without a group of ours, that of * is obeyed",
        lambda: not allows(ALL + "Disallow: /\n", "/x"),
    ),
    Row(
        "2.2.1", "MUST", "a group of ours replaces that of *",
        lambda: allows(ALL + "Disallow: /\n\nUser-agent: acmebot\nDisallow: /p\n", "/x"),
    ),
    Row(
        "2.2.1", "MUST", "without either, no rules apply",
        lambda: allows("User-agent: other\nDisallow: /\n", "/x"),
    ),
    Row(
        "2.2.2", "MUST", "rules are matched against the path",
        lambda: not allows(ALL + "Disallow: /a\n", "/a"),
    ),
    Row(
        "2.2.2", "SHOULD", "matching regards case",
        lambda: allows(ALL + "Disallow: /A\n", "/a"),
    ),
    Row(
        "2.2.2", "MUST", "matching starts with the first octet of the path",
        lambda: allows(ALL + "Disallow: /b\n", "/a/b"),
    ),
    Row(
        "2.2.2", "MUST", "the match of most octets is used",
        lambda: allows(ALL + "Disallow: /a\nAllow: /a/b\n", "/a/b/c")
        and not allows(ALL + "Allow: /a\nDisallow: /a/b\n", "/a/b/c"),
    ),
    Row(
        "2.2.2", "SHOULD", "of two equal matches, allow is used",
        lambda: allows(ALL + "Disallow: /a\nAllow: /a\n", "/a"),
    ),
    Row(
        "2.2.2", "MUST", "no match, and no rules, allow",
        lambda: allows(ALL + "Disallow: /a\n", "/b") and allows(ALL, "/b"),
    ),
    Row(
        "2.2.2", "MUST", "/robots.txt itself is allowed",
        lambda: allows(ALL + "Disallow: /\n", "/robots.txt"),
    ),
    Row(
        "2.2.2", "MUST", "octets beyond ASCII are percent-encoded before comparing",
        lambda: not allows(ALL + "Disallow: /\u30c4\n", "/%E3%83%84")
        and not allows(ALL + "Disallow: /%e3%83%84\n", "/\u30c4".encode().decode("latin-1")),
    ),
    Row(
        "2.2.2", "MUST", "percent-encoded unreserved octets are decoded before comparing",
        lambda: not allows(ALL + "Disallow: /%62%61%7A\n", "/baz")
        and not allows(ALL + "Disallow: /baz\n", "/%62%61%7a"),
    ),
    Row(
        "2.2.2", "MUST", "percent-encoded reserved octets stay encoded",
        lambda: allows(ALL + "Disallow: /a/b\n", "/a%2Fb")
        and normal_path("/a%2fb") == "/a%2Fb",
    ),
    Row(
        "2.2.3", "MUST", "# begins a comment",
        lambda: not allows(ALL + "Disallow: /a # all of it\n", "/a"),
    ),
    Row(
        "2.2.3", "MUST", "$ is the end of the path",
        lambda: allows(ALL + "Disallow: /a$\n", "/ab")
        and not allows(ALL + "Disallow: /a$\n", "/a"),
    ),
    Row(
        "2.2.3", "MUST", "* is any number of octets, none included",
        lambda: not allows(ALL + "Disallow: /a*c\n", "/ac")
        and not allows(ALL + "Disallow: /a*c\n", "/abbc"),
    ),
    Row(
        "2.2.3", "SHOULD", "special characters are matched literally when encoded",
        lambda: not allows(ALL + "Disallow: /x-%2A.html\n", "/x-%2A.html")
        and allows(ALL + "Disallow: /x-%2A.html\n", "/x-y.html")
        and not allows(ALL + "Disallow: /foo-%24\n", "/foo-%24"),
    ),
    Row(
        "2.2.4", "MUST", "other lines do not disturb those of the protocol",
        lambda: not allows("User-agent: acmebot\nSitemap: /s\nFoo: bar\nDisallow: /a\n", "/a"),
    ),
    Row(
        "2.3.1.3", "MAY", "an unavailable file (4xx) allows all",
        lambda: all(judge_answer(status).use == "allow" for status in (400, 401, 403, 404, 410)),
    ),
    Row(
        "2.3.1.4", "MUST", "an unreachable file (5xx, network) denies all",
        lambda: all(judge_answer(status).use == "deny" for status in (500, 502, 503, 599, None)),
    ),
    Row(
        "2.3.1.5", "MUST", "each line is tried, and those that can be read are used",
        lambda: not is_allowed(
            parse(b"User-agent: *\n\xff\xfe\x00:\nno colon at all here\nDisallow: /a\n", "acmebot"),
            "/a",
        ),
    ),
    Row("2.5", "MUST", "the limit is 500 KiB or more", lambda: MAX_BYTES >= 500 * 1024),
    Row("2.5", "SHOULD", "there is a limit; lines within it count", whole_lines_within_the_limit),
    Row(
        "2.2.2", "MUST", "the URL judged is the one requested, dot segments resolved",
        lambda: not allows(ALL + "Disallow: /p\n", _requested("http://a.example/x/../p")),
    ),
)  # fmt: skip


def _requested(url: str) -> str:
    parsed = parse_url(url)
    assert isinstance(parsed, CrawlUrl)
    return path_of(parsed.href)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section} {row.level} {row.says}")
def test_of_the_file(row: Row) -> None:
    assert row.check()


# Section 2.3 and 2.4 are about fetching.

Scenario = Callable[[Web, RobotsCache], Coroutine[Any, Any, bool]]


async def _read(cache: RobotsCache, web: Web) -> Entry:
    async def no_wait(_host: str) -> None:
        return

    entry, _ = await cache.fetch(web.url(""), "acmebot", b"", no_wait)
    return entry


def _closed(entry: Entry, path: str = "/p") -> bool:
    return entry.denied or (entry.robots is not None and not is_allowed(entry.robots, path))


async def at_the_top(web: Web, cache: RobotsCache) -> bool:
    web.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /p\n")
    entry = await _read(cache, web)
    return web.paths(robots=True) == ["/robots.txt"] and _closed(entry) and not _closed(entry, "/q")


async def five_redirects(web: Web, cache: RobotsCache) -> bool:
    for number in range(MAX_REDIRECTS):
        path = f"/r{number}" if number else "/robots.txt"
        host = "127.0.0.2" if number % 2 else "127.0.0.1"
        target = web.url(f"/r{number + 1}", host)
        web.pages[path] = response(302, b"", f"Location: {target}")
    web.pages[f"/r{MAX_REDIRECTS}"] = response(200, b"User-agent: *\nDisallow: /p\n")
    entry = await _read(cache, web)
    return _closed(entry) and len(web.requests) == MAX_REDIRECTS + 1


async def more_redirects(web: Web, cache: RobotsCache) -> bool:
    web.pages["/robots.txt"] = response(302, b"", "Location: /robots.txt?again")
    web.pages["/robots.txt?again"] = response(302, b"", "Location: /robots.txt")
    entry = await _read(cache, web)
    return not _closed(entry) and len(web.requests) == MAX_REDIRECTS + 1


async def error_pages_are_not_parsed(web: Web, cache: RobotsCache) -> bool:
    web.pages["/robots.txt"] = response(404, b"User-agent: *\nDisallow: /\n")
    open_ = not _closed(await _read(cache, web))
    web.pages["/robots.txt"] = response(500, b"User-agent: *\nAllow: /\n")
    return open_ and not (await _read(cache, web)).denied


async def unreachable(web: Web, cache: RobotsCache) -> bool:
    web.pages["/robots.txt"] = response(503)
    entry = await _read(cache, web)
    now = asyncio.get_running_loop().time()
    return entry.denied and entry.expires_at < now + 3_600


async def a_cut_file_is_unreachable(web: Web, cache: RobotsCache) -> bool:
    async def cut(_request: object, _reader: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nUser-agent: *\n")
        await writer.drain()
        writer.close()

    web.pages["/robots.txt"] = cut
    return (await _read(cache, web)).denied


async def a_copy_outlives_an_outage(web: Web, cache: RobotsCache) -> bool:
    web.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /p\n")
    await _read(cache, web)
    web.pages["/robots.txt"] = response(500)
    entry = await _read(cache, web)
    return not entry.denied and _closed(entry) and not _closed(entry, "/q")


SCENARIOS: tuple[tuple[str, str, str, Scenario], ...] = (
    ("2.3", "MUST", "the rules are at /robots.txt of the authority", at_the_top),
    ("2.3.1.1", "MUST", "the rules of a file that was fetched are followed", at_the_top),
    ("2.3.1.2", "SHOULD", "five redirects are followed, across authorities too", five_redirects),
    ("2.3.1.2", "MUST", "the rules then hold for the authority asked first", five_redirects),
    ("2.3.1.2", "MAY", "more than five redirects mean unavailable", more_redirects),
    ("2.3.1", "MUST", "only a success has rules", error_pages_are_not_parsed),
    ("2.3.1.4", "MUST", "unreachable denies, for now", unreachable),
    ("2.3.1.4", "MUST", "a file that breaks off is unreachable", a_cut_file_is_unreachable),
    ("2.4", "SHOULD", "a copy is used while the file is unreachable", a_copy_outlives_an_outage),
)


@pytest.mark.parametrize(
    ("section", "level", "says", "scenario"),
    SCENARIOS,
    ids=[f"{section} {level} {says}" for section, level, says, _ in SCENARIOS],
)
async def test_of_fetching(
    tmp_path: Path, section: str, level: str, says: str, scenario: Scenario
) -> None:
    async with Web() as web:
        transport = Transport(settings_for(tmp_path))
        cache = RobotsCache(transport, ttl_s=86_400.0)
        try:
            assert await scenario(web, cache)
        finally:
            await transport.close()


async def test_clk_04_2_4_should_a_copy_is_used_for_24_hours_at_most_by_elapsed_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, wall = 1_000.0, 5_000.0
    monkeypatch.setattr("fetchers.worker.robots_cache.time.monotonic", lambda: now)
    monkeypatch.setattr("fetchers.worker.robots_cache.time.time", lambda: wall)
    async with Web() as web:
        transport = Transport(settings_for(tmp_path))
        cache = RobotsCache(transport, ttl_s=86_400.0)
        web.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /p\n")
        origin = web.url("")
        await _read(cache, web)
        wall += 2 * 86_400
        assert cache.fresh(origin, "acmebot", now) is not None
        wall -= 4 * 86_400
        assert cache.fresh(origin, "acmebot", now + 86_399) is not None
        assert cache.fresh(origin, "acmebot", now + 86_401) is None
        await transport.close()


def test_the_setting_cannot_exceed_24_hours() -> None:
    with pytest.raises(ConfigError):
        load({"CRAWL_ROBOTS_TTL_S": "86401"})
