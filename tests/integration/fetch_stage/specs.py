"""Crawl specs and answers that tests of the fetch stage share."""

from __future__ import annotations

from schemas.crawl import CrawlSpec
from tests.unit.fetchers.fakes import response

FAST = CrawlSpec(crawl="c", delay_s=0)
ANY = CrawlSpec(crawl="c", delay_s=0, scope="any")
OPEN = response(404)
