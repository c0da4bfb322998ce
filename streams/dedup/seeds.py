"""What a message on `urls` may look like, and the batches in it. Pure.

* Avro single-object `UrlBatch`: what parsers, fetchers and commands write.
* Plain UTF-8 text: one seed a line.
* JSON: a string, an object `{"url": ...}` or `{"urls": [...]}` with optional `crawl` and
  `priority`, or an array of strings and objects.

The last two are for people: they are seeds (depth 0) of the crawl `default` unless they say
otherwise, and each spans a scope of its own host.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, Final

from schemas import codec
from schemas.crawl import DEFAULT_CRAWL
from schemas.errors import DecodeError
from schemas.records import Link, UrlBatch
from streams.dedup.fastread import read_batch

SEED: Final = "seed"
_KEYS: Final = frozenset({"url", "urls", "crawl", "priority"})
_CRAWL: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_PRIORITY: Final = 1_000_000


def read(value: bytes) -> list[UrlBatch]:
    """The batches in a message: one for Avro, one a crawl for plain seeds.

    Raises UnknownSchemaError for Avro of a newer writer, and DecodeError for everything else that
    is none of the accepted forms, an empty message included.
    """
    if value[:2] == codec.MAGIC:
        batch = read_batch(value)
        if batch["depth"] < 0:
            raise DecodeError(f"negative depth {batch['depth']}")
        return [batch]
    try:
        text = value.decode("utf-8").removeprefix("\ufeff").strip()
    except UnicodeDecodeError as error:
        raise DecodeError(f"neither Avro nor UTF-8: {error.reason} at {error.start}") from error
    if not text:
        raise DecodeError("an empty message")
    seeds = _from_json(text) if text[0] in '{["' else _from_lines(text)
    batches: dict[str, UrlBatch] = {}
    for crawl, link in seeds:
        batch = batches.get(crawl) or batches.setdefault(crawl, seed_batch(crawl, []))
        batch["links"].append(link)
    return list(batches.values())


def seed_batch(crawl: str, links: list[Link]) -> UrlBatch:
    """A batch of seeds whose hosts and instants dedup fills in."""
    return {
        "crawl": crawl,
        "host": "",
        "via": SEED,
        "depth": 0,
        "scope_host": "",
        "referrer": "",
        "redirects": [],
        "seeded_at": 0,
        "discovered_at": 0,
        "sketch": None,
        "links": links,
    }


def seed_payload(crawl: str, urls: list[str]) -> bytes:
    """Seeds in a form that `read` accepts: what a dead letter of them holds."""
    if crawl == DEFAULT_CRAWL and len(urls) == 1 and urls[0][:1] not in ("", "{", "[", '"'):
        with contextlib.suppress(UnicodeEncodeError):
            return urls[0].encode()
    return json.dumps({"crawl": crawl, "urls": urls}).encode()


def _from_lines(text: str) -> list[tuple[str, Link]]:
    lines = (line.strip() for line in text.splitlines())
    return [(DEFAULT_CRAWL, _link(line, 0)) for line in lines if line]


def _from_json(text: str) -> list[tuple[str, Link]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"looks like JSON, but: {error}"[:300]) from error
    seeds: list[tuple[str, Link]] = []
    for item in data if isinstance(data, list) else [data]:
        seeds.extend(_from_item(item))
    if not seeds:
        raise DecodeError("JSON without any URL")
    return seeds


def _from_item(item: Any) -> list[tuple[str, Link]]:
    if isinstance(item, str):
        return [(DEFAULT_CRAWL, _link(item, 0))]
    if not isinstance(item, dict):
        raise DecodeError(f"a seed is a string or an object, not {type(item).__name__}")
    unknown = sorted(set(item) - _KEYS)
    if unknown:
        raise DecodeError(f"unknown keys: {', '.join(unknown)}"[:300])
    crawl = item.get("crawl", DEFAULT_CRAWL)
    priority = item.get("priority", 0)
    if not isinstance(crawl, str) or not _CRAWL.fullmatch(crawl):
        raise DecodeError("`crawl` must be 1 to 64 of A-Z a-z 0-9 . _ -")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise DecodeError("`priority` must be an integer")
    if abs(priority) > _MAX_PRIORITY:
        raise DecodeError(f"`priority` must lie within {_MAX_PRIORITY} of 0")
    urls = item.get("urls", [])
    if not isinstance(urls, list):
        raise DecodeError("`urls` must be an array")
    urls = [*([item["url"]] if "url" in item else []), *urls]
    if not urls:
        raise DecodeError("an object needs `url` or `urls`")
    if not all(isinstance(url, str) for url in urls):
        raise DecodeError("a URL must be a string")
    return [(crawl, _link(url, priority)) for url in urls]


def _link(url: str, priority: int) -> Link:
    return {"url": url, "url_id": None, "priority": priority, "lastmod_at": None}
