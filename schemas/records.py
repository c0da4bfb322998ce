"""The shape of each record as decoded; the meaning of each field is in `schemas/avsc`.

Plain dictionaries, since that is what Avro reads and writes; these types let mypy check the keys.
Instants (`_at`) are integer milliseconds since the epoch, UTC.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Link(TypedDict):
    """One URL of a batch."""

    url: str
    url_id: bytes | None
    priority: int
    lastmod_at: int | None


class UrlBatch(TypedDict):
    """Discovered URLs of one host: topic `urls`."""

    crawl: str
    host: str
    via: str
    depth: int
    scope_host: str
    referrer: str
    redirects: list[str]
    seeded_at: int
    discovered_at: int
    sketch: NotRequired[bytes | None]
    links: list[Link]


class _Url(TypedDict):
    crawl: str
    url_id: bytes
    url: str
    host: str
    depth: int
    scope_host: str
    via: str
    referrer: str
    redirects: list[str]
    seeded_at: int
    discovered_at: int


class FetchRequest(_Url):
    """One URL to fetch: topics `fetch-requests` and `retry-*`."""

    priority: int
    attempt: int
    first_attempt_at: int
    not_before: int
    deferrals: int
    unavailable: NotRequired[int]
    first_reason: str
    last_reason: str
    last_detail: str
    etag: str
    last_modified: str
    replays: int
    lastmod_at: int | None


class Header(TypedDict):
    """One response header line."""

    name: str
    value: str


class FetchResult(_Url):
    """What one URL answered: topic `fetch-results`."""

    fetch_id: bytes
    attempt: int
    status: int
    headers: list[Header]
    content_type: str
    location: str
    redirect_followed: bool
    fetched_at: int
    duration_ms: int
    address: str
    http_version: str
    wire_bytes: int
    body_bytes: int
    body_sha256: bytes
    body_coding: str
    body: bytes
    body_ref: str
    truncated: bool
    not_modified: bool
    sitemaps: list[str]


class Heading(TypedDict):
    """One heading of a page."""

    level: int
    text: str


class Outlink(TypedDict):
    """One link of a page."""

    url: str
    anchor: str
    rel: str
    element: str


class FeedEntry(TypedDict):
    """One entry of a feed."""

    url: str
    title: str
    published_at: int | None
    summary: str
    guid: str


class Record(_Url):
    """One fetched and parsed URL: topic `records`."""

    fetch_id: bytes
    kind: str
    status: int
    attempt: int
    fetched_at: int
    duration_ms: int
    address: str
    location: str
    canonical_url: str
    content_type: str
    headers: list[Header]
    charset: str
    charset_source: str
    language: str
    body_bytes: int
    body_sha256: bytes
    body_ref: str
    truncated: bool
    title: str
    description: str
    author: str
    published_at: int | None
    modified_at: int | None
    headings: list[Heading]
    text: str
    main_text: str
    simhash: int
    json_ld: str
    meta: dict[str, str]
    microdata: str
    rdfa: str
    opengraph: str
    microformats: str
    extracted: str
    outlinks: list[Outlink]
    assets: list[str]
    entries: list[FeedEntry]
    noindex: bool
    nofollow: bool
    issues: list[str]
    parsed_at: int
    parser_version: str
    config_hash: str


class DeadLetter(TypedDict):
    """A URL given up or a message that cannot be read: topic `dead-letters`."""

    reason: str
    kind: str
    stage: str
    crawl: str
    url_id: bytes | None
    url: str
    host: str
    attempts: int
    first_reason: str
    detail: str
    status: int
    first_attempt_at: int
    dead_at: int
    replays: int
    origin_topic: str
    origin_partition: int
    origin_offset: int
    origin_key: bytes | None
    payload: bytes
    payload_truncated: bool
    payload_bytes: int
    payload_sha256: bytes
    payload_ref: str


class CrawlSpecRecord(TypedDict):
    """The rules of one crawl: topic `crawls`."""

    crawl: str
    revision: int
    created_at: int
    state: str
    spec: str


class Progress(TypedDict):
    """Counters of one crawl in one source partition: topic `crawl-progress`."""

    stage: str
    topic: str
    partition: int
    crawl: str
    offset: int
    at: int
    counters: dict[str, int]
