"""What an answer means for its URL: keep it, follow it, try again, or give up."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from fetchers.policy.head import Headers, header
from schemas.admission import MAX_REDIRECTS, Rules, in_scope, scope_after_redirect
from schemas.reasons import Reason, of_status
from schemas.url import CrawlUrl, Rejected, parse, url_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.records import FetchRequest, Header

REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
MAX_SAME_URL_HOPS: Final = 5
_RENAMED: Final = {
    name: f"x-original-{name}"
    for name in ("content-encoding", "transfer-encoding", "content-length")
}
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")


class Redirect(NamedTuple):
    """Where an answer points.

    `target` None: the Location is no URL to fetch. `scope_host`: of the target. `followed`: it is
    to be produced to `urls`. `same`: it is this URL again, to be asked at once, since dedup would
    drop it.
    """

    target: CrawlUrl | None
    scope_host: str
    followed: bool = False
    same: bool = False


class Endless(NamedTuple):
    """A chain that is not followed any further: it is too long, or comes back to where it was."""

    detail: str


def media_type(headers: Headers) -> str:
    """The media type of Content-Type in lower case, without parameters; empty: not said."""
    value = (header(headers, "content-type") or "").partition(";")[0].strip().lower()
    return value if _MEDIA_TYPE.fullmatch(value) else ""


@lru_cache(maxsize=4_096)
def accepts(patterns: tuple[str, ...], kind: str) -> bool:
    """Whether a media type is on an accept list; one that was not said is."""
    if not kind:
        return True
    return any(_accepts_one(pattern.lower(), kind) for pattern in patterns)


def judge_status(status: int, accept: tuple[str, ...], headers: Headers) -> Reason | bool:
    """What to do about the body: True: read it, False: leave it, a reason: the URL's failure."""
    reason = of_status(status)
    if reason is not None:
        return reason
    if status in REDIRECT_STATUSES and header(headers, "location"):
        return False
    if status in (204, 304):
        return False
    return True if accepts(accept, media_type(headers)) else Reason.CONTENT_TYPE


def judge_redirect(
    rules: Rules, request: FetchRequest, status: int, headers: Headers
) -> Redirect | Endless | None:
    """Where an answer points, or None when it does not.

    The first Location counts. Its raw bytes are percent-encoded as they are, so that no charset
    is guessed. Scope is judged here; everything else about the target is dedup's to judge.

    A target that was asked on this very chain, spelled as it is, is asked again where a cookie can
    make a difference (whoever asks it knows: `CookieJar.asked_alike`); in a crawl without cookies
    it is a loop. Another spelling was not asked yet.
    """
    if status not in REDIRECT_STATUSES:
        return None
    location = header(headers, "location")
    if not location:
        return None
    target = resolve_location(location, request["url"])
    scope_host = request["scope_host"] or request["host"]
    if isinstance(target, Rejected):
        return Redirect(None, scope_host)
    if len(request["redirects"]) >= MAX_REDIRECTS:
        return Endless(f"more than {MAX_REDIRECTS} redirects")
    scope_host = scope_after_redirect(
        depth=request["depth"],
        host=request["host"],
        target_host=target.host,
        scope_host=scope_host,
    )
    identity = url_id(request["crawl"], target.href, rules.ignore_params)
    if identity == request["url_id"]:
        return Redirect(target, scope_host, same=True)
    if not rules.spec.cookies and target.href in request["redirects"]:
        return Endless(f"a loop: leads back to {target.href}")
    if not in_scope(rules.spec, target.host, scope_host):
        return Redirect(target, scope_host)
    return Redirect(target, scope_host, followed=True)


def came_round_since(url_id: bytes, chain: Sequence[bytes]) -> bool:
    """Whether a redirect chain returned to another URL after it had passed this one, once.

    That other URL was asked again because something had changed for it, so what follows it is on
    its way for the first time since: a sign-on host that knows its visitor is passed again when the
    site has lost its cookie.

    Args:
        url_id: where the chain leads now.
        chain: URL ids of the chain, oldest first.
    """
    if chain.count(url_id) != 1:
        return False
    later = range(chain.index(url_id) + 1, len(chain))
    return any(chain[at] in chain[:at] for at in later)


def resolve_location(location: str, base: str) -> CrawlUrl | Rejected:
    """The target of a Location, given as Latin-1 text of its raw bytes."""
    if not location.isascii():
        location = "".join(char if char.isascii() else f"%{ord(char):02X}" for char in location)
    return parse(location, base)


def stored_headers(headers: Headers) -> list[Header]:
    """Response headers as a result keeps them.

    Those of the body's coding are renamed, since the body is kept decoded.
    """
    return [{"name": _RENAMED.get(name, name), "value": value} for name, value in headers]


def _accepts_one(pattern: str, kind: str) -> bool:
    before, star, after = pattern.partition("*")
    if not star:
        return kind == pattern
    return (
        len(kind) >= len(before) + len(after) and kind.startswith(before) and kind.endswith(after)
    )
