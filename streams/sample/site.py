"""The whole sample site: request targets to pages, and what a crawl must make of each URL."""

from __future__ import annotations

from datetime import datetime
from email.utils import format_datetime
from typing import Any, Final
from xml.sax.saxutils import escape

from streams.sample.files import file_pages, gzipped
from streams.sample.html import STATION, prose
from streams.sample.model import Expected, Page, Response
from streams.sample.oddities import (
    CALENDAR_BUDGET,
    calendar_page,
    odd_pages,
    onward_page,
    other_urls,
)
from streams.sample.pages import DEPOSIT_BOXES, entries, html_page, ordinary_pages
from streams.sample.words import paragraphs

DELAY_S: Final = 0.02
"""Crawl-delay of the site's robots.txt, and `delay_s` of the sample's spec."""
RETRY_TIERS_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""`CRAWL_RETRY_TIERS_S` for a crawl of the sample, so that passing errors pass in seconds."""
_FEED_ITEMS: Final = 15
_XML: Final = ("Content-Type", "application/xml; charset=utf-8")


class Site:
    """The site under one base URL.

    Args:
        base: `http://127.0.0.N:PORT`, without a path.
    """

    def __init__(self, base: str) -> None:
        self.base = base
        self._pages: dict[str, Page] = {}
        pages = (
            *ordinary_pages(base),
            *odd_pages(base),
            *file_pages(base),
            *self._machine_pages(),
        )
        for page in pages:
            for target in (page.target, *page.spellings):
                if target in self._pages:
                    raise ValueError(f"two pages at {target}")
                self._pages[target] = page

    @property
    def seed(self) -> str:
        """The URL that the whole site is found from."""
        return f"{self.base}/"

    @staticmethod
    def spec() -> dict[str, Any]:
        """Keys of a crawl spec under which `expected` holds."""
        return {
            "scope": "host",
            "delay_s": DELAY_S,
            "adaptive_factor": 0.0,
            "sitemaps": "robots",
            "calendar_budget": CALENDAR_BUDGET,
        }

    def page(self, target: str) -> Page | None:
        """The page that a request target names, or None: 404."""
        found = self._pages.get(target)
        if found is None:
            beyond = Expected("absent", requests=0)
            found = calendar_page(target, beyond) or onward_page(target, beyond)
        return found

    def canonical(self, url: str) -> str | None:
        """The URL in `expected` that a URL of the site is a spelling of, or None."""
        if not url.startswith(f"{self.base}/"):
            return None
        page = self._pages.get(url.removeprefix(self.base))
        return self.base + page.target if page else None

    def expected(self) -> dict[str, Expected]:
        """Every URL of the site, and others that its pages mention, with what becomes of it.

        One key a page, whatever its spellings. /robots.txt is left out: it is asked for by the
        fetcher and is no page of the crawl.
        """
        found = {
            self.base + page.target: page.expected
            for page in self._pages.values()
            if page.target != "/robots.txt"
        }
        return found | dict(other_urls(self.base))

    def _machine_pages(self) -> list[Page]:
        """robots.txt, sitemaps and the feed."""
        robots = (
            f"# {STATION}\nUser-agent: *\nDisallow: /private/\nDisallow: /search\n"
            f"Allow: /private/open-day.html\nCrawl-delay: {DELAY_S}\n\n"
            f"Sitemap: {self.base}/sitemap-index.xml\n"
        )
        boxes = [f"/deposit/box-{n:02}.html" for n in range(1, DEPOSIT_BOXES + 1)]
        index = "".join(
            f"<sitemap><loc>{self.base}{target}</loc></sitemap>"
            for target in ("/sitemaps/pages.xml", "/sitemaps/deposit.xml.gz")
        )
        pages = ["/", "/visit/", "/species/?order=asc&sort=name", "/visit/sitemap-only.html"]
        dated = {entry.target: entry.article.published for entry in entries()}
        sitemap = Expected("record", "sitemap", 200)
        text = ("Content-Type", "text/plain; charset=utf-8")
        archive = gzipped(self._urlset(dict.fromkeys(boxes, "")))
        return [
            Page("/robots.txt", (Response(headers=(text,), body=robots.encode()),), sitemap),
            self._xml("/sitemap-index.xml", _wrapped("sitemapindex", index), sitemap),
            self._xml(
                "/sitemaps/pages.xml", self._urlset(dict.fromkeys(pages, "") | dated), sitemap
            ),
            Page(
                "/sitemaps/deposit.xml.gz",
                (Response(headers=(("Content-Type", "application/gzip"),), body=archive),),
                sitemap,
            ),
            html_page(self.base, "/visit/sitemap-only.html", "Moorings", "<p>For sailors.</p>"),
            self._xml("/feed.xml", self._feed(), Expected("record", "feed", 200)),
            html_page(
                self.base, "/journal/stop-press.html", "Stop press", prose(paragraphs("press", 1))
            ),
        ]

    @staticmethod
    def _xml(target: str, text: str, expected: Expected) -> Page:
        return Page(target, (Response(headers=(_XML,), body=text.encode()),), expected)

    def _urlset(self, lastmod_by_target: dict[str, str]) -> str:
        rows = []
        for target, lastmod in lastmod_by_target.items():
            dated = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
            rows.append(f"<url><loc>{escape(self.base + target)}</loc>{dated}</url>")
        return _wrapped("urlset", "\n".join(rows))

    def _feed(self) -> str:
        items = [
            (entry.title, entry.target, entry.article.published)
            for entry in entries()[: -_FEED_ITEMS - 1 : -1]
        ]
        items.append(("Stop press", "/journal/stop-press.html", "2025-12-31T08:30:00Z"))
        rows = "".join(
            f"<item><title>{escape(title)}</title><link>{escape(self.base + target)}</link>"
            f"<guid>{escape(self.base + target)}</guid>"
            f"<pubDate>{format_datetime(datetime.fromisoformat(published))}</pubDate></item>"
            for title, target, published in items
        )
        return (
            '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel>'
            f"<title>{STATION}</title><link>{self.base}/</link>"
            f"<description>News</description>{rows}</channel></rss>\n"
        )


def _wrapped(element: str, inner: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<{element} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</{element}>\n'
    )
