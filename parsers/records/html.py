"""The HTML part of parsing a fetch result."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from parsers.data import structured
from parsers.data.extract import Extracted, PageView, run_plugins, select
from parsers.data.main_text import main_text
from parsers.data.microdata import microdata
from parsers.data.microformats import microformats
from parsers.data.rdfa import rdfa
from parsers.data.simhash import simhash
from parsers.data.sketch import sketch_of
from parsers.documents import guard, kind, robots_meta
from parsers.documents.bodies import markup as utf8_markup
from parsers.documents.html import Document
from parsers.links import outlinks
from parsers.links.resolve import base_of
from parsers.records.outcome import Failure
from parsers.text import charset
from schemas.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.documents.page import Page
    from parsers.links.resolve import Base
    from parsers.records.parsing import Parsing


def read_page(work: Parsing, joined: tuple[bytes, bool]) -> Failure | None:
    """Parse HTML.

    Args:
        work: receives what is found.
        joined: the body, and whether it was cut at the cap.
    """
    body, cut = joined
    record = work.record
    document_format = kind.format_of("html", work.result["content_type"], body)
    encoding = charset.sniff(body, work.content_type, document_format)
    record["charset"], record["charset_source"] = encoding.name, encoding.source
    markup, text = utf8_markup(body, encoding)
    wrong = guard.refuse(markup)
    if wrong is not None:
        return Failure(Reason.PARSE_LIMIT, wrong)
    document = Document(markup)
    page = document.scan(anchors=work.spec.store_outlinks)
    if cut:
        work.issues.append("html_capped")
    record["truncated"] = record["truncated"] or cut or page.text_capped
    metas = [(meta.name, meta.content) for meta in page.metas]
    work.allowed |= robots_meta.of_meta(metas, work.agent, work.now_ms)
    base = work.resolver.within(base_of(work.result["url"], page.base), encoding.name)
    work.sink.content = lambda: sketch_of(page)
    _links(work, page, base)
    _describe(work, page)
    _structure(work, page, base, document, markup)
    if work.spec.main_text and not work.allowed.noindex:
        text = markup.decode() if text is None else text
        record["main_text"], fine = main_text(text, work.result["url"])
        if not fine:
            work.issues.append("main_text_failed")
    extract(work, markup if text is None else text, body, document, base.url)
    return None


def _describe(work: Parsing, page: Page) -> None:
    record = work.record
    meta = structured.named(page.metas)
    items = structured.Items([], [])
    if page.json_ld:
        items = structured.json_ld(page.json_ld)
        work.issues.extend(items.issues)
        _keep(work, "json_ld", items.items)
    facts = structured.facts(meta, items.items, work.now_ms)
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
    if work.spec.simhash:
        record["simhash"] = simhash(page.text)
    if page.text_capped:
        work.issues.append("text_capped")


def _structure(work: Parsing, page: Page, base: Base, document: Document, markup: bytes) -> None:
    """Structured data in markup. Pages without any pay for a look at their bytes."""
    _keep(work, "opengraph", structured.opengraph(page.metas, base.absolute))
    lowered = markup.lower()
    if b"itemscope" in lowered:
        _keep(work, "microdata", *microdata(document, base.absolute))
    if b"typeof" in lowered and document.select("[typeof]"):  # scripts say it too
        _keep(work, "rdfa", *rdfa(document, base.url, base.absolute))
    if work.spec.microformats:
        items, wrong = microformats(document, base.url)
        if wrong:
            work.issues.append(wrong)
        _keep(work, "microformats", items)


def _keep(
    work: Parsing,
    name: Literal["json_ld", "opengraph", "microdata", "rdfa", "microformats"],
    items: Sequence[Any],
    cut: bool = False,
) -> None:
    """Put items into the record. `cut`: some were left out already."""
    if items:
        try:
            work.record[name], capped = structured.dump_list(items)
        except (RecursionError, ValueError):  # nested too deep; a number too long to be written
            capped = True
        cut = cut or capped
    if cut:
        work.issues.append(f"{name}_capped")


def _links(work: Parsing, page: Page, base: Base) -> None:
    raw = chain(page.links, outlinks.of_refresh(page), outlinks.of_headers(work.result["headers"]))
    found = outlinks.collect(raw, base, work.sink, max_links=work.spec.max_links)
    found.over += page.more_links
    record = work.record
    record["canonical_url"] = found.canonical
    if found.over:
        work.issues.append("links_capped")
        record["truncated"] = True
    outlinks.send(found, work.sink, nofollow=work.allowed.nofollow)
    if work.spec.store_outlinks:
        record["outlinks"], capped = outlinks.kept(found.outlinks)
        if capped:
            work.issues.append("outlinks_capped")
        if page.assets:
            record["assets"] = outlinks.assets(page, base)


def extract(
    work: Parsing, text: str | bytes, body: bytes, document: Document | None, base: str
) -> None:
    """Run the crawl's selectors and plug-ins, if it has any.

    Args:
        work: receives the values.
        text: markup or text, decoded or as UTF-8; empty for binary bodies.
        body: as fetched.
        document: the parsed page; None when the body is no HTML.
        base: absolute URL that relative ones are resolved against.
    """
    spec = work.spec
    if not spec.extract and not spec.plugins:
        return
    found = Extracted()
    if document is not None:
        found = select(spec.extract, document, base)
    if spec.plugins:
        view = PageView(
            url=work.result["url"],
            base=base,
            result=work.result,
            text=text.decode("utf-8", "replace") if isinstance(text, bytes) else text,
            body=body,
            document=document,
        )
        more = run_plugins(spec.plugins, view)
        found.values.update(more.values)
        found.issues.extend(more.issues)
    work.issues.extend(found.issues)
    try:
        extracted = structured.dumps(found.values)
    except (ValueError, TypeError, RecursionError):
        work.issues.append("extracted_invalid")
        return
    if len(extracted) > structured.MAX_JSON_CHARS:
        work.issues.append("extracted_capped")
    else:
        work.record["extracted"] = extracted


def _language(page: Page) -> str:
    if page.lang:
        return page.lang
    for meta in page.metas:
        if meta.http_equiv == "content-language" or meta.name in ("language", "dc.language"):
            return meta.content.partition(",")[0].strip()[:100]
    return ""
