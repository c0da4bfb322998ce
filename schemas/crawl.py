"""Crawl specs: the rules of one crawl, as submitted, validated and kept on the topic `crawls`."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from schemas.errors import ConfigError
from schemas.extraction import Selector
from schemas.records import CrawlSpecRecord

DEFAULT_CRAWL = "default"
_ID = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,64}")
_AGENT = r"^[A-Za-z_-]{1,64}$"
_MEDIA = r"^[A-Za-z0-9.+*_-]+/[A-Za-z0-9.+*_-]+$"

ScopeKind = Literal["host", "domain", "any"]
SitemapUse = Literal["off", "robots", "discover"]
CrawlState = Literal["running", "stopped"]

NonNegative = Annotated[float, Field(ge=0, le=86_400)]


class CrawlSpec(BaseModel):
    """All rules of one crawl. Unknown keys are errors; every default is a polite small crawl."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    crawl: str
    """Id: 1 to 64 of A-Z a-z 0-9 . _ - and not dots alone: it is part of file names."""
    state: CrawlState = "running"
    """`stopped`: URLs of this crawl are rejected with a count, everywhere."""

    scope: ScopeKind = "host"
    """`host`: the seed's host key; `domain`: its registrable domain; `any`: no limit."""
    include: tuple[str, ...] = ()
    """Regular expressions searched in the whole URL; one must match. Empty: all. Not for seeds."""
    exclude: tuple[str, ...] = ()
    """Regular expressions searched in the whole URL; none may match. Not for seeds."""
    max_depth: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Links to follow from a seed; 0: seeds only; None: no limit."""
    max_pages: Annotated[int, Field(ge=1)] | None = None
    """Pages answered with 2xx to fetch; what is in flight then still completes. None: no limit."""
    max_links: Annotated[int, Field(ge=0, le=1_000_000)] = 5_000
    """Links taken from one page; the rest is counted as `too_many_links`."""
    ignore_params: tuple[str, ...] = ()
    """Names of query parameters, besides trackers and session ids, that dedup ignores."""
    calendar_budget: Annotated[int, Field(ge=1)] = 500
    """URLs of one calendar-like shape per host; the rest is counted as `calendar_trap`."""
    trap_budget: Annotated[int, Field(ge=1)] | None = 200
    """URLs per host, ever deeper or ever new variants, taken in a row from pages that only repeat
    what it told before; the rest is counted as `trap`. None: no limit."""

    delay_s: NonNegative = 1.0
    """Least time between two requests to a host. 0 also turns the adaptive part off."""
    per_host: Annotated[int, Field(ge=1, le=256)] = 1
    """Requests in flight to one host."""
    adaptive_factor: Annotated[float, Field(ge=0, le=100)] = 1.0
    """The delay is at least this times the duration of the last fetch, up to 30 s."""
    user_agent: Annotated[str, Field(pattern=_AGENT)] | None = None
    """Product token of this crawl: letters, `_` and `-` (RFC 9309, section 2.2.1); None: the
    setting `CRAWL_AGENT`."""
    accept: tuple[Annotated[str, Field(pattern=_MEDIA)], ...] = (
        "text/*",
        "application/xhtml+xml",
        "application/xml",
        "application/*+xml",
        "application/json",
        "application/*+json",
        "application/pdf",
        "application/gzip",
        "application/x-gzip",
        "application/octet-stream",
    )
    """Media types to keep, `*` as wildcard; others are disregarded as `content_type`."""
    cookies: bool = False
    """Keep cookies per host of this crawl, in the memory of the fetcher that owns the host."""
    max_body_bytes: Annotated[int, Field(ge=1)] | None = None
    """Cap of a decoded body; None: the setting `CRAWL_MAX_BODY_BYTES`."""

    sitemaps: SitemapUse = "off"
    """`robots`: those named in robots.txt; `discover`: also /sitemap.xml; `off`: none."""
    main_text: bool = False
    """Also extract the text without boilerplate (about 10 ms CPU a page)."""
    microformats: bool = False
    """Also read microformats (about 2 ms CPU a page that has them); parsers need the optional
    dependency `crawlstream[microformats]`."""
    store_outlinks: bool = True
    """Keep the list of outlinks and assets in the record."""
    simhash: bool = True
    """Compute the simhash of the text, for finding near-duplicates."""
    extract: dict[str, Selector] = Field(default_factory=dict)
    """Named selectors; their values become the record's `extracted`, a JSON object."""
    plugins: tuple[str, ...] = ()
    """Names of extraction plug-ins (entry points of group `crawlstream.extractors`)."""

    @field_validator("crawl")
    @classmethod
    def _id_is_valid(cls, value: str) -> str:
        if not _ID.fullmatch(value):
            raise ValueError("a crawl id is 1 to 64 of A-Z a-z 0-9 . _ - and not dots alone")
        return value

    @field_validator("include", "exclude")
    @classmethod
    def _patterns_compile(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        bad = []
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as error:
                bad.append(f"bad regular expression {pattern!r}: {error}")
        if bad:
            raise ValueError("; ".join(bad))
        return value

    @property
    def config_hash(self) -> str:
        """Hash of what decides a record's content: equal hashes make records comparable.

        Defaults are left out, so that an option added later changes no hash by itself.
        """
        shape = self.model_dump(
            mode="json",
            include={
                "max_links",
                "main_text",
                "microformats",
                "store_outlinks",
                "simhash",
                "extract",
                "plugins",
            },
            exclude_defaults=True,
        )
        text = json.dumps(shape, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse_spec(data: dict[str, Any]) -> CrawlSpec:
    """A crawl spec from its JSON or YAML form. Raises ConfigError naming every problem."""
    try:
        return CrawlSpec.model_validate(data)
    except ValidationError as error:
        raise ConfigError("crawl spec: " + problems(error)) from error


def problems(error: ValidationError) -> str:
    """All problems of a validation on one line each."""
    lines = [
        f"{'.'.join(str(part) for part in item['loc']) or 'spec'}: {item['msg']}"
        for item in error.errors(include_url=False)
    ]
    return "\n  ".join(["", *lines]) if len(lines) > 1 else lines[0]


def to_record(spec: CrawlSpec, *, revision: int, now_ms: int) -> CrawlSpecRecord:
    """The message for topic `crawls`. `revision` must exceed that of the stored spec."""
    body = spec.model_dump(mode="json", exclude={"crawl", "state"}, exclude_defaults=True)
    return {
        "crawl": spec.crawl,
        "revision": revision,
        "created_at": now_ms,
        "state": spec.state,
        "spec": json.dumps(body, sort_keys=True),
    }


def from_record(record: CrawlSpecRecord) -> CrawlSpec:
    """The spec in a message of topic `crawls`. Raises ConfigError when it is not valid."""
    try:
        body = json.loads(record["spec"])
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"crawl {record['crawl']}: spec is not readable JSON") from error
    if not isinstance(body, dict):
        raise ConfigError(f"crawl {record['crawl']}: spec is not an object")
    return parse_spec({**body, "crawl": record["crawl"], "state": record["state"]})
