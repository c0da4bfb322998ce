"""A fetch result to a record and its links. Pure: same inputs, same outputs.

Total: any bytes under any headers give a record or a `Failure`. Two things can still end a parse
process, and its parent knows what to do then: the parse deadline and memory.
"""

from __future__ import annotations

import traceback
from collections.abc import Container, Generator, Iterable, Iterator
from typing import Final

from parsers.data.simhash import simhash
from parsers.documents import kind, robots_meta
from parsers.documents.bodies import Gunzip, join, peek
from parsers.documents.page import MAX_TEXT_CHARS
from parsers.links.batches import LinkSink
from parsers.links.lru import RecentIds
from parsers.links.resolve import Resolver
from parsers.records.blank import blank_record
from parsers.records.html import extract, read_page
from parsers.records.outcome import Failure, Parsed, Steps
from parsers.records.parsing import Parsing
from parsers.records.xml import read_feed, read_sitemap
from parsers.text import charset
from parsers.text.dates import past_ms
from schemas.admission import Rules, compile_rules
from schemas.crawl import CrawlSpec
from schemas.errors import CrawlError
from schemas.reasons import Reason
from schemas.records import FetchResult, Record, UrlBatch
from schemas.url import Rejected, origin_of
from schemas.url import parse as parse_url

MAX_HTML_BYTES: Final = 16 * 1024 * 1024
MAX_PLUGIN_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a body that is no HTML which a plug-in is given."""

SHOWN_PAGES: Final = 4_000
"""Sketches of pages remembered, about 100 bytes each."""

__all__ = ["CrawlParser", "Failure", "Parsed", "Steps", "parse"]


class CrawlParser:
    """Parses the fetch results of one crawl under one revision of its spec.

    Args:
        rules: of the crawl.
        agent: our product token, which robots meta elements may address.
        max_html_bytes: HTML beyond this is not read.
        known: URL ids delivered to `urls` before.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        agent: str = "",
        max_html_bytes: int = MAX_HTML_BYTES,
        known: Container[bytes] = frozenset(),
    ) -> None:
        self._rules = rules
        self._known = known
        self._agent = (rules.spec.user_agent or agent).lower()
        self._max_html_bytes = max_html_bytes
        self._resolver = Resolver(rules)
        self._config_hash = rules.spec.config_hash
        self._shown = RecentIds(SHOWN_PAGES)

    def parse(self, result: FetchResult, body: bytes, now_ms: int) -> Parsed | Failure:
        """Parse a body that is at hand."""
        steps = self.stream(result, (body,) if body else (), now_ms)
        batches: list[UrlBatch] = []
        while True:
            try:
                batches.extend(next(steps))
            except StopIteration as stop:
                parsed: Parsed | Failure = stop.value
                if isinstance(parsed, Parsed):
                    parsed.batches = [*batches, *parsed.batches]
                return parsed

    def stream(self, result: FetchResult, chunks: Iterable[bytes], now_ms: int) -> Steps:
        """Parse a body in pieces.

        Yields link messages as they fill up, which the caller must have delivered before the
        document completes. An empty list is a sign of progress. Raises nothing but MemoryError and
        what the chunks raise on purpose (`CrawlError`).
        """
        try:
            return (yield from _steps(self._begin(result, now_ms), iter(chunks)))
        except (MemoryError, CrawlError):  # the second comes from the body's store
            raise
        except Exception as error:  # noqa: BLE001 - totality: one page must not stop the others
            return Failure(Reason.PARSE_ERROR, _where(error))

    def _begin(self, result: FetchResult, now_ms: int) -> Parsing:
        return Parsing(
            result=result,
            spec=self._rules.spec,
            resolver=self._resolver,
            agent=self._agent,
            max_html_bytes=self._max_html_bytes,
            now_ms=now_ms,
            record=blank_record(result, now_ms, self._config_hash),
            sink=LinkSink(result, self._rules, self._known, now_ms, self._shown),
        )


def parse(
    result: FetchResult, body: bytes, spec: CrawlSpec, now_ms: int, *, agent: str = ""
) -> Parsed | Failure:
    """Parse one fetch result. For many of one crawl, keep a `CrawlParser`."""
    return CrawlParser(compile_rules(spec), agent=agent).parse(result, body, now_ms)


