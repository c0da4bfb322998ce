"""Short questions to `schemas.url` that several tests ask."""

from __future__ import annotations

from schemas.reasons import Reason
from schemas.url import IGNORED_PARAMS, CrawlUrl, Rejected, normal_form, parse, url_id


def fetched(text: str, base: str | None = None, charset: str | None = None) -> str:
    found = parse(text, base, charset)
    assert isinstance(found, CrawlUrl), found
    return found.href


def host_of(text: str) -> str:
    found = parse(text)
    assert isinstance(found, CrawlUrl), found
    return found.host


def normal(text: str, ignore: frozenset[str] = IGNORED_PARAMS) -> str:
    return normal_form(fetched(text), ignore)


def refused(text: str, base: str | None = None) -> Reason:
    found = parse(text, base)
    assert isinstance(found, Rejected), found
    return found.reason


def assert_dedup(one: str, other: str, verdict: str) -> None:
    assert verdict in {"same", "different"}
    equal_ids = url_id("c", fetched(one)) == url_id("c", fetched(other))
    assert equal_ids is (verdict == "same")
