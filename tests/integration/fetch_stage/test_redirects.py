"""Redirects in the fetch stage: results of their own, hops within scope, chains that end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cases import case, given
from tests.integration.fetch_stage.specs import ANY, FAST, OPEN
from tests.unit.fetchers.fakes import Handler, Request, Web, html, request_for, response, running

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_redirect_is_a_result_and_a_new_url(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/a"] = response(301, b"<p>moved</p>", "Location: /b?x", "Content-Encoding: gzip")
        runtime.seed(request_for(web.url("/a"), depth=3, redirects=["http://h.example/0"]))
        await runtime.until_idle()
        (result,), (batch,) = runtime.results(), runtime.urls()
    assert (result["status"], result["location"]) == (301, web.url("/b?x"))
    assert result["redirect_followed"]
    assert result["body_bytes"] == 0
    assert batch["via"] == "redirect"
    assert batch["depth"] == 3
    assert batch["redirects"] == ["http://h.example/0", web.url("/a")]
    assert batch["links"][0]["url"] == web.url("/b?x")
    assert runtime.counts["redirects"] == 1


def _sends(text: str) -> Handler:
    """A handler that answers with the raw bytes of a case and closes."""

    async def handler(request: Request, reader: Any, writer: Any) -> None:
        writer.write(text.encode("latin-1"))
        await writer.drain()
        writer.close()

    return handler


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        *given("red-01"),
        (case("red-06")["input"]["raw_response_latin1"], "/a1"),
        (
            case("red-09")["input"]["raw_response_latin1"],
            case("red-09")["expected"]["next_request"],
        ),
    ],
)
async def test_red_01_red_06_red_09_next_hop_of_raw_answers(
    tmp_path: Path, raw: str, path: str
) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/s"] = _sends(raw)
        web.pages["/robots.txt"] = OPEN
        runtime.seed(request_for(web.url("/s")))
        await runtime.until_idle()
        (batch,) = runtime.urls()
        runtime.seed(request_for(batch["links"][0]["url"]))
        await runtime.until_idle()
    assert web.paths() == ["/s", path]


async def test_red_10_out_of_scope_is_recorded_and_not_followed(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/out"] = response(302, b"", "Location: https://b.example/z")
        runtime.seed(request_for(web.url("/out")))
        await runtime.until_idle()
        (result,) = runtime.results()
    assert result["location"] == "https://b.example/z"
    assert not result["redirect_followed"]
    assert runtime.urls() == []
    assert runtime.counts["redirects_refused"] == 1


@pytest.mark.parametrize(
    "location",
    [
        "data:text/html,hi",
        *(row.partition(": ")[2] for row in case("red-04")["input"]["rows"] if ": " in row),
        "http://[::1",
        "http://256.256.256.256/",
    ],
)
async def test_red_03_red_04_other_schemes_are_terminal(tmp_path: Path, location: str) -> None:
    async with Web() as web, running(tmp_path, ANY) as runtime:
        web.pages["/a"] = response(302, b"", f"Location: {location}")
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        (result,) = runtime.results()
    assert result["status"] == 302
    assert {"name": "location", "value": location} in result["headers"]
    assert (result["location"], result["redirect_followed"]) == ("", False)
    assert runtime.urls() == []


async def test_red_07_a_hop_to_the_same_url_is_followed_with_its_cookie(tmp_path: Path) -> None:
    async def gate(request: Request, reader: Any, writer: Any) -> None:
        known = request.headers.get("cookie") == "s=1"
        writer.write(html() if known else response(302, b"", "Location: /p", "Set-Cookie: s=1"))
        await writer.drain()

    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/p"] = gate
        runtime.seed(request_for(web.url("/p")))
        await runtime.until_idle()
        (result,) = runtime.results()
    assert result["status"] == case("red-07")["expected"]["final_status"]
    assert web.paths() == ["/p"] * case("red-07")["expected"]["requests"]
    assert runtime.urls() == []


async def test_a_self_redirect_without_end_is_given_up(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/p"] = response(302, b"", "Location: /p")
        runtime.seed(request_for(web.url("/p")))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"
    assert web.paths() == ["/p"]


async def test_a_chain_that_is_too_long_is_given_up(tmp_path: Path) -> None:
    async with Web() as web, running(tmp_path, FAST) as runtime:
        web.pages["/p"] = response(302, b"", "Location: /q")
        chain = [f"http://h.example/{number}" for number in range(10)]
        runtime.seed(request_for(web.url("/p"), redirects=chain))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "too_many_redirects"
    assert runtime.urls() == []


async def test_ssr_01_the_hop_to_a_private_address_is_blocked_when_it_comes_up(
    tmp_path: Path,
) -> None:
    async with Web() as web, running(tmp_path, ANY) as runtime:
        web.pages["/a"] = response(302, b"", "Location: http://169.254.169.254/latest/meta-data/")
        runtime.seed(request_for(web.url("/a")))
        await runtime.until_idle()
        (batch,) = runtime.urls()
        runtime.seed(request_for(batch["links"][0]["url"], redirects=batch["redirects"]))
        await runtime.until_idle()
        (letter,) = runtime.letters()
    assert letter["reason"] == "blocked_address"
    assert web.paths() == ["/a"]
