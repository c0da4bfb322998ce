"""What a crawl shall do, from what a user typed: seeds, spec, crawl id. Pure.

Problems are collected and shown together, before anything starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from schemas import codec
from schemas.crawl import CrawlSpec, parse_spec
from schemas.errors import ConfigError
from schemas.records import Link, UrlBatch
from schemas.topics import URLS
from schemas.url import Rejected, parse
from streams.kafka.messages import Out

SPEC_CHECKS: Final = "crawlstream.spec_checks"
"""Entry points of functions `(CrawlSpec) -> list[str]` that say what is wrong with a spec."""
BATCH_LINKS: Final = 200
"""Most seeds in one message: far below the message limit even with the longest URLs."""

SpecCheck = Callable[[CrawlSpec], Sequence[str]]
_NOT_ID = re.compile(r"[^A-Za-z0-9.-]+")


class Seed(NamedTuple):
    """One seed, parsed."""

    href: str
    host: str
    priority: int = 0


def read_seeds(lines: Iterable[str], origin: str) -> tuple[list[Seed], list[str]]:
    """The seeds in the lines of a file, and the problems, each with its line.

    A line is a URL, a JSON string, or a JSON object with `url` or `urls` and perhaps `priority`.
    Empty lines and lines that begin with `#` say nothing.

    Args:
        lines: of the file.
        origin: its name, for the problems.
    """
    seeds: list[Seed] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 1):
        text = line.removeprefix("\ufeff").strip()
        if not text or text.startswith("#"):
            continue
        try:
            wanted = _seeds_of_json(text) if text[0] in '{["' else [(text, 0)]
        except ConfigError as error:
            problems.append(f"{origin}, line {number}: {error}")
            continue
        for url, priority in wanted:
            seed = read_seed(url, priority)
            if isinstance(seed, str):
                problems.append(f"{origin}, line {number}: {seed}")
            else:
                seeds.append(seed)
    return seeds, problems


def read_seed(url: str, priority: int = 0) -> Seed | str:
    """One seed, or what is wrong with it."""
    parsed = parse(url.strip())
    if isinstance(parsed, Rejected):
        hint = ""
        if parsed.reason == "invalid_url" and "://" not in url:
            hint = f" (did you mean https://{url.strip()[:80]} ?)"
        return f"{parsed.reason.value}: {url[:200]!r}{hint}"
    return Seed(parsed.href, parsed.host, priority)


def _seeds_of_json(text: str) -> list[tuple[str, int]]:
    """Raises ConfigError with what is wrong."""
    try:
        data = json.loads(text)
    except RecursionError as error:
        raise ConfigError("nested too deeply") from error
    except ValueError as error:
        raise ConfigError(f"looks like JSON, but: {error}") from error
    if isinstance(data, str):
        return [(data, 0)]
    if not isinstance(data, dict):
        raise ConfigError('a line is a URL or an object {"url": ...}')
    unknown = sorted(data.keys() - {"url", "urls", "priority"})
    if unknown:
        raise ConfigError(f"unknown keys: {', '.join(unknown)}")
    priority, more = data.get("priority", 0), data.get("urls", [])
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise ConfigError("`priority` must be an integer")
    if abs(priority) > 1_000_000:
        raise ConfigError("`priority` must lie within 1000000 of 0")
    if not isinstance(more, list):
        raise ConfigError("`urls` must be an array")
    urls = [*([data["url"]] if "url" in data else []), *more]
    if not urls or not all(isinstance(url, str) for url in urls):
        raise ConfigError("`url` or `urls` is needed, as text")
    return [(url, priority) for url in urls]


def read_spec_file(path: Path) -> dict[str, Any]:
    """The keys of a spec in YAML or JSON. Raises ConfigError."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(f"{path}: a crawl spec is a mapping of names to values")
    return data


def build_spec(
    crawl: str, layers: Sequence[Mapping[str, Any]], checks: Iterable[SpecCheck] | None = None
) -> CrawlSpec:
    """A checked spec. Raises ConfigError naming every problem.

    Args:
        crawl: id; wins over a `crawl` key in the layers.
        layers: keys of the spec; later layers win, None leaves a key alone.
        checks: further checks; None: those that installed packages registered.
    """
    data: dict[str, Any] = {}
    for layer in layers:
        data |= {key: value for key, value in layer.items() if value is not None}
    spec = parse_spec(data | {"crawl": crawl})
    problems = [
        problem
        for check in (registered_checks() if checks is None else checks)
        for problem in check(spec)
    ]
    if problems:
        raise ConfigError("crawl spec:\n  " + "\n  ".join(problems))
    return spec


def registered_checks() -> list[SpecCheck]:
    """The spec checks of all installed packages. Raises ConfigError when one does not load."""
    found: list[SpecCheck] = []
    for entry in metadata.entry_points(group=SPEC_CHECKS):
        try:
            found.append(entry.load())
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"spec check {entry.name} ({entry.value}): {error}") from error
    return found


def crawl_id(now: datetime, seeds: Sequence[Seed]) -> str:
    """A readable id for a new crawl: its time, then the host of its first seed."""
    host = _NOT_ID.sub("-", seeds[0].host if seeds else "seeds").strip("-.")
    return f"{now:%Y%m%d-%H%M%S}-{host}"[:64].rstrip("-.")


def seed_messages(crawl: str, seeds: Sequence[Seed], now_ms: int) -> list[Out]:
    """The messages for `urls`: seeds batched by host, in order within each host."""
    by_host: dict[str, list[Link]] = {}
    for seed in seeds:
        by_host.setdefault(seed.host, []).append(
            {"url": seed.href, "url_id": None, "priority": seed.priority, "lastmod_at": None}
        )
    messages = []
    for host, links in by_host.items():
        for at in range(0, len(links), BATCH_LINKS):
            batch: UrlBatch = {
                "crawl": crawl,
                "host": host,
                "via": "seed",
                "depth": 0,
                "scope_host": host,
                "referrer": "",
                "redirects": [],
                "seeded_at": now_ms,
                "discovered_at": now_ms,
                "links": links[at : at + BATCH_LINKS],
            }
            messages.append(Out(URLS, host.encode(), codec.encode("url-batch", batch)))
    return messages
