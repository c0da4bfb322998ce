"""What a page of the sample site is: how it is answered, and what a crawl makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["record", "dead_letter", "rejected", "absent"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What becomes of one URL in a crawl under the sample's spec.

    `record` and `dead_letter`: the URL is admitted and ends so, once. `rejected`: it is found and
    refused at admission with a count. `absent`: it is written somewhere, but never as a link to
    follow, so no stage sees it.
    """

    outcome: Outcome
    kind: str = ""
    """Of the record: html, redirect, feed, sitemap, text or other."""
    status: int = 0
    """Of the record; for a dead letter the last response's, 0 when not checked."""
    reason: str = ""
    """Of the dead letter or rejection."""
    title: str | None = None
    """Exact title of the record; None: not checked."""
    attempts: int = 1
    """The attempt that the outcome belongs to."""
    truncated: bool = False
    """Of the record: what arrived of a body that never came whole."""
    requests: int | None = 1
    """Requests that the server sees over all spellings; None: not checked."""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer of the server. `body` is the decoded body."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    coding: str = ""
    """Content coding used when the client accepts it: gzip, deflate, br or zstd."""
    wait_s: float = 0.0
    """Time before the first byte."""
    cut: bool = False
    """Announce the whole body, send half of it and close the connection."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page: the answers to the first, second, ... request; the last one stays.

    `spellings` are other request targets of the same page, equal to `target` under
    `schemas.url.normal_form`. `redirects_to_target` answers those with a 301 to `target`.
    """

    target: str
    responses: tuple[Response, ...]
    expected: Expected
    spellings: tuple[str, ...] = ()
    redirects_to_target: bool = False
    cookie: str = ""
    """Requests without this cookie are sent back to the same URL with a Set-Cookie."""
