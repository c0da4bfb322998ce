"""The roles that can be scaled, and where their work is read from."""

from __future__ import annotations

from typing import Final, NamedTuple

from schemas.topics import (
    DEDUP_APP,
    FETCH_REQUESTS,
    FETCH_RESULTS,
    FETCHER_GROUP,
    PARSER_GROUP,
    URLS,
)


class Role(NamedTuple):
    """One kind of worker. Group and topic are logical names."""

    group: str
    topic: str
    assumed_rate: float
    """Messages per second of one worker on one core, until it is measured."""


FETCHER: Final = "fetcher"

ROLES: Final = {
    "dedup": Role(DEDUP_APP, URLS, 300.0),
    FETCHER: Role(FETCHER_GROUP, FETCH_REQUESTS, 100.0),
    "parser": Role(PARSER_GROUP, FETCH_RESULTS, 100.0),
}
