"""A fetch result to a record and its links. Pure: same inputs, same outputs.

Total: any bytes under any headers give a record or a `Failure`. Two things can still end a parse
process, and its parent knows what to do then: the parse deadline and memory.
"""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Container, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Final

from parsers import charset, encodings, guard, kind, outlinks, robots_meta, structured
from parsers.batches import LinkSink
from parsers.dates import past_ms
from parsers.extract import Extracted, PageView, run_plugins, select
from parsers.feed import MAX_ENTRIES, Feed, FeedItem
from parsers.html import MAX_TEXT_CHARS, Document, Page
from parsers.links import Base, Resolver, base_of
from parsers.main_text import main_text
from parsers.robots_meta import Permissions
from parsers.simhash import simhash
from parsers.sitemap import Entry, Sitemap, TextSitemap, XmlSitemap
from schemas.admission import Rules, compile_rules
from schemas.crawl import CrawlSpec
from schemas.errors import CrawlError
from schemas.reasons import Reason
from schemas.records import FetchResult, Record, UrlBatch
from schemas.url import Rejected, origin_of
from schemas.url import parse as parse_url

MAX_HTML_BYTES: Final = 16 * 1024 * 1024
MAX_SITEMAP_LINKS: Final = 50_000
"""URLs of one sitemap file in the protocol; a crawl's greater `max_links` wins."""
MAX_PLUGIN_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a body that is no HTML which a plug-in is given."""
_PIECE: Final = 65_536

try:
    VERSION: Final = version("crawlstream")
except PackageNotFoundError:  # a source tree on the path
    VERSION = "0"  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a fetch result did not become a record."""

    reason: Reason
    detail: str


@dataclass(slots=True)
class Parsed:
    """A record and what goes with it.

    `batches` are the link messages not handed out before; `sent` are the URL ids of all link
    messages, to be remembered once delivered.
    """

    record: Record
    batches: list[UrlBatch]
    counts: dict[str, int]
    sent: list[bytes] = field(default_factory=list)


Steps = Generator[list[UrlBatch], None, Parsed | Failure]


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
        self.rules = rules
        self.known = known
        self._spec = rules.spec
        self._agent = (rules.spec.user_agent or agent).lower()
        self._max_html_bytes = max_html_bytes
        self._resolver = Resolver(rules)
        self._config_hash = rules.spec.config_hash

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
            return (yield from _Parse(self, result, now_ms).run(iter(chunks)))
        except (MemoryError, CrawlError):  # the second comes from the body's store
            raise
        except Exception as error:  # noqa: BLE001 - totality: one page must not stop the others
            return Failure(Reason.PARSE_ERROR, _where(error))

    # What the steps of one parse need.
    @property
    def spec(self) -> CrawlSpec:
        """The crawl's spec."""
        return self._spec

    @property
    def agent(self) -> str:
        """Our product token in lower case."""
        return self._agent

    @property
    def max_html_bytes(self) -> int:
        """HTML beyond this is not read."""
        return self._max_html_bytes

    @property
    def resolver(self) -> Resolver:
        """The crawl's link memory."""
        return self._resolver

    @property
    def config_hash(self) -> str:
        """Hash of the crawl's extraction settings."""
        return self._config_hash


def parse(
    result: FetchResult, body: bytes, spec: CrawlSpec, now_ms: int, *, agent: str = ""
) -> Parsed | Failure:
    """Parse one fetch result. For many of one crawl, keep a `CrawlParser`."""
    return CrawlParser(compile_rules(spec), agent=agent).parse(result, body, now_ms)


