"""The sample site: deterministic, whole, and an oracle that agrees with the contract."""

from __future__ import annotations

import gzip
import html
import re
from collections import Counter
from hashlib import blake2b

import pytest

from schemas.admission import calendar_shape, is_trap
from schemas.crawl import CrawlSpec
from schemas.reasons import REASONS, Reason
from schemas.url import CrawlUrl, normal_form, parse, path_of, url_id
from streams.sample.model import Expected
from streams.sample.oddities import CALENDAR_BUDGET, calendar_target
from streams.sample.site import Site

BASE = "http://127.0.0.1:8080"
_ANCHOR = re.compile(r'<(?:a|area) href="([^"]*)"([^>]*)>')


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(BASE)


@pytest.fixture(scope="module")
def expected(site: Site) -> dict[str, Expected]:
    return site.expected()


def _links(site: Site, url: str) -> list[tuple[str, str]]:
    """(href, base) of the links of one page, by a reading of the HTML that is not ours."""
    page = site.page(path_of(url))
    if page is None or page.expected.outcome == "dead_letter":
        return []
    response = page.responses[-1]
    headers = dict(response.headers)
    kind = headers.get("Content-Type", "")
    if "Location" in headers:
        return [(headers["Location"], url)]
    body = gzip.decompress(response.body) if "gzip" in kind else response.body
    if "xml" in kind or "gzip" in kind:
        found = re.findall(r"<(?:loc|link)>([^<]*)<", body.decode())
        return [(html.unescape(href), url) for href in found]
    text = body.decode("utf-16" if body[:2] == b"\xff\xfe" else "utf-8", "replace")
    text = re.sub(r"(?s)<!--.*?-->|<script.*?</script>", "", text)
    if 'content="nofollow"' in text:
        return []
    declared = re.search(r'<base href="([^"]*)"', text)
    base = parse(declared[1], url) if declared else parse(url)
    assert isinstance(base, CrawlUrl)
    return [
        (html.unescape(m[1]), base.href) for m in _ANCHOR.finditer(text) if "nofollow" not in m[2]
    ]


def test_expected_is_what_following_every_link_finds(
    site: Site, expected: dict[str, Expected]
) -> None:
    by_form = {}
    for url, what in expected.items():
        parsed = parse(url)
        assert isinstance(parsed, CrawlUrl)
        by_form[normal_form(parsed.href)] = what
    found: set[str] = set()
    ahead = [site.seed, f"{BASE}/sitemap-index.xml"]
    while ahead:
        href = ahead.pop()
        form = normal_form(href)
        if form in found:
            continue
        found.add(form)
        assert form in by_form, f"{href} is linked but not expected"
        if by_form[form].outcome != "record":
            continue
        for link, base in _links(site, href):
            parsed = parse(link, base)
            if isinstance(parsed, CrawlUrl):
                ahead.append(parsed.href)
    assert found == {form for form, what in by_form.items() if what.outcome != "absent"}


def test_expected_names_each_url_id_once(expected: dict[str, Expected]) -> None:
    ids = Counter(url_id("sample", url) for url in expected)
    assert max(ids.values()) == 1
    assert 300 <= sum(what.outcome == "record" for what in expected.values()) <= 400


def test_spellings_are_equal_under_the_normal_form(
    site: Site, expected: dict[str, Expected]
) -> None:
    spelled = 0
    for url in expected:
        page = site.page(url.removeprefix(BASE)) if url.startswith(BASE) else None
        for spelling in page.spellings if page else ():
            spelled += 1
            parsed = parse(BASE + spelling)
            assert isinstance(parsed, CrawlUrl)
            assert normal_form(parsed.href) == normal_form(url)
            assert site.canonical(BASE + spelling) == url
    assert spelled > 100


def test_rejections_are_those_of_the_contract(expected: dict[str, Expected]) -> None:
    for url, what in expected.items():
        assert is_trap(url) == (what.reason == "trap"), url
        if calendar_shape(url):
            assert "/calendar/" in url, url
    months = [url for url in expected if calendar_shape(url)]
    assert len(months) == CALENDAR_BUDGET + 1


def test_reasons_exist_and_attempts_fit_their_table(expected: dict[str, Expected]) -> None:
    for url, what in expected.items():
        if what.outcome == "dead_letter":
            row = REASONS[Reason(what.reason)]
            assert row.kind in ("failed", "disregarded"), url
            assert what.attempts == (row.max_attempts if row.retriable else 1), url


def test_the_spec_is_valid() -> None:
    spec = CrawlSpec(crawl="sample", **Site.spec())
    assert spec.calendar_budget == CALENDAR_BUDGET
    assert spec.sitemaps == "robots"


def test_the_calendar_never_ends(site: Site) -> None:
    far = calendar_target(12 * 500)
    page = site.page(far)
    assert page is not None
    assert calendar_target(12 * 500 + 1).encode() in page.responses[0].body


@pytest.mark.parametrize(
    "target",
    ["/calendar/2026/1/", "/calendar/2026/13/", "/calendar/1999/01/", "/signpost/x/onward/", "/no"],
)
def test_what_is_no_page_is_none(site: Site, target: str) -> None:
    assert site.page(target) is None


def test_the_bytes_are_the_same_on_every_machine(site: Site, expected: dict[str, Expected]) -> None:
    digest = blake2b(digest_size=8)
    for url in sorted(expected):
        page = site.page(url.removeprefix(BASE)) if url.startswith(BASE) else None
        for response in page.responses if page else ():
            # The level of gzip differs between builds of zlib; what is inside does not.
            body = response.body
            digest.update(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
    assert digest.hexdigest() == "9d2b8591c2c50d6b"