def _steps(work: Parsing, chunks: Iterator[bytes]) -> Steps:
    result, record = work.result, work.record
    _headers(work)
    _sitemaps_of_host(work)
    if result["not_modified"] or result["status"] == 304:
        record["kind"] = "not_modified"
    elif 300 <= result["status"] < 400 and result["location"]:
        record["kind"] = "redirect"
    else:
        failure = yield from _body(work, chunks)
        if failure is not None:
            return failure
    if work.allowed.noindex:
        _forget_content(record)
    record["noindex"], record["nofollow"] = work.allowed
    record["issues"] = sorted(set(work.issues))
    batches = work.sink.close()
    counts = work.sink.counts
    counts["records"] = 1
    return Parsed(record, batches, counts, work.sink.sent)


def _headers(work: Parsing) -> None:
    record, robots = work.record, []
    for header in work.result["headers"]:
        name, value = header["name"], header["value"]
        if name == "content-type" and not work.content_type:
            work.content_type = value
        elif name == "x-robots-tag":
            robots.append(value)
        elif name == "content-language" and not record["language"]:
            record["language"] = value.partition(",")[0].strip()[:100]
        elif name == "last-modified":
            record["modified_at"] = past_ms(value, work.now_ms)
    if robots:
        work.allowed = robots_meta.of_header(robots, work.agent, work.now_ms)


def _sitemaps_of_host(work: Parsing) -> None:
    """Send the sitemaps that robots.txt named, and the usual place when the crawl asks for it."""
    use, result = work.spec.sitemaps, work.result
    if use == "off":
        return
    urls = list(result["sitemaps"])
    first = result["depth"] == 0 and result["via"] in ("seed", "redirect")
    if use == "discover" and first and 200 <= result["status"] < 300:
        urls.append(f"{origin_of(result['url'])}/sitemap.xml")
    for text in urls:
        url = parse_url(text, result["url"])
        if isinstance(url, Rejected):
            work.sink.reject(url.reason)
        else:
            work.sink.add_sitemap(work.resolver.target(url))


def _body(
    work: Parsing, chunks: Iterator[bytes]
) -> Generator[list[UrlBatch], None, Failure | None]:
    head, chunks = peek(chunks)
    media_type, via = work.result["content_type"], work.result["via"]
    packed = None
    if kind.is_gzip(head) and not kind.is_html_type(media_type):
        packed = Gunzip(chunks)
        head, chunks = peek(packed)
        found = kind.in_gzip(head, via)
    else:
        found = kind.classify(head, media_type, via=via)
    work.record["kind"] = found
    if found == "html":
        return read_page(work, join(chunks, work.max_html_bytes))
    if found == "sitemap":
        yield from read_sitemap(work, head, chunks, packed)
    elif found == "feed":
        yield from read_feed(work, head, chunks)
    else:
        _other(work, chunks, is_text=found == "text")
    return None


def _other(work: Parsing, chunks: Iterator[bytes], *, is_text: bool) -> None:
    """Text as it is; nothing of binary bodies but what plug-ins make of them."""
    record = work.record
    wanted = 4 * MAX_TEXT_CHARS if is_text else 0
    if work.spec.plugins:
        wanted = MAX_PLUGIN_BYTES
    if not wanted:
        return
    body, cut = join(chunks, wanted)
    text = ""
    if is_text:
        document = kind.format_of("text", work.result["content_type"], body)
        encoding = charset.sniff(body, work.content_type, document)
        record["charset"], record["charset_source"] = encoding.name, encoding.source
        text = charset.decode(body, encoding)
        record["text"] = text[:MAX_TEXT_CHARS]
        record["simhash"] = simhash(record["text"])
        if cut or len(text) > MAX_TEXT_CHARS:
            work.issues.append("text_capped")
            record["truncated"] = True
    extract(work, text, body, None, work.result["url"])


def _forget_content(record: Record) -> None:
    """Leave out what noindex forbids to store: all text of the page."""
    record["title"] = record["description"] = record["author"] = ""
    record["text"] = record["main_text"] = ""
    record["headings"], record["meta"], record["entries"] = [], {}, []
    record["json_ld"] = record["microdata"] = "[]"
    record["rdfa"] = record["opengraph"] = record["microformats"] = "[]"
    record["extracted"] = "{}"
    record["simhash"] = 0


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} in {place}: {error}"[:500]
