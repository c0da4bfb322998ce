"""`crawl fetch`: what it says about one URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fetchers.check import check, show
from schemas.url import CrawlUrl, parse
from tests.unit.fetchers.fakes import Web, html, response, settings_for

if TYPE_CHECKING:
    from pathlib import Path


def _url(text: str) -> CrawlUrl:
    parsed = parse(text)
    assert isinstance(parsed, CrawlUrl)
    return parsed


async def test_each_hop_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with Web() as web:
        web.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /no\n")
        web.pages["/a"] = response(302, b"", "Location: /b")
        web.pages["/b"] = html()
        report = await check(_url(web.url("/a")), settings_for(tmp_path, default_delay_s=0))
        assert report.pop("body") == b"<p>hello</p>"
        show(report, headers=True)
    first, second = report["hops"]
    assert (first["status"], first["location"]) == (302, web.url("/b"))
    assert (second["status"], second["allowed"], second["addresses"]) == (200, True, ["127.0.0.1"])
    assert report["outcome"] == "result"
    printed = capsys.readouterr().out
    for part in ("robots.txt", "302 HTTP/1.1", "location", "content-type: text/html"):
        assert part in printed


async def test_a_location_that_cannot_be_fetched_is_told_and_not_followed(tmp_path: Path) -> None:
    async with Web() as web:
        web.pages["/a"] = response(302, b"", "Location: data:text/html,hi")
        report = await check(_url(web.url("/a")), settings_for(tmp_path, default_delay_s=0))
    (hop,) = report["hops"]
    assert (report["outcome"], hop["location"]) == ("result", "data:text/html,hi")
    assert hop["detail"].startswith("not followed: unsupported_scheme")


async def test_a_robots_txt_that_is_not_obeyed_whole_is_told(tmp_path: Path) -> None:
    async with Web() as web:
        web.pages["/robots.txt"] = response(200, b"Sitemap: /" + b"x" * 5_000)
        web.pages["/a"] = html()
        report = await check(_url(web.url("/a")), settings_for(tmp_path, default_delay_s=0))
    (hop,) = report["hops"]
    assert hop["robots"] == web.url("/robots.txt") + ": 200, not obeyed whole: line"


@pytest.mark.parametrize(
    ("path", "outcome"),
    [("/no", "robots_denied"), ("/gone", "http_4xx"), ("/loop", "too_many_redirects")],
)
async def test_why_there_is_no_result(tmp_path: Path, path: str, outcome: str) -> None:
    async with Web() as web:
        web.pages["/robots.txt"] = response(200, b"User-agent: *\nDisallow: /no\n")
        web.pages["/loop"] = response(302, b"", "Location: /loop")
        report = await check(_url(web.url(path)), settings_for(tmp_path, default_delay_s=0))
    assert report["outcome"] == outcome


async def test_private_addresses_are_said_to_be_blocked(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, allow_networks="", default_delay_s=0)
    report = await check(_url("http://localhost:9/"), settings)
    assert report["outcome"] == "blocked_address"
