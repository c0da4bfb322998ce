"""Admission: may this URL enter this crawl? Pure; asked by parsers early and by dedup for good.

Parsers ask to keep hopeless links out of Kafka; dedup's answer is the one that counts, since it
also sees seeds and other people's producers.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Final, NamedTuple

import tldextract

from schemas.crawl import CrawlSpec
from schemas.reasons import Reason
from schemas.url import IGNORED_PARAMS

MAX_SEGMENTS: Final = 40
MAX_SEGMENT_REPEATS: Final = 5
"""How often one path segment may occur in a path."""
MAX_QUERY_CHARS: Final = 2_048
MAX_REDIRECTS: Final = 10
"""Longest redirect chain over URLs; a hop to the same URL id has its own limit in the fetcher."""

_extract = tldextract.TLDExtract(
    suffix_list_urls=(),
    cache_dir=None,
    fallback_to_snapshot=True,
    include_psl_private_domains=True,
)
_DATE = (
    r"(?:[0-9]{4}[-/][0-9]{1,2}(?:[-/][0-9]{1,2})?"
    r"|(?:19|2[01])[0-9]{2}(?:0[1-9]|1[0-2])(?:[0-3][0-9])?)(?![0-9A-Za-z])"
)
_CALENDAR = re.compile(
    rf"(?i)[?&;](?:date|cal|calendar|day|d|m|from|to|start|end)={_DATE}"
    r"|[?&;](?:year|month|week|day)=[0-9]+(?![0-9A-Za-z])"
    r"|[?&;]m=[0-9]{1,2}&(?:d=[0-9]{1,2}&)?y=[0-9]{4}(?![0-9A-Za-z])"
    r"|[?&;]y=[0-9]{4}&m=[0-9]{1,2}(?![0-9A-Za-z])"
    r"|/(?:calendar|cal|events?|agenda)/[0-9]{4}(?:[/-][0-9]{1,2}){0,2}"
    r"(?:/[a-z][a-z_-]*)?/?(?:\?|$)"
)
_DATES = re.compile(
    r"(?i)(?<=[?&;])((?:year|month|week|day|date|cal|calendar|y|m|d)=)[0-9][0-9/-]*"
    rf"|(?<=[?&;])((?:from|to|start|end)=){_DATE}"
    r"|(/(?:calendar|cal|events?|agenda)/)[0-9]{4}(?:[/-][0-9]{1,2}){0,2}(?=[/?]|$)"
)


class Rules(NamedTuple):
    """A spec compiled for admission. `ignore_params` is for `schemas.url.url_id`."""

    spec: CrawlSpec
    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    ignore_params: frozenset[str]


def compile_rules(spec: CrawlSpec) -> Rules:
    """Compile once per revision of a spec."""
    return Rules(
        spec,
        tuple(re.compile(pattern) for pattern in spec.include),
        tuple(re.compile(pattern) for pattern in spec.exclude),
        IGNORED_PARAMS | {name.lower() for name in spec.ignore_params},
    )


@lru_cache(maxsize=65_536)
def registrable_domain(host: str) -> str:
    """The registrable domain of a host key by the bundled public suffix list.

    Both parts of the list count, as in browsers: sites under `github.io` are strangers to each
    other. Under a suffix that the list lacks (`.internal`, `.corp`) it is the last two labels,
    by the list's own default rule. A host without one (an address, a suffix itself, `localhost`)
    is its own domain.
    """
    found = _extract(host)
    if found.suffix:
        return found.top_domain_under_public_suffix or host
    last = host.rpartition(".")[2]
    if host.startswith("[") or last.isdigit():
        return host
    return ".".join(host.split(".")[-2:])


def refuse_batch(
    rules: Rules, *, host: str, depth: int, scope_host: str, pages: int
) -> Reason | None:
    """Why no URL of this host at this depth may enter, or None.

    Args:
        rules: of the crawl.
        host: host key of the URLs.
        depth: of the URLs; 0 for seeds.
        scope_host: what scope compares with; for a seed its own host.
        pages: pages of this crawl known to be fetched.
    """
    spec = rules.spec
    if spec.state == "stopped":
        return Reason.CRAWL_STOPPED
    if spec.max_pages is not None and pages >= spec.max_pages:
        return Reason.BUDGET_SPENT
    if spec.max_depth is not None and depth > spec.max_depth:
        return Reason.TOO_DEEP
    if not in_scope(spec, host, scope_host):
        return Reason.OUT_OF_SCOPE
    return None


def refuse_url(rules: Rules, href: str, depth: int) -> Reason | None:
    """Why this one URL may not enter, or None.

    Seeds (depth 0) may always: somebody named them, and a trap is what links lead into.
    """
    if depth == 0:
        return None
    if rules.include and not any(pattern.search(href) for pattern in rules.include):
        return Reason.EXCLUDED
    if rules.exclude and any(pattern.search(href) for pattern in rules.exclude):
        return Reason.EXCLUDED
    return Reason.TRAP if is_trap(href) else None


def in_scope(spec: CrawlSpec, host: str, scope_host: str) -> bool:
    """Whether a host lies in the scope that a seed's host spans."""
    if spec.scope == "any" or host == scope_host:
        return True
    if spec.scope == "host":
        return False
    return registrable_domain(host) == registrable_domain(scope_host)


def scope_after_redirect(*, depth: int, host: str, target_host: str, scope_host: str) -> str:
    """The scope host of a redirect's target.

    A seed that redirects within its registrable domain (to `www.`, say) moves the scope with it;
    every other redirect is judged by the scope it came from.
    """
    if depth == 0 and registrable_domain(host) == registrable_domain(target_host):
        return target_host
    return scope_host


def is_trap(href: str) -> bool:
    """Whether a URL has the shape of an endless space: too many or much repeated segments.

    Dates, and a segment that occurs a few times, are ordinary. Segments of digits may repeat:
    `/0/0/0/7/0/0/0` is how stores of numbered objects spread over folders.
    """
    path_at = href.index("/", href.index("://") + 3)
    path, _, query = href[path_at:].partition("?")
    if len(query) > MAX_QUERY_CHARS:
        return True
    if path.count("/") <= MAX_SEGMENT_REPEATS:
        return False
    segments = [segment for segment in path.split("/") if segment]
    if len(segments) > MAX_SEGMENTS:
        return True
    if len(segments) - len(set(segments)) < MAX_SEGMENT_REPEATS:
        return False
    counts = Counter(segments)
    return any(
        count > MAX_SEGMENT_REPEATS and not segment.isdigit() for segment, count in counts.items()
    )


def calendar_shape(href: str) -> str | None:
    """The URL with its dates masked when it looks like a page of a calendar, or None.

    The URLs of one shape share `CrawlSpec.calendar_budget` per host. Only dates are masked:
    another number (an id, an offset) names a page of its own, and what dates alone tell apart is
    what never ends. Paths count only where the date ends them: below it are articles.
    """
    if not _CALENDAR.search(href):
        return None
    return _DATES.sub(lambda date: f"{date[1] or date[2] or date[3]}0", href)
