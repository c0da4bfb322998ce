"""What an answer comes to: statuses, media types, redirects."""

from __future__ import annotations

from typing import Any

import pytest

from fetchers.policy.outcome import (
    Redirect,
    accepts,
    came_round_since,
    judge_redirect,
    judge_status,
    media_type,
    resolve_location,
)
from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
from schemas.reasons import Reason
from schemas.url import CrawlUrl, path_of
from tests.cases import case, given
from tests.unit.fetchers.fakes import request_for


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("text/html", True),
        ("application/rss+xml", True),
        ("application/ld+json", True),
        ("application/pdf", True),
        ("image/png", False),
        ("video/mp4", False),
        ("application/zip", False),
        ("", True),
    ],
)
def test_default_accept_list(kind: str, wanted: bool) -> None:
    assert accepts(CrawlSpec(crawl="c").accept, kind) is wanted


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Text/HTML; charset=x", "text/html"),
        ("text/html,text/html", ""),
        ("junk", ""),
        ("", ""),
        (" application/xhtml+xml ;q", "application/xhtml+xml"),
    ],
)
def test_media_type(value: str, expected: str) -> None:
    assert media_type((("content-type", value),)) == expected


def test_statuses_and_bodies() -> None:
    html = (("content-type", "text/html"),)
    accept = CrawlSpec(crawl="c").accept
    assert judge_status(200, accept, html) is True
    assert judge_status(304, accept, html) is False
    assert judge_status(301, accept, (("location", "/x"),)) is False
    assert judge_status(301, accept, html) is True
    assert judge_status(404, accept, html) is Reason.HTTP_4XX
    assert judge_status(200, accept, (("content-type", "image/png"),)) is Reason.CONTENT_TYPE


def _location(raw: str) -> str:
    return raw.partition("Location: ")[2].partition("\r\n")[0]


@pytest.mark.parametrize(("raw", "expected"), given("red-01"))
def test_red_01_raw_bytes_are_encoded_as_they_are(raw: str, expected: str) -> None:
    target = resolve_location(_location(raw), case("red-01")["input"]["request"])
    assert isinstance(target, CrawlUrl)
    assert path_of(target.href) == expected


def test_red_13_an_empty_base_path() -> None:
    target = resolve_location("phone.html", "https://a.example/")
    assert target == CrawlUrl("https://a.example/phone.html", "a.example")


RULES = compile_rules(CrawlSpec(crawl="c"))


def _redirect(url: str, *locations: str, **changes: Any) -> Any:
    headers = tuple(("location", location) for location in locations)
    return judge_redirect(RULES, request_for(url, **changes), 302, headers)


def test_red_06_the_first_location_counts() -> None:
    redirect = _redirect("http://a.example/x", "/a1", "/a2")
    assert redirect.target.href == "http://a.example/a1"


@pytest.mark.parametrize(
    ("location", "depth", "followed", "same"),
    [
        ("/y", 1, True, False),
        ("https://a.example/x", 1, True, False),
        ("https://www.a.example/x", 1, False, False),
        ("https://www.a.example/x", 0, True, False),
        ("https://b.example/x", 0, False, False),
        ("http://a.example/x#frag", 1, False, True),
        ("http://A.EXAMPLE:80/x?utm_source=1", 1, False, True),
        ("//a.example/%78", 1, False, True),
    ],
)
def test_where_redirects_may_lead(location: str, depth: int, followed: bool, same: bool) -> None:
    redirect = _redirect("http://a.example/x", location, depth=depth)
    assert isinstance(redirect, Redirect)
    assert (redirect.followed, redirect.same) == (followed, same)


def test_a_seed_s_redirect_moves_the_scope() -> None:
    redirect = _redirect("http://a.example/", "https://www.a.example/", depth=0)
    assert redirect.scope_host == "www.a.example"


def test_no_location_is_no_redirect() -> None:
    assert _redirect("http://a.example/") is None
    assert _redirect("http://a.example/", "") is None


@pytest.mark.parametrize(
    ("target", "chain", "since"),
    [
        ("a", "ab", False),
        ("b", "ab", False),
        ("c", "ab", False),
        ("b", "aba", True),
        ("b", "abca", True),
        ("a", "abcb", True),
        ("b", "bacda", True),
        ("a", "aba", False),
        ("a", "abab", False),
        ("b", "abab", False),
        ("c", "abca", True),
        ("a", "", False),
    ],
)
def test_whether_a_chain_came_round_elsewhere_since(target: str, chain: str, since: bool) -> None:
    ids = [letter.encode() for letter in chain]
    assert came_round_since(target.encode(), ids) == since
