"""robots.txt (RFC 9309): rules, how they match, and what each answer to fetching a file means.

Rules are matched without regular expressions: literal rules are looked up by prefix length, rules
with wildcards are scanned with `str.find` from left to right, so that no file can make a match
slow. `fetchers.policy.robots_file` reads them from a file.

Patterns and paths are compared in one spelling (section 2.2.2): octets that a URI cannot hold are
percent-encoded, percent-encoded unreserved characters are decoded, hexadecimal digits are upper
case. A literal `*` or `$` in a path is spelled `%2A` or `%24`, so only the rule's own are special.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

MAX_REDIRECTS: Final = 5
RULE_WEIGHT: Final = 112
"""About what a rule takes in memory beside its characters, in bytes."""
PIECE_WEIGHT: Final = 56
"""The same of each piece that wildcards cut a rule into."""

_PERCENT = re.compile(r"%(?:([0-9A-Fa-f]{2}))?")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._~/?=&+,:;@!()'\[\]-]*")
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9._~/?=&+,:;@!()'\[\]*-]*\$?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE = {
    code: f"%{code:02X}"
    for code in range(256)
    if chr(code) not in _UNRESERVED and chr(code) not in "!#&'()+,/:;=?@[]*$%"
}
_ESCAPE_PATH = _ESCAPE | {ord("*"): "%2A", ord("$"): "%24"}


class Wildcard(NamedTuple):
    """A rule with `*` or a final `$`: the literal pieces in order, and whether the end is held."""

    octets: int
    allow: bool
    pieces: tuple[str, ...]
    anchored: bool


class Robots(NamedTuple):
    """The rules of one file for one product token.

    `literal` maps a path prefix to whether it is allowed; `lengths` are the lengths of those
    prefixes, longest first; `wildcards` are sorted so that the first match decides.
    `crawl_delay_s` None: not said. `sitemaps` are as found, maybe relative. `weight` is about what
    the rules take in memory, in bytes.
    """

    literal: dict[str, bool]
    lengths: tuple[int, ...]
    wildcards: tuple[Wildcard, ...]
    crawl_delay_s: float | None
    sitemaps: tuple[str, ...]
    weight: int


ALLOW_ALL: Final = Robots({}, (), (), None, (), 0)


def compile_rules(
    rules: Mapping[str, bool], crawl_delay_s: float | None, sitemaps: tuple[str, ...], weight: int
) -> Robots:
    """Rules ready to match.

    Args:
        rules: whether each pattern (`normal_pattern`) is allowed.
        crawl_delay_s: see Robots.
        sitemaps: see Robots.
        weight: sum of the rules' `weight_of`.
    """
    literal: dict[str, bool] = {}
    wildcards: list[Wildcard] = []
    for pattern, allow in rules.items():
        if "*" in pattern or pattern.endswith("$"):
            anchored = pattern.endswith("$")
            wildcards.append(Wildcard(len(pattern), allow, _pieces(pattern), anchored))
        else:
            literal[pattern] = allow
    wildcards.sort(key=lambda rule: (-rule.octets, not rule.allow))
    lengths = tuple(sorted({len(prefix) for prefix in literal}, reverse=True))
    return Robots(literal, lengths, tuple(wildcards), crawl_delay_s, sitemaps, weight)


def weight_of(pattern: str) -> int:
    """About what the rule of a pattern takes in memory, in bytes."""
    pieces = len(_pieces(pattern)) if "*" in pattern else 0
    return RULE_WEIGHT + len(pattern) + PIECE_WEIGHT * pieces


def is_allowed(robots: Robots, path: str) -> bool:
    """Whether a path may be fetched: the longest matching rule decides, allow wins ties (2.2.2).

    Args:
        robots: of the URL's scheme, host and port.
        path: path and query as sent in the request line (`schemas.url.path_of`).
    """
    literal, lengths, wildcards, _, _, _ = robots
    if not lengths and not wildcards:
        return True
    if path == "/robots.txt":
        return True
    if not _PLAIN_PATH.fullmatch(path):
        path = normal_path(path)
    octets = -1
    allowed = True
    for length in lengths:
        verdict = literal.get(path[:length])
        if verdict is not None and length <= len(path):
            octets, allowed = length, verdict
            break
    for rule in wildcards:
        if rule.octets < octets or (rule.octets == octets and allowed):
            break
        if _matches(rule, path):
            return rule.allow
    return allowed


def normal_path(path: str) -> str:
    """A path in the spelling that rules are compared in."""
    if "%" in path:
        path = _PERCENT.sub(_normal_octet, path)
    return path.translate(_ESCAPE_PATH)


def normal_pattern(text: str) -> str:
    """A rule's pattern in the spelling that paths are compared in; `*` and a last `$` stay."""
    if _PLAIN_PATTERN.fullmatch(text):
        return text
    if "%" in text:
        text = _PERCENT.sub(_normal_octet, text)
    text = text.translate(_ESCAPE)
    if "$" in text[:-1]:
        text = text[:-1].replace("$", "%24") + text[-1]
    return text


class RobotsAnswer(NamedTuple):
    """What an answer to fetching robots.txt means (section 2.3.1).

    `rules`: parse the body. `allow`: the file is unavailable, all may be fetched.
    `deny`: unreachable, nothing may be fetched for now, ask again after `retry_s` (None: by
    back-off).
    """

    use: Literal["rules", "allow", "deny"]
    retry_s: float | None = None


def judge_answer(status: int | None, retry_after_s: float | None = None) -> RobotsAnswer:
    """What to do with an answer; None as status stands for no HTTP answer at all.

    4xx allow everything (2.3.1.3), but 429 says "too many requests" and is obeyed as such; 5xx
    and failures of the network deny everything for now (2.3.1.4). A redirect that leads nowhere
    within `MAX_REDIRECTS` hops is unavailable (2.3.1.2).
    """
    if status is not None and 200 <= status < 300:
        return RobotsAnswer("rules")
    if status is not None and status != 429 and 300 <= status < 500:
        return RobotsAnswer("allow")
    return RobotsAnswer("deny", retry_after_s)


def _normal_octet(match: re.Match[str]) -> str:
    digits = match[1]
    if digits is None:
        return "%"
    char = chr(int(digits, 16))
    return char if char in _UNRESERVED else f"%{digits.upper()}"


def _pieces(pattern: str) -> tuple[str, ...]:
    """The literal pieces between wildcards; `**` is as good as `*`."""
    first, *rest = pattern.removesuffix("$").split("*")
    if not rest:
        return (first,)
    return (first, *filter(None, rest[:-1]), rest[-1])


def _matches(rule: Wildcard, path: str) -> bool:
    """Leftmost matching of the pieces, which is exact for `*`: no backtracking is ever needed."""
    first, *rest = rule.pieces
    if not path.startswith(first):
        return False
    at = len(first)
    if not rest:
        return not rule.anchored or at == len(path)
    last = rest.pop() if rule.anchored else ""
    for piece in rest:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return len(path) - len(last) >= at and path.endswith(last)