class _Parse:
    """The parse of one fetch result."""

    def __init__(self, crawl: CrawlParser, result: FetchResult, now_ms: int) -> None:
        self.crawl = crawl
        self.spec = crawl.spec
        self.result = result
        self.now_ms = now_ms
        self.sink = LinkSink(result, crawl.rules, crawl.known, now_ms)
        self.record = blank_record(result, now_ms, crawl.config_hash)
        self.issues: list[str] = []
        self.content_type = ""
        self.allowed = Permissions()

    def run(self, chunks: Iterator[bytes]) -> Steps:
        result, record = self.result, self.record
        self._headers()
        self._sitemaps_of_host()
        if result["not_modified"] or result["status"] == 304:
            record["kind"] = "not_modified"
        elif 300 <= result["status"] < 400 and result["location"]:
            record["kind"] = "redirect"
        else:
            failure = yield from self._body(chunks)
            if failure is not None:
                return failure
        if self.allowed.noindex:
            _forget_content(record)
        record["noindex"], record["nofollow"] = self.allowed
        record["issues"] = sorted(set(self.issues))
        counts = self.sink.counts
        batches = self.sink.close()
        counts["records"] = 1
        return Parsed(record, batches, counts, self.sink.sent)

    def _headers(self) -> None:
        robots = []
        for header in self.result["headers"]:
            name, value = header["name"], header["value"]
            if name == "content-type" and not self.content_type:
                self.content_type = value
            elif name == "x-robots-tag":
                robots.append(value)
            elif name == "content-language" and not self.record["language"]:
                self.record["language"] = value.partition(",")[0].strip()[:100]
            elif name == "last-modified":
                self.record["modified_at"] = past_ms(value, self.now_ms)
        if robots:
            self.allowed = robots_meta.of_header(robots, self.crawl.agent, self.now_ms)

    def _sitemaps_of_host(self) -> None:
        use = self.spec.sitemaps
        if use == "off":
            return
        result = self.result
        urls = list(result["sitemaps"])
        first = result["depth"] == 0 and result["via"] in ("seed", "redirect")
        if use == "discover" and first and 200 <= result["status"] < 300:
            urls.append(f"{origin_of(result['url'])}/sitemap.xml")
        for text in urls:
            url = parse_url(text, result["url"])
            if isinstance(url, Rejected):
                self.sink.reject(url.reason)
            else:
                self.sink.add_sitemap(self.crawl.resolver.target(url))

    def _body(self, chunks: Iterator[bytes]) -> Generator[list[UrlBatch], None, Failure | None]:
        head, chunks = _peek(chunks)
        result, record = self.result, self.record
        media_type = result["content_type"]
        found: kind.Kind
        whole = None
        if kind.is_gzip(head) and not kind.is_html_type(media_type):
            whole = Gunzip(chunks)
            head, chunks = _peek(whole)
            found = _kind_in_gzip(head, result["via"])
        else:
            found = kind.classify(head, media_type, via=result["via"])
        record["kind"] = found
        if found == "html":
            return self._html(_join(chunks, self.crawl.max_html_bytes))
        if found == "sitemap":
            yield from self._sitemap(head, chunks, whole)
        elif found == "feed":
            yield from self._feed(head, chunks)
        else:
            self._other(found == "text", chunks)
        return None

    def _html(self, joined: tuple[bytes, bool]) -> Failure | None:
        body, cut = joined
        record = self.record
        encoding = charset.sniff(body, self.content_type)
        record["charset"], record["charset_source"] = encoding.name, encoding.source
        markup, text = _markup(body, encoding)
        wrong = guard.refuse(markup)
        if wrong is not None:
            return Failure(Reason.PARSE_LIMIT, wrong)
        document = Document(markup)
        page = document.scan()
        if cut:
            self.issues.append("html_capped")
        record["truncated"] = record["truncated"] or cut or page.text_capped
        metas = [(meta.name, meta.content) for meta in page.metas]
        self.allowed |= robots_meta.of_meta(metas, self.crawl.agent, self.now_ms)
        base = self.crawl.resolver.within(base_of(self.result["url"], page.base))
        self._links(page, base)
        self._describe(page)
        if b"itemscope" in markup:
            record["microdata"], capped = structured.dump_list(structured.microdata(document))
            if capped:
                self.issues.append("microdata_capped")
        if self.spec.main_text and not self.allowed.noindex:
            text = markup.decode() if text is None else text
            record["main_text"], fine = main_text(text, self.result["url"])
            if not fine:
                self.issues.append("main_text_failed")
        self._extract(markup if text is None else text, body, document, base.url)
        return None

    def _describe(self, page: Page) -> None:
        record = self.record
        meta = structured.named(page.metas)
        items = structured.Items([], [])
        if page.json_ld:
            items = structured.json_ld(page.json_ld)
            self.issues.extend(items.issues)
            try:
                record["json_ld"], capped = structured.dump_list(items.items)
            except (RecursionError, ValueError):
                capped = True
            if capped:
                self.issues.append("json_ld_capped")
        facts = structured.facts(meta, items.items, self.now_ms)
        record["meta"] = meta
        record["description"] = facts.description
        record["author"] = facts.author
        record["published_at"] = facts.published_at
        if facts.modified_at is not None:
            record["modified_at"] = facts.modified_at
        record["title"] = page.title or meta.get("og:title", "")
        record["headings"] = [
            {"level": heading.level, "text": heading.text} for heading in page.headings
        ]
        record["language"] = _language(page) or record["language"]
        record["text"] = page.text
        record["simhash"] = simhash(page.text)
        if page.text_capped:
            self.issues.append("text_capped")

    def _links(self, page: Page, base: Base) -> None:
        raw = chain(
            page.links, outlinks.of_refresh(page), outlinks.of_headers(self.result["headers"])
        )
        found = outlinks.collect(raw, base, self.sink, max_links=self.spec.max_links)
        found.over += page.more_links
        record = self.record
        record["canonical_url"] = found.canonical
        if found.over:
            self.issues.append("links_capped")
            record["truncated"] = True
        outlinks.send(found, self.sink, nofollow=self.allowed.nofollow)
        if self.spec.store_outlinks:
            record["outlinks"], capped = outlinks.kept(found.outlinks)
            if capped:
                self.issues.append("outlinks_capped")
            if page.assets:
                record["assets"] = outlinks.assets(page, base)

    def _extract(
        self, text: str | bytes, body: bytes, document: Document | None, base: str
    ) -> None:
        spec = self.spec
        if not spec.extract and not spec.plugins:
            return
        found = Extracted()
        if document is not None:
            found = select(spec.extract, document, base)
        if spec.plugins:
            view = PageView(
                url=self.result["url"],
                base=base,
                result=self.result,
                text=text.decode("utf-8", "replace") if isinstance(text, bytes) else text,
                body=body,
                document=document,
            )
            more = run_plugins(spec.plugins, view)
            found.values.update(more.values)
            found.issues.extend(more.issues)
        self.issues.extend(found.issues)
        try:
            extracted = structured.dumps(found.values)
        except (ValueError, TypeError, RecursionError):
            self.issues.append("extracted_invalid")
            return
        if len(extracted) > structured.MAX_JSON_CHARS:
            self.issues.append("extracted_capped")
        else:
            self.record["extracted"] = extracted

    def _sitemap(
        self, head: bytes, chunks: Iterator[bytes], packed: Gunzip | None
    ) -> Generator[list[UrlBatch], None, None]:
        text = kind.root_of(charset.decode(head, charset.sniff(head, xml=True))) == ""
        reader: Sitemap = (
            TextSitemap() if text else XmlSitemap(head, self.content_type, self.now_ms)
        )
        base = self.crawl.resolver.within(self.result["url"])
        room = max(self.spec.max_links, MAX_SITEMAP_LINKS)
        over = 0
        for chunk in chain(chunks, (None,)):
            if chunk is not None:
                entries = reader.feed(chunk)
            else:
                whole = not self.result["truncated"] and (packed is None or packed.whole)
                entries = reader.close(whole=whole)
                if not whole:
                    self.issues.append("sitemap_cut")
                    self.record["truncated"] = True
            taken = entries[:room]
            room -= len(taken)
            over += len(entries) - len(taken)
            for entry in taken:
                self._entry(entry, base)
            full, self.sink.full = self.sink.full, []
            yield full
        self._close_xml(reader.charset, reader.error, over)
        if reader.dropped:
            self.issues.append("sitemap_entries_dropped")
            self.sink.reject(Reason.MALFORMED_LINK, reader.dropped)

    def _entry(self, entry: Entry, base: Base) -> None:
        target = base.resolve(entry.loc)
        self.sink.count("links_found")
        if isinstance(target, Rejected):
            self.sink.reject(target.reason)
        elif self.allowed.nofollow:
            self.sink.reject(Reason.NOFOLLOW)
        elif entry.of_sitemap:
            self.sink.add_sitemap(target, lastmod_at=entry.lastmod_at)
        else:
            self.sink.add(target, "sitemap", lastmod_at=entry.lastmod_at)

    def _feed(self, head: bytes, chunks: Iterator[bytes]) -> Generator[list[UrlBatch], None, None]:
        reader = Feed(head, self.content_type, self.now_ms)
        room = self.spec.max_links
        over = 0
        for chunk in chain(chunks, (None,)):
            items = reader.close() if chunk is None else reader.feed(chunk)
            base = self.crawl.resolver.within(base_of(self.result["url"], reader.info.base or None))
            taken = items[:room]
            room -= len(taken)
            over += len(items) - len(taken)
            for item in taken:
                self._item(item, base)
            full, self.sink.full = self.sink.full, []
            yield full
        self._close_xml(reader.charset, reader.error, over)
        record, info = self.record, reader.info
        record["title"], record["description"] = info.title, info.description
        record["language"] = info.language or record["language"]
        if reader.items > len(record["entries"]):
            self.issues.append("entries_capped")

    def _item(self, item: FeedItem, base: Base) -> None:
        target = base.resolve(item.link) if item.link else None
        url = ""
        if isinstance(target, Rejected):
            self.sink.reject(target.reason)
        elif target is not None:
            url = target.url
            self.sink.count("links_found")
            if self.allowed.nofollow:
                self.sink.reject(Reason.NOFOLLOW)
            else:
                self.sink.add(target, "feed", lastmod_at=item.updated_at)
        entries = self.record["entries"]
        if len(entries) < MAX_ENTRIES:
            entries.append(
                {
                    "url": url,
                    "title": item.title,
                    "published_at": item.published_at,
                    "summary": item.summary,
                    "guid": item.guid,
                }
            )

    def _close_xml(self, encoding: tuple[str, str], error: str, over: int) -> None:
        record = self.record
        record["charset"], record["charset_source"] = encoding
        if error:
            self.issues.append("xml_broken")
            record["truncated"] = True
        if over:
            self.sink.reject(Reason.TOO_MANY_LINKS, over)
            self.issues.append("links_capped")
            record["truncated"] = True

    def _other(self, is_text: bool, chunks: Iterator[bytes]) -> None:
        record = self.record
        wanted = 0
        if is_text:
            wanted = 4 * MAX_TEXT_CHARS
        if self.spec.plugins:
            wanted = MAX_PLUGIN_BYTES
        if not wanted:
            return
        body, cut = _join(chunks, wanted)
        text = ""
        if is_text:
            xml = kind.is_xml_type(self.result["content_type"])
            encoding = charset.sniff(body, self.content_type, xml=xml)
            record["charset"], record["charset_source"] = encoding.name, encoding.source
            text = charset.decode(body, encoding)
            record["text"] = text[:MAX_TEXT_CHARS]
            record["simhash"] = simhash(record["text"])
            if cut or len(text) > MAX_TEXT_CHARS:
                self.issues.append("text_capped")
                record["truncated"] = True
        self._extract(text, body, None, self.result["url"])


