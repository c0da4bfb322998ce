"""Cookies against the standard library's jar, in its strict settings."""

from __future__ import annotations

import re
import time
from email.message import Message
from http import cookiejar
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final
from urllib.request import Request

from fetchers.policy.cookies import CookieJar, cookie_date
from fetchers.policy.retry_after import http_date
from schemas.url import CrawlUrl, parse
from tests.corpus.differences import Difference, comparing

if TYPE_CHECKING:
    import pytest

_URLS: Final = (
    "http://a.example/",
    "http://a.example/d/p",
    "http://a.example/d/",
    "http://a.example/dir",
    "https://a.example/d/e/f",
    "http://www.a.example/d",
    "https://b.www.a.example/",
    "http://b.example/",
    "http://192.0.2.7/d/p",
    "http://192.0.2.8/",
    "http://a.co.uk/",
    "http://b.co.uk/",
)
_PAIRS: Final = (
    "n=v",
    "n=w",
    "m=1",
    "N=3",
    "x={a:1}",
    'q="v w"',
    "s=a b",
    "e=",
    "u=\u00e9",
    "z=a=b",
)
_ODD_PAIRS: Final = (
    "novalue",
    "=v",
    "",
    " sp = v ",
    "t=a,b",
    "c=\x01",
    "k\x7f=v",
    "(n)=v",
    "n v=1",
)
_DOMAINS: Final = ("a.example", ".a.example", "A.Example", "www.a.example", "b.example", "example",
                   "co.uk", "", "192.0.2.7", "a.example.", "xa.example", "..a.example")  # fmt: skip
_PATHS: Final = ("/", "/d", "/d/", "/d/e", "", "d", "/D", "/%64")
_EXPIRES: Final = ("Wed, 01 Jan 2031 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
                   "Wed, 01-Jan-2031 00:00:00 GMT", "Wednesday, 01-Jan-31 00:00:00 GMT",
                   "Wed Jan  1 00:00:00 2031", "soon", "0", "Thu, 01-Jan-1970 00:00:01 GMT",
                   "Wed, 1 Jan 2031 00:00:00 GMT", "Wed, 01 Jan 2031 00:00:00 UTC",
                   "Wed, 01 Jan 2031 0:00:00 GMT")  # fmt: skip
NOW: Final = 1_800_000_000.0


def _line(random: Random, *, odd: bool) -> str:
    pair = random.choice(_ODD_PAIRS if odd and random.random() < 0.3 else _PAIRS)
    said = [
        *([f"Domain={random.choice(_DOMAINS)}"] if random.random() < 0.4 else []),
        *([f"Path={random.choice(_PATHS)}"] if random.random() < 0.4 else []),
        *(["Secure"] if random.random() < 0.15 else []),
        *(["HttpOnly", "SameSite=Lax"] if random.random() < 0.2 else []),
        *([f"Max-Age={random.choice(('100', '0', '-1', 'x', '99999999999999999999'))}"]
          if random.random() < 0.2 else []),
        *([f"Expires={random.choice(_EXPIRES)}"] if random.random() < 0.3 else []),
    ]  # fmt: skip
    random.shuffle(said)
    return random.choice(("; ", ";", " ;  ")).join([pair, *said])


def _ours(answered: str, lines: list[str], asked: str) -> list[str]:
    jar = CookieJar()
    one, other = parse(answered), parse(asked)
    assert isinstance(one, CrawlUrl)
    assert isinstance(other, CrawlUrl)
    jar.store(one.href, one.host, lines, NOW)
    return sorted(filter(None, jar.field(other.href, other.host, NOW).split("; ")))


def _theirs(answered: str, lines: list[str], asked: str) -> list[str]:
    strict = cookiejar.DefaultCookiePolicy.DomainStrictNonDomain
    jar = cookiejar.CookieJar(
        cookiejar.DefaultCookiePolicy(netscape=True, rfc2965=False, strict_ns_domain=strict)
    )
    message = Message()
    for line in lines:
        message["Set-Cookie"] = line
    jar.extract_cookies(SimpleNamespace(info=lambda: message), Request(answered))  # type: ignore[arg-type]
    request = Request(asked)
    jar.add_cookie_header(request)
    return sorted(filter(None, (request.get_header("Cookie") or "").split("; ")))


