"""From links as written to URLs that can be fetched.

Resolving costs about 9 us a link and hashing 3 us more, but a site's pages repeat their
navigation: `Resolver` remembers what a reference gave in a folder, so most links of most pages
cost one look-up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import ada_url

from parsers.links.lru import Recent
from parsers.text.encodings import query_codec
from schemas.admission import Rules, refuse_url
from schemas.reasons import Reason
from schemas.url import MAX_URL_CHARS, CrawlUrl, Rejected, absolute, parse, url_id

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE_LINKS: Final = 40_000
"""References remembered per crawl in a parse process; about 300 bytes each."""

_TRIM: Final = "".join(map(chr, range(0x21)))
_BREAKS = re.compile(r"(?>\r\n|\r|\n)[ \t]*[\r\n]")
_REFRESH = re.compile(
    r"[\t\n\f\r ]*(?:[0-9]+|\.)[0-9.]*"
    r"(?:[\t\n\f\r ]*[;,][\t\n\f\r ]*|[\t\n\f\r ]+)"
    r"(?:url[\t\n\f\r ]*=[\t\n\f\r ]*)?(?:([\"'])(.*?)(?:\1|$)|(.*))",
    re.IGNORECASE | re.DOTALL,
)
_LINK_HEADER = re.compile(r"<([^>]*)>((?:[^,\"<]|\"(?:[^\"\\]|\\.)*\")*)")
_PARAM = re.compile(
    r";\s*([^\s=;,\"]*)\s*(?:=\s*(?:\"((?:[^\"\\]|\\.)*)\"?|'([^']*)'|([^\s;,]*)))?"
)
_SRCSET_SPACE: Final = "\t\n\f\r "


class Target(NamedTuple):
    """A URL that a page links to.

    `refused` is why a link to it may not enter the crawl (patterns, traps), whatever its host.
    """

    url: str
    host: str
    url_id: bytes
    refused: Reason | None


class Resolver:
    """Resolves the links of one crawl, with memory.

    Args:
        rules: of the crawl; a new revision needs a new resolver.
        size: references to remember.
    """

    def __init__(self, rules: Rules, size: int = CACHE_LINKS) -> None:
        self.rules = rules
        self._seen: Recent[tuple[str, str], Target | Rejected] = Recent(size)

    def within(self, base: str, charset: str = "utf-8") -> Base:
        """The resolver for one base URL and the encoding of the document."""
        return Base(self, base, charset)

    def resolve(self, href: str, base: str, charset: str | None = None) -> Target | Rejected:
        """Resolve without memory. `charset` is a Python codec, for queries; None: UTF-8."""
        run_on = _run_on(href)
        if run_on is not None:
            return run_on
        found = parse(href, base, charset)
        if isinstance(found, Rejected):
            return found
        return self.target(found)

    def target(self, url: CrawlUrl) -> Target:
        """The target of a URL already parsed."""
        rules = self.rules
        identity = url_id(rules.spec.crawl, url.href, rules.ignore_params)
        return Target(url.href, url.host, identity, refuse_url(rules, url.href, 1))

    def remembered(self, href: str, base: str, folder: str) -> Target | Rejected:
        """Resolve a reference that depends on nothing of the base but its folder."""
        key = (folder, href)
        found = self._seen.get(key)
        if found is None:
            found = self.resolve(href, base)
            self._seen.put(key, found)
        return found


class Base:
    """A base URL and what is relative to it."""

    __slots__ = ("_charset", "_folder", "_resolver", "_same", "url")

    def __init__(self, resolver: Resolver, url: str, charset: str) -> None:
        self._resolver = resolver
        self._charset = query_codec(charset)
        self.url = url
        path = url.partition("?")[0]
        self._folder = path[: path.rfind("/") + 1]
        self._same: Target | Rejected | None = None

    def absolute(self, value: str) -> str:
        """A reference that is data and not a link: any scheme, with its fragment; empty: no URL."""
        return absolute(value, self.url, self._charset) or ""

    def resolve(self, href: str) -> Target | Rejected:
        """The target of a reference as written in an attribute.

        A fragment is cut off first: `#` begins one wherever it stands. The mark itself stays behind
        white space, which the standard escapes there and trims at the end. What remains depends
        only on the folder of the base, unless it is empty, a query, or may name a scheme.
        """
        cut = href.find("#")
        if cut >= 0:
            href = href[: cut + 1] if cut and href[cut - 1] <= " " else href[:cut]
        if self._charset is not None and not href.isascii():
            return self._resolver.resolve(href, self.url, self._charset)
        if href[:4] == "http" and href.startswith(("http://", "https://")):
            return self._resolver.remembered(href, self.url, "")
        if not href:
            if self._same is None:
                self._same = self._resolver.resolve("", self.url)
            return self._same
        if href[0] <= " " or href[0] == "?" or ":" in href:
            return self._resolver.resolve(href, self.url)
        return self._resolver.remembered(href, self.url, self._folder)


def base_of(page_url: str, base_href: str | None) -> str:
    """The document base URL (HTML 4.2.3): data: and javascript: bases fall back to the page."""
    if base_href is None:
        return page_url
    try:
        base: str = ada_url.join_url(page_url, base_href)
    except (ValueError, UnicodeError):
        return page_url
    if base.startswith(("data:", "javascript:")):
        return page_url
    return base.partition("#")[0]


def _run_on(href: str) -> Rejected | None:
    """A value that swallowed markup, because its closing quote is missing."""
    if len(href) > MAX_URL_CHARS:
        if href.lstrip(_TRIM)[:5].lower() == "data:":
            return Rejected(Reason.UNSUPPORTED_SCHEME, "data")
        if len(href.strip(_TRIM)) > MAX_URL_CHARS:
            return Rejected(Reason.MALFORMED_LINK, f"{len(href)} characters")
    if "<" in href or ("\n" in href and _BREAKS.search(href.strip(_TRIM))):
        return Rejected(Reason.MALFORMED_LINK, "markup or blank lines inside")
    return None


def refresh_target(content: str) -> str | None:
    """The URL in a meta refresh or Refresh header (HTML, shared declarative refresh steps).

    None when it only reloads the page.
    """
    found = _REFRESH.match(content)
    if found is None:
        return None
    target = found[2] if found[1] else found[3]
    return target.strip() or None


def link_header(value: str) -> Iterator[tuple[str, str]]:
    """The (reference, rel in lower case) pairs of a Link header (RFC 8288).

    Of several rel parameters the first counts; single quotes are common and mean quotes.
    """
    for found in _LINK_HEADER.finditer(value):
        for name, quoted, single, bare in _PARAM.findall(found[2]):
            if name.lower() == "rel":
                yield found[1].strip(), " ".join((quoted or single or bare).lower().split())
                break


def srcset(value: str) -> list[str]:
    """The candidate URLs of a srcset attribute (HTML, parsing a srcset attribute)."""
    found: list[str] = []
    at, end = 0, len(value)
    while True:
        while at < end and value[at] in "\t\n\f\r ,":
            at += 1
        if at >= end:
            return found
        start = at
        while at < end and value[at] not in _SRCSET_SPACE:
            at += 1
        url = value[start:at]
        if url.endswith(","):
            found.append(url.rstrip(","))
            continue
        found.append(url)
        at = _after_descriptors(value, at)


def _after_descriptors(value: str, at: int) -> int:
    depth = 0
    while at < len(value):
        char = value[at]
        at += 1
        if char == "(":
            depth += 1
        elif char == ")":
            depth = max(0, depth - 1)
        elif char == "," and not depth:
            break
    return at