def blank_record(result: FetchResult, now_ms: int, config_hash: str) -> Record:
    """A record with what the fetch result says and nothing parsed."""
    return {
        "crawl": result["crawl"],
        "url_id": result["url_id"],
        "url": result["url"],
        "host": result["host"],
        "depth": result["depth"],
        "scope_host": result["scope_host"],
        "via": result["via"],
        "referrer": result["referrer"],
        "redirects": result["redirects"],
        "seeded_at": result["seeded_at"],
        "discovered_at": result["discovered_at"],
        "fetch_id": result["fetch_id"],
        "kind": "other",
        "status": result["status"],
        "attempt": result["attempt"],
        "fetched_at": result["fetched_at"],
        "duration_ms": result["duration_ms"],
        "address": result["address"],
        "location": result["location"],
        "canonical_url": "",
        "content_type": result["content_type"],
        "headers": result["headers"],
        "charset": "",
        "charset_source": "",
        "language": "",
        "body_bytes": result["body_bytes"],
        "body_sha256": result["body_sha256"],
        "body_ref": result["body_ref"],
        "truncated": result["truncated"],
        "title": "",
        "description": "",
        "author": "",
        "published_at": None,
        "modified_at": None,
        "headings": [],
        "text": "",
        "main_text": "",
        "simhash": 0,
        "json_ld": "[]",
        "meta": {},
        "microdata": "[]",
        "extracted": "{}",
        "outlinks": [],
        "assets": [],
        "entries": [],
        "noindex": False,
        "nofollow": False,
        "issues": [],
        "parsed_at": now_ms,
        "parser_version": VERSION,
        "config_hash": config_hash,
    }


