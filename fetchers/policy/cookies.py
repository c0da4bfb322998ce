"""Cookies of one crawl (RFC 6265), for crawls that ask for them. Pure: the clock is the caller's.

A jar is kept per crawl, within the process that owns the host. Only cookies that come from hosts
fetched here are in it, a domain wider than a registrable domain is refused, and nothing is sent
to a host, path or scheme that it was not set for.
"""

from __future__ import annotations

import re
from calendar import monthrange, timegm
from collections import OrderedDict
from typing import Final, NamedTuple

from schemas.admission import registrable_domain

MAX_PER_HOST: Final = 50
MAX_HOSTS: Final = 10_000
MAX_BYTES: Final = 4_096
MAX_ASKED: Final = 10_000
"""Redirecting URLs remembered with the cookies they were asked with."""

_DELIMITERS = re.compile(r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?![0-9])")
_DAY = re.compile(r"([0-9]{1,2})(?![0-9])")
_YEAR = re.compile(r"([0-9]{2,4})(?![0-9])")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun",
                  "jul", "aug", "sep", "oct", "nov", "dec")  # fmt: skip


class Cookie(NamedTuple):
    """One cookie. `expires_at` None: kept as long as the jar. `host_only`: set without Domain."""

    name: str
    value: str
    domain: str
    path: str
    secure: bool
    host_only: bool
    expires_at: float | None


class CookieJar:
    """The cookies of one crawl, bounded per domain and in all; the oldest go first."""

    def __init__(self) -> None:
        self._domains: OrderedDict[str, OrderedDict[tuple[str, str], Cookie]] = OrderedDict()
        self._asked: OrderedDict[str, tuple[int, str]] = OrderedDict()

    def store(self, url: str, host: str, values: list[str], now: float) -> None:
        """Keep what the Set-Cookie lines of a response to `url` say.

        Args:
            url: serialised URL that answered.
            host: its host key.
            values: of all Set-Cookie lines.
            now: seconds since the epoch.
        """
        for value in values:
            cookie = parse_cookie(value, url, host, now)
            if cookie is None:
                continue
            jar = self._domains.setdefault(cookie.domain, OrderedDict())
            self._domains.move_to_end(cookie.domain)
            jar.pop((cookie.name, cookie.path), None)
            if cookie.expires_at is None or cookie.expires_at > now:
                jar[cookie.name, cookie.path] = cookie
            if len(jar) > MAX_PER_HOST:
                jar.popitem(last=False)
        while len(self._domains) > MAX_HOSTS:
            self._domains.popitem(last=False)

    def redirected(self, url: str, hops: int, field: str) -> None:
        """Note that a URL, asked with this Cookie line after so many hops, redirects."""
        self._asked[url] = (hops, field)
        self._asked.move_to_end(url)
        if len(self._asked) > MAX_ASKED:
            self._asked.popitem(last=False)

    def asked_alike(self, url: str, hops: int, field: str) -> bool:
        """Whether a URL redirected earlier on its chain, asked with the cookies it has now.

        It is to be spelled alike; the order of cookies does not count. What is not remembered
        (another process owned the host, or the memory is full) may have changed: the length of a
        chain bounds what that costs.
        """
        before = self._asked.get(url)
        return before is not None and before[0] < hops and same_cookies(before[1], field)

    def forget_asked(self) -> None:
        """Hosts come and go: what another process was told meanwhile is not in this jar."""
        self._asked.clear()

    def field(self, url: str, host: str, now: float) -> str:
        """Value of the Cookie line for a request; empty: none."""
        secure = url.startswith("https://")
        path = _path(url)
        found = []
        domain = host
        while domain:
            for cookie in self._domains.get(domain, {}).values():
                expired = cookie.expires_at is not None and cookie.expires_at <= now
                wrong_host = cookie.host_only and domain != host
                if expired or wrong_host or (cookie.secure and not secure):
                    continue
                if _path_matches(path, cookie.path):
                    found.append(cookie)
            domain = domain.partition(".")[2]
        found.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in found)


def same_cookies(one: str, other: str) -> bool:
    """Whether two Cookie lines say the same: a cookie that is set again moves to the end."""
    return one == other or sorted(one.split("; ")) == sorted(other.split("; "))


def parse_cookie(value: str, url: str, host: str, now: float) -> Cookie | None:
    """The cookie of one Set-Cookie line, or None when it sets none that we may keep.

    Names and values are taken as they are (section 5.2): servers use braces, parentheses, slashes
    and quotes in them. A line without `=` or without a name sets nothing.
    """
    pair, *attributes = value.split(";")
    name, equals, content = (part.strip() for part in pair.partition("="))
    if not equals or not name or len(name) + len(content) > MAX_BYTES:
        return None
    if any(ord(char) < 32 or ord(char) == 127 for char in name + content):
        return None
    said = {}
    for attribute in attributes:
        key, _, word = attribute.partition("=")
        said[key.strip().lower()] = word.strip()
    domain = said.get("domain", "").lower().removeprefix(".")
    if domain == host and _is_suffix(host):
        domain = ""
    if domain and not _domain_allowed(domain, host):
        return None
    path = said.get("path", "")
    if not path.startswith("/"):
        path = _path(url).rpartition("/")[0] or "/"
    return Cookie(
        name,
        content,
        domain or host,
        path,
        "secure" in said,
        not domain,
        _expiry(said, now),
    )


def _is_suffix(host: str) -> bool:
    """Whether strangers own the names below a host: its cookies are its own (5.3, step 5)."""
    return "." not in host or registrable_domain(f"x.{host}") != registrable_domain(host)


def _domain_allowed(domain: str, host: str) -> bool:
    """Whether a host may set a cookie for a domain: its own, no public suffix (5.3, steps 5, 6)."""
    if domain == host:
        return True
    if not host.endswith(f".{domain}") or host[-1:].isdigit():
        return False
    return len(domain) >= len(registrable_domain(host))


def _expiry(said: dict[str, str], now: float) -> float | None:
    age = said.get("max-age")
    if age is not None:
        digits = age.removeprefix("-")
        if digits.isascii() and digits.isdigit():
            return 0.0 if age.startswith("-") else now + min(int(digits[:12]), 400 * 86_400)
    if "expires" in said:
        return cookie_date(said["expires"])
    return None


def cookie_date(text: str) -> float | None:
    """Seconds since the epoch of a cookie's date (section 5.1.1), or None.

    Its parts may come in any order and between any delimiters: cookies are deleted by dates in
    many spellings, and one that is not understood would keep them.
    """
    clock: tuple[int, ...] | None = None
    day = month = year = None
    for token in _DELIMITERS.split(text):
        if clock is None and (found := _TIME.match(token)):
            clock = tuple(int(part) for part in found.groups())
        elif day is None and (found := _DAY.match(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.match(token)):
            year = int(found[1])
            if year < 100:
                year += 1_900 if year >= 70 else 2_000
    if clock is None or day is None or month is None or year is None or year < 1_601:
        return None
    hour, minute, second = clock
    if hour > 23 or minute > 59 or second > 59 or not 1 <= day <= monthrange(year, month)[1]:
        return None
    return float(timegm((year, month, day, hour, minute, second)))


def _path(url: str) -> str:
    return url[url.index("/", url.index("://") + 3) :].partition("?")[0]


def _path_matches(path: str, prefix: str) -> bool:
    if not path.startswith(prefix):
        return False
    return path == prefix or prefix.endswith("/") or path[len(prefix)] == "/"
