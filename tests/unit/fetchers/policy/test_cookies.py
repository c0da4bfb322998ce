"""Cookies: which are kept, and where they go."""

from __future__ import annotations

import pytest

from fetchers.policy.cookies import CookieJar, parse_cookie
from tests.cases import case, given


def test_cok_01_odd_names_and_values() -> None:
    jar = CookieJar()
    jar.store("http://a.example/", "a.example", case("cok-01")["input"]["set_cookie_headers"], 0.0)
    sent = jar.field("http://a.example/", "a.example", 1.0).split("; ")
    for wanted in ("lb{9F}=1", "cnt(s)y(q)=2", "_tok/link=3", 'g={"i":0,"j":1}', "z=26"):
        assert wanted in sent
    assert len(sent) == 5


@pytest.mark.parametrize(("host", "attribute", "expected"), given("cok-03"))
def test_cok_03_domains(host: str, attribute: str, expected: str) -> None:
    name, _, port = host.partition(":")
    url = f"https://{host}/"
    line = "s=1" if attribute == "(none)" else f"s=1; {attribute}"
    jar = CookieJar()
    jar.store(url, name, [line], 0.0)
    if expected == "rejected":
        assert jar.field(url, name, 1.0) == ""
    else:
        assert jar.field(url, name, 1.0) == "s=1"
        if port:
            assert jar.field(f"https://{name}/", name, 1.0) == "s=1"


@pytest.mark.parametrize(
    ("line", "url", "sent"),
    [
        ("s=1; Path=/a", "http://a.example/a/b", True),
        ("s=1; Path=/a", "http://a.example/ab", False),
        ("s=1; Secure", "http://a.example/", False),
        ("s=1; Max-Age=0", "http://a.example/", False),
        ("s=1; Max-Age=10", "http://a.example/", True),
        ("s=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT", "http://a.example/", False),
        ("s=1; Domain=a.example", "http://sub.a.example/", True),
        ("s=1", "http://sub.a.example/", False),
        ("s=1\x00", "http://a.example/", False),
    ],
)
def test_where_a_cookie_goes(line: str, url: str, sent: bool) -> None:
    now = 2_000_000_000.0
    jar = CookieJar()
    jar.store("http://a.example/", "a.example", [line], now)
    host = url.split("/")[2]
    assert (jar.field(url, host, now + 1) == "s=1") is sent


def test_a_later_cookie_replaces_an_earlier_one() -> None:
    jar = CookieJar()
    jar.store("http://a.example/", "a.example", ["s=1", "s=2"], 0.0)
    assert jar.field("http://a.example/", "a.example", 1.0) == "s=2"


def test_huge_cookies_are_not_kept() -> None:
    assert parse_cookie("a=" + "x" * 5_000, "http://a.example/", "a.example", 0.0) is None


def test_red_12_nothing_of_one_host_goes_to_another() -> None:
    jar = CookieJar()
    jar.store("https://a.example/", "a.example", ["s=1; Secure"], 0.0)
    sent = {}
    for row, _ in case("red-12")["input"]["rows"]:
        target = row.split(" -> ")[1]
        sent[target] = jar.field(target, target.split("/")[2].partition(":")[0], 1.0)
    assert sent["https://b.example/"] == ""
    assert sent["http://a.example/"] == ""
    assert sent["https://a.example/y"] == "s=1"


@pytest.mark.parametrize(
    "date",
    [
        "Thu, 1 Jan 1970 00:00:01 GMT",
        "Thu, 01-Jan-1970 0:00:01 UTC",
        "1 jan 1970 00:00:01",
        "Thu Jan  1 00:00:01 1970",
        "00:00:01 01 January 70",
    ],
)
def test_a_cookie_is_deleted_by_a_date_in_any_spelling(date: str) -> None:
    jar = CookieJar()
    jar.store("http://a.example/", "a.example", ["n=v"], 1_800_000_000.0)
    jar.store("http://a.example/", "a.example", [f"n=; Expires={date}"], 1_800_000_000.0)
    assert jar.field("http://a.example/", "a.example", 1_800_000_000.0) == ""


@pytest.mark.parametrize("suffix", ["github.io", "co.uk", "localhost"])
def test_the_cookie_of_a_public_suffix_is_its_own(suffix: str) -> None:
    jar = CookieJar()
    jar.store(f"http://{suffix}/", suffix, [f"n=v; Domain={suffix}"], 0.0)
    assert jar.field(f"http://{suffix}/", suffix, 0.0) == "n=v"
    assert jar.field(f"http://x.{suffix}/", f"x.{suffix}", 0.0) == ""


def test_one_leading_dot_of_a_domain_is_dropped() -> None:
    jar = CookieJar()
    lines = ["n=v; Domain=.a.example", "m=v; Domain=..a.example"]
    jar.store("http://a.example/", "a.example", lines, 0.0)
    assert jar.field("http://b.a.example/", "b.a.example", 0.0) == "n=v"
