"""What a crawl's spec says to the fetch stage: budget, state, cookies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from schemas.crawl import CrawlSpec
from tests.cases import case
from tests.integration.fetch_stage.specs import FAST, OPEN
from tests.unit.fetchers.fakes import Web, html, request_for, response, running

if TYPE_CHECKING:
    from pathlib import Path


async def test_budget_and_state_are_looked_at_before_each_fetch(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, max_pages=3)
    async with Web() as web, running(tmp_path, spec) as runtime:
        web.default = html()
        web.pages["/robots.txt"] = OPEN
        runtime.seed(*(request_for(web.url(f"/{number}")) for number in range(10)))
        await runtime.until_idle()
    assert runtime.counts["pages"] == 3
    assert runtime.counts["rejected.budget_spent"] == 7
    assert len(web.paths()) == 3


async def test_a_stopped_crawl_fetches_nothing(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, state="stopped")
    async with running(tmp_path, spec) as runtime:
        runtime.seed(request_for("http://127.0.0.1:9/x"))
        await runtime.until_idle()
    assert runtime.counts == {"rejected.crawl_stopped": 1}


async def test_an_unknown_crawl_gets_a_while_to_become_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchers.worker.intake.UNKNOWN_CRAWL_S", 3.0)
    monkeypatch.setattr("fetchers.worker.stage.HOUSEKEEPING_S", 0.05)
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html()
        late = runtime.crawls.known.pop("c")
        runtime.seed(request_for(web.url("/a")), request_for(web.url("/b"), crawl="never"))
        await asyncio.sleep(0.1)
        runtime.crawls.known["c"] = late
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "unknown_crawl"
    assert runtime.counts["pages"] == 1


async def test_cok_04_cookies_of_a_crawl_that_wants_them(tmp_path: Path) -> None:
    spec = CrawlSpec(crawl="c", delay_s=0, scope="any", cookies=True)
    async with Web() as web, running(tmp_path, spec) as runtime:
        web.pages["/1"] = response(302, b"", "Location: /2", "Set-Cookie: s=1", "Set-Cookie: s=2")
        web.pages["/2"] = html()
        runtime.seed(request_for(web.url("/1")), request_for(web.url("/2")))
        await runtime.until_idle()
        runtime.seed(request_for(web.url("/2", host="127.0.0.2")))
        await runtime.until_idle()
    sent = [request.headers.get("cookie") for request in web.requests if request.path == "/2"]
    assert sent == [case("cok-04")["expected"]["hop2_cookie"], None]


async def test_no_cookies_by_default(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.default = html(b"x", "Set-Cookie: s=1")
        runtime.seed(request_for(web.url("/1")), request_for(web.url("/2")))
        await runtime.until_idle()
    assert all("cookie" not in request.headers for request in web.requests)
