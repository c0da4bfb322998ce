"""The peer: a Scrapy spider doing what our pipeline does, run by `run.py` in its own venv.

Usage: scrapy_site.py URL[,URL...] PAGES CONCURRENCY OUTPUT.jsonl ALLOW DENY

The last line of standard output is JSON: seconds and CPU seconds from the first request to the
last item, and of the whole process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    joined, pages, concurrency, output, allow, deny = sys.argv[1:]
    urls = joined.split(",")
    marks: dict[str, float] = {}

    class Site(CrawlSpider):
        name = "site"
        start_urls: ClassVar = urls
        allowed_domains: ClassVar = [urlsplit(url).hostname for url in urls]
        rules: ClassVar = [
            Rule(LinkExtractor(allow=allow, deny=deny), callback="parse_page", follow=True)
        ]

        @classmethod
        def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Site:
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.began, signals.spider_opened)
            crawler.signals.connect(spider.ended, signals.spider_idle)
            return spider

        def began(self) -> None:
            marks.update(began_at=time.time(), began_cpu_s=cpu_s())

        def ended(self) -> None:
            marks.update(ended_at=time.time(), ended_cpu_s=cpu_s())

        def parse_start_url(self, response: Response, **_: Any) -> Iterator[dict[str, Any]]:
            return self.parse_page(response)

        def parse_page(self, response: Response) -> Iterator[dict[str, Any]]:
            if isinstance(response, TextResponse):
                yield {
                    "url": response.url,
                    "title": response.css("title::text").get(),
                    "text": " ".join(response.css("body *::text").getall()),
                }

    process = CrawlerProcess(
        {
            "CLOSESPIDER_PAGECOUNT": int(pages),
            "CONCURRENT_REQUESTS": int(concurrency),
            "CONCURRENT_REQUESTS_PER_DOMAIN": int(concurrency),
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": True,
            "USER_AGENT": "benchbot (+https://bench.example/)",
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
            "FEEDS": {output: {"format": "jsonlines", "overwrite": True}},
        }
    )
    process.crawl(Site)
    process.start()
    print(
        json.dumps(
            {
                "seconds": marks["ended_at"] - marks["began_at"],
                "cpu_s": marks["ended_cpu_s"] - marks["began_cpu_s"],
                "cpu_total_s": cpu_s(),
                "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
