"""robots.txt: every case that is about the file itself, and the matcher's speed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fetchers.policy.robots import ALLOW_ALL, is_allowed, judge_answer, normal_path
from schemas.url import CrawlUrl, path_of
from schemas.url import parse as parse_url
from tests.cases import of_kind
from tests.unit.fetchers.robots_files import parse

CASES = of_kind("robots")


def _path(url: str) -> str:
    parsed = parse_url(url)
    assert isinstance(parsed, CrawlUrl)
    return path_of(parsed.href)


def _verdict(text: str | bytes, agent: str, url: str) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return "allow" if is_allowed(parse(data, agent), _path(url)) else "deny"


def _rows() -> list[Any]:
    rows = []
    for case_id in ("rob-03", "rob-06", "rob-07", "rob-09", "rob-10", "rob-13"):
        given = CASES[case_id]["input"]
        for number, row in enumerate(given["rows"], 1):
            text, *rest = row
            agent = rest[0] if len(row) == 4 else given["agent"]
            rows.append(pytest.param(text, agent, *row[-2:], id=f"{case_id}.{number}"))
    return rows


@pytest.mark.parametrize(("text", "agent", "url", "expected"), _rows())
def test_rows(text: str, agent: str, url: str, expected: str) -> None:
    assert _verdict(text, agent, url) == expected


@pytest.mark.parametrize("case_id", ["rob-01", "rob-04", "rob-12"])
def test_files(case_id: str) -> None:
    case = CASES[case_id]
    given = case["input"]
    data = given.get("robots_txt_latin1", given.get("robots_txt", "")).encode("latin-1")
    assert _verdict(data, given["agent"], given["url"]) == case["expected"]


def test_rob_15_answers() -> None:
    use = {"use rules": "rules", "deny all": "deny"}
    for status, _, expected in CASES["rob-15"]["input"]["robots_response"]:
        answer = judge_answer(status if isinstance(status, int) else None)
        assert answer.use == use.get(expected, "allow"), status


def test_rob_16_too_many_requests_holds_the_host() -> None:
    assert judge_answer(429, 60.0) == ("deny", 60.0)


def test_rob_21_no_backtracking() -> None:
    case = CASES["rob-21"]
    text = "User-agent: *\nDisallow: /" + "*a" * 30 + "*b\n"
    began = time.thread_time()
    assert _verdict(text, "acmebot", case["input"]["url"]) == case["expected"]["decision"]
    assert time.thread_time() - began < case["expected"]["time_limit_s"]


@pytest.mark.parametrize(
    ("text", "url", "expected"),
    [
        # RFC 9309 section 2.2.2: how octets compare.
        ("Disallow: /foo/bar?baz=quz", "/foo/bar?baz=quz", "deny"),
        ("Disallow: /foo/bar?baz=http://foo.bar", "/foo/bar?baz=http%3A%2F%2Ffoo.bar", "allow"),
        ("Disallow: /foo/bar/\u30c4", "/foo/bar/%E3%83%84", "deny"),
        ("Disallow: /foo/bar/%E3%83%84", "/foo/bar/\u30c4", "deny"),
        ("Disallow: /foo/bar/%62%61%7A", "/foo/bar/baz", "deny"),
        ("Disallow: /foo/bar/baz", "/foo/bar/%62%61%7A", "deny"),
        ("Disallow: /a%2fb", "/a%2Fb", "deny"),
        ("Disallow: /a%2Fb", "/a/b", "allow"),
        ("Disallow: /~joe", "/%7Ejoe", "deny"),
        ("Disallow: /{x}", "/%7Bx%7D", "deny"),
        ("Disallow: /?q={x}", "/?q={x}", "deny"),
        # Section 2.2.3: special characters, and how to name them literally.
        ("Disallow: /f-%2A.html", "/f-*.html", "deny"),
        ("Disallow: /f-%2A.html", "/f-x.html", "allow"),
        ("Disallow: /foo-%24", "/foo-$", "deny"),
        ("Disallow: /a$b", "/a$b/c", "deny"),
        ("Disallow: /a$b", "/a", "allow"),
        ("Disallow: /x*", "/xyz", "deny"),
        ("Disallow: /*$", "/anything", "deny"),
        ("Disallow: /a*a$", "/a", "allow"),
        ("Disallow: /a*a$", "/aa", "deny"),
        ("Disallow: /**b", "/a/b", "deny"),
        # Dot segments are gone from the URL that is requested.
        ("Disallow: /secret", "/open/../secret", "deny"),
        ("Disallow: /secret", "/open/%2e%2e/secret", "deny"),
        # Lines.
        ("disallow /no-colon", "/no-colon", "deny"),
        ("Disallow: /x # comment", "/x", "deny"),
        ("Disallow: x", "/x", "deny"),
        ("Disallow: https://a.example/x", "/x", "deny"),
        ("Disallow: https://a.example/x", "/", "allow"),
        ("Disalow: /x", "/x", "deny"),
        ("Allow:\nDisallow: /x", "/x", "deny"),
        ("Noindex: /x", "/x", "allow"),
    ],
)
def test_one_rule(text: str, url: str, expected: str) -> None:
    assert _verdict(f"User-agent: *\n{text}\n", "acmebot", f"https://a.example{url}") == expected


@pytest.mark.parametrize("eol", ["\r", "\n", "\r\n"])
def test_line_ends(eol: str) -> None:
    text = eol.join(["User-agent: *", "Disallow: /a", "Disallow: /b", ""])
    assert _verdict(text, "acmebot", "https://a.example/b") == "deny"


def test_crawl_delay_and_sitemaps() -> None:
    text = (
        "Sitemap: /s.xml\nUser-agent: *\nCrawl-delay: 3\nUser-agent: acmebot\nCrawl-delay: 1.5\n"
        "Disallow:\nUser-agent: acmebot\nCrawl-delay: 4\nsitemap: https://a.example/t.xml\n"
    )
    rules = parse(text.encode(), "acmebot")
    assert rules.crawl_delay_s == 4.0
    assert rules.sitemaps == ("/s.xml", "https://a.example/t.xml")
    assert parse(text.encode(), "other").crawl_delay_s == 3.0


@pytest.mark.parametrize("value", ["-5", "nan", "1,5", "inf", "", "1e3", "\u0663"])
def test_bad_crawl_delay_is_not_said(value: str) -> None:
    rules = parse(f"User-agent: *\nCrawl-delay: {value}\n".encode(), "acmebot")
    assert rules.crawl_delay_s is None


def test_noise_spoils_only_itself() -> None:
    noise = bytes(range(256)) * 50
    rules = parse(noise + b"\nUser-agent: *\nDisallow: /p\n" + noise, "acmebot")
    assert not is_allowed(rules, "/p")
    assert is_allowed(rules, "/x")
    assert is_allowed(ALLOW_ALL, "/p")


def test_normal_path_is_idempotent() -> None:
    for path in ("/a%7eb", "/%", "/%zz", "/caf%c3%a9?x={y}|*$", "/a b"):
        assert normal_path(normal_path(path)) == normal_path(path)


def test_matching_takes_microseconds() -> None:
    lines = ["User-agent: *"]
    lines += [f"Disallow: /{'x' * (n % 17)}dir{n}/" for n in range(60)]
    lines += [f"Disallow: /*.{ext}$" for ext in ("php", "cgi", "asp", "zip", "exe")]
    lines += ["Allow: /*/public/", "Disallow: /search?*q="]
    rules = parse("\n".join(lines).encode(), "acmebot")
    assert min(_time(rules) for _ in range(5)) < 50e-6


def _time(rules: Any) -> float:
    began = time.thread_time()
    for _ in range(500):
        is_allowed(rules, "/some/ordinary/page-of-a-site.html?id=42&x=y")
    return (time.thread_time() - began) / 500