def _said(lines: tuple[str, ...], name: str) -> list[str]:
    return [
        found for line in lines for found in re.findall(rf"; *{name}=([^;]*)", line, re.IGNORECASE)
    ]


COOKIES: Final = (
    Difference(
        "no name",
        "a line without `=` sets nothing (RFC 6265, 5.2)",
        lambda given, ours, theirs: "novalue" in theirs and "novalue" not in ours,
    ),
    Difference(
        "control characters",
        "none reaches a request",
        lambda given, ours, theirs: (
            any(not it.isprintable() for it in theirs)
            and ours == [it for it in theirs if it.isprintable()]
        ),
    ),
    Difference(
        "empty domain",
        "a Domain without value is none (RFC 6265, 5.2.3)",
        lambda given, ours, theirs: "" in (it.strip() for it in _said(given[1], "Domain")) and ours,
    ),
    Difference(
        "public suffix",
        "nobody owns co.uk: a cookie for it would go to strangers (RFC 6265, 5.3, step 5)",
        lambda given, ours, theirs: (
            "co.uk" in _said(given[1], "Domain") and len(ours) < len(theirs)
        ),
    ),
    Difference(
        "one identity",
        "name, domain and path are a cookie's identity, with Domain or without (5.3, step 11); the"
        " library keeps both",
        lambda given, ours, theirs: (
            len({it.partition("=")[0] for it in theirs}) < len(theirs) and len(ours) == 1
        ),
    ),
    Difference(
        "relative path deletes",
        "as below, where the cookie that goes is the one before",
        lambda given, ours, theirs: _said(given[1][1:], "Path") == ["d"] and not ours,
    ),
    Difference(
        "relative path",
        "a Path that does not begin with a slash is none (RFC 6265, 5.2.4)",
        lambda given, ours, theirs: "d" in (it.strip() for it in _said(given[1], "Path")) and ours,
    ),
    Difference(
        "no number",
        "a Max-Age that is no number is none (RFC 6265, 5.2.2)",
        lambda given, ours, theirs: (
            "x" in (it.strip() for it in _said(given[1], "Max-Age")) and ours
        ),
    ),
)


def test_a_request_gets_the_cookies_that_the_library_would_send(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(time=lambda: NOW, localtime=time.localtime, gmtime=time.gmtime)
    monkeypatch.setattr(cookiejar, "time", clock)
    random = Random(1)
    with comparing(COOKIES, at_least=6_000) as compare:
        for _ in range(6_000):
            answered, asked = random.choice(_URLS), random.choice(_URLS)
            lines = [_line(random, odd=True) for _ in range(random.choice((1, 1, 2)))]
            ours = _ours(answered, lines, asked)
            compare((answered, tuple(lines), asked), ours, _theirs(answered, lines, asked))


def test_a_cookies_date_is_read_in_any_order_of_its_parts() -> None:
    random = Random(2)
    with comparing(at_least=2_000) as compare:
        for _ in range(2_000):
            moment = time.gmtime(random.randrange(0, 4_000_000_000))
            parts = [
                random.choice((time.strftime("%d", moment), str(moment.tm_mday))),
                time.strftime(random.choice(("%b", "%B")), moment).upper(),
                str(moment.tm_year),
                f"{moment.tm_hour}:{moment.tm_min}:{moment.tm_sec}",
            ]
            if random.random() < 0.8:
                parts += [time.strftime("%a", moment), "GMT"]
            random.shuffle(parts)
            text = random.choice((" ", "-", ", ", ";/")).join(parts)
            compare(
                text,
                cookie_date(text),
                http_date(time.strftime("%a, %d %b %Y %H:%M:%S GMT", moment)),
            )