def _forget_content(record: Record) -> None:
    """Leave out what noindex forbids to store: all text of the page."""
    record["title"] = record["description"] = record["author"] = ""
    record["text"] = record["main_text"] = ""
    record["headings"], record["meta"], record["entries"] = [], {}, []
    record["json_ld"] = record["microdata"] = "[]"
    record["extracted"] = "{}"
    record["simhash"] = 0


def _language(page: Page) -> str:
    if page.lang:
        return page.lang
    for meta in page.metas:
        if meta.http_equiv == "content-language" or meta.name in ("language", "dc.language"):
            return meta.content.partition(",")[0].strip()[:100]
    return ""


def _markup(body: bytes, encoding: charset.Charset) -> tuple[bytes, str | None]:
    """A page as well-formed UTF-8, and its text where decoding was needed anyway."""
    if encoding.name == "utf-8":
        body = body[encoding.bom_bytes :]
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            text = encodings.decode("utf-8", body)
            return text.encode("utf-8"), text
        return body, None
    text = charset.decode(body, encoding)
    return text.encode("utf-8", "replace"), text


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes of a body and the whole of it."""
    taken: list[bytes] = []
    size = 0
    for chunk in chunks:
        taken.append(chunk)
        size += len(chunk)
        if size >= kind.HEAD_BYTES:
            break
    head = taken[0] if len(taken) == 1 else b"".join(taken)
    return head[: kind.HEAD_BYTES], chain(taken, chunks)


def _join(chunks: Iterator[bytes], limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes of a body, and whether there were more."""
    taken: list[bytes] = []
    size = 0
    for chunk in chunks:
        taken.append(chunk)
        size += len(chunk)
        if size > limit:
            return b"".join(taken)[:limit], True
    return (taken[0] if len(taken) == 1 else b"".join(taken)), False


def _kind_in_gzip(head: bytes, via: str) -> kind.Kind:
    """What a gzip file holds: a sitemap or feed, or something of no interest."""
    for media_type in ("application/xml", "text/plain"):
        found = kind.classify(head, media_type, via=via)
        if found in ("sitemap", "feed"):
            return found
    return "other"


class Gunzip:
    """The content of a gzip file, all members, as far as it is sound; in bounded steps."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._steps = self._inflate()
        self.whole = False
        """True when everything was read and the last member was complete."""

    def __iter__(self) -> Iterator[bytes]:
        return self._steps

    def __next__(self) -> bytes:
        return next(self._steps)

    def _inflate(self) -> Iterator[bytes]:
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        for chunk in self._chunks:
            data = chunk
            while data:
                try:
                    piece = inflate.decompress(data, _PIECE)
                except zlib.error:
                    return
                if piece:
                    yield piece
                data = inflate.unconsumed_tail
                self.whole = inflate.eof
                if inflate.eof:
                    data = inflate.unused_data
                    if not data.startswith(b"\x1f\x8b"):
                        data = b""  # padding after the last member
                    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} in {place}: {error}"[:500]
