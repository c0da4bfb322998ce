"""A page's links: resolved, without duplicates, capped, in the order of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from parsers.documents.page import SrcSet
from parsers.links.resolve import Base, Target, link_header, refresh_target, srcset
from schemas.reasons import Reason
from schemas.url import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parsers.documents.page import Page, RawLink
    from parsers.links.batches import LinkSink
    from schemas.records import Header, Outlink

MAX_OUTLINK_CHARS: Final = 800_000
"""Characters of outlinks kept in a record; links beyond are still sent."""
MAX_ASSET_CHARS: Final = 200_000
MAX_ASSETS: Final = 2_000

_HEADER_RELS: Final = frozenset(("next", "prev", "alternate", "canonical"))


@dataclass(slots=True)
class Outlinks:
    """The links of one page."""

    targets: list[Target] = field(default_factory=list)
    outlinks: list[Outlink] = field(default_factory=list)
    followed: list[bool] = field(default_factory=list)
    """Per target: whether at least one of its elements lacks rel=nofollow."""
    canonical: str = ""
    over: int = 0
    """Links beyond the crawl's cap."""


def collect(raw: Iterable[RawLink], base: Base, sink: LinkSink, *, max_links: int) -> Outlinks:
    """Resolve the links of a page; what is no URL to fetch is counted in `sink`."""
    found = Outlinks()
    targets, outlinks, followed = found.targets, found.outlinks, found.followed
    at_of: dict[str, int] = {}
    over: set[str] = set()
    rejected: set[str] = set()
    resolve = base.resolve
    for element, href, rel, anchor in raw:
        target = resolve(href)
        if isinstance(target, Rejected):
            if href not in rejected:
                rejected.add(href)
                sink.reject(target.reason)
            continue
        url = target.url
        at = at_of.get(url)
        if at is not None:
            if anchor and not outlinks[at]["anchor"]:
                outlinks[at]["anchor"] = anchor
            if not followed[at]:
                followed[at] = "nofollow" not in rel.split()
        elif len(targets) < max_links:
            at_of[url] = len(targets)
            targets.append(target)
            followed.append(not rel or "nofollow" not in rel.split())
            outlinks.append({"url": url, "anchor": anchor, "rel": rel, "element": element})
        else:
            over.add(url)
        if rel and element == "link" and not found.canonical and "canonical" in rel.split():
            found.canonical = url
    found.over = len(over)
    return found


def send(found: Outlinks, sink: LinkSink, *, nofollow: bool) -> None:
    """Put the links into messages; `nofollow` is the whole page's."""
    sink.count("links_found", len(found.targets) + found.over)
    if found.over:
        sink.reject(Reason.TOO_MANY_LINKS, found.over)
    for target, followed, outlink in zip(
        found.targets, found.followed, found.outlinks, strict=True
    ):
        if nofollow or not followed:
            sink.reject(Reason.NOFOLLOW)
        else:
            sink.add(target, _via(outlink))


def _via(outlink: Outlink) -> str:
    if outlink["element"] == "link":
        rels = outlink["rel"].split()
        for rel in ("canonical", "alternate"):
            if rel in rels:
                return rel
    return "link"


def of_headers(headers: Iterable[Header]) -> list[RawLink]:
    """Links in Link and Refresh header lines."""
    found: list[RawLink] = []
    for header in headers:
        name = header["name"]
        if name == "link":
            found.extend(
                ("link", href, rel, "")
                for href, rel in link_header(header["value"])
                if not _HEADER_RELS.isdisjoint(rel.split())
            )
        elif name == "refresh":
            target = refresh_target(header["value"])
            if target is not None:
                found.append(("meta", target, "", ""))
    return found


def of_refresh(page: Page) -> list[RawLink]:
    """Links in meta refresh elements."""
    targets = [refresh_target(meta.content) for meta in page.metas if meta.http_equiv == "refresh"]
    return [("meta", target, "", "") for target in targets if target is not None]


def assets(page: Page, base: Base) -> list[str]:
    """Absolute URLs of images and media, srcset candidates included, without duplicates."""
    urls: dict[str, None] = {}
    room = MAX_ASSET_CHARS
    for written in page.assets:
        for href in srcset(written.value) if isinstance(written, SrcSet) else (written,):
            if href[:5].lower() == "data:":
                continue
            target = base.resolve(href)
            if isinstance(target, Target) and target.url not in urls:
                room -= len(target.url)
                if room < 0 or len(urls) >= MAX_ASSETS:
                    return list(urls)
                urls[target.url] = None
    return list(urls)


def kept(outlinks: list[Outlink]) -> tuple[list[Outlink], bool]:
    """The outlinks that a record has room for; True when some are left out."""
    room = MAX_OUTLINK_CHARS
    for at, link in enumerate(outlinks):
        room -= len(link["url"]) + len(link["anchor"]) + len(link["rel"]) + 8
        if room < 0:
            return outlinks[:at], True
    return outlinks, False
