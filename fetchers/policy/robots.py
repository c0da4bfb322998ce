"""robots.txt (RFC 9309): parsing, matching, and what each answer to fetching it means.

A file is parsed once for one product token into rules that are matched without regular
expressions: literal rules are looked up by prefix length, rules with wildcards are scanned with
`str.find` from left to right, so that no file can make a match slow.

Patterns and paths are compared in one spelling (section 2.2.2): octets that a URI cannot hold are
percent-encoded, percent-encoded unreserved characters are decoded, hexadecimal digits are upper
case. A literal `*` or `$` in a path is spelled `%2A` or `%24`, so only the rule's own are special.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

MAX_BYTES: Final = 500 * 1024
"""How much of a file is read (section 2.5); whole lines of it are kept."""
MAX_REDIRECTS: Final = 5
MAX_SITEMAPS: Final = 200
_MAX_SITEMAP_CHARS = 2_048

_EOL = re.compile(rb"\r\n|\n|\r")
_TOKEN = re.compile(rb"[A-Za-z_-]+")
_DELAY = re.compile(rb"[0-9]{1,12}(?:\.[0-9]{0,12})?")
_ORIGIN = re.compile(rb"https?://[^/]*", re.IGNORECASE)
_PERCENT = re.compile(r"%(?:([0-9A-Fa-f]{2}))?")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._~/?=&+,:;@!()'\[\]-]*")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE = {
    code: f"%{code:02X}"
    for code in range(256)
    if chr(code) not in _UNRESERVED and chr(code) not in "!#&'()+,/:;=?@[]*$%"
}
_ESCAPE_PATH = _ESCAPE | {ord("*"): "%2A", ord("$"): "%24"}
_AGENT_FIELDS = frozenset({b"user-agent", b"useragent", b"user agent"})
_DISALLOW_FIELDS = frozenset(
    {b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"}
)
"""The standard's name and the misspellings that Google's parser obeys too."""
_FIELDS = _AGENT_FIELDS | _DISALLOW_FIELDS | {b"allow", b"sitemap", b"crawl-delay"}


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
    `crawl_delay_s` None: not said. `sitemaps` are as found, maybe relative.
    """

    literal: dict[str, bool]
    lengths: tuple[int, ...]
    wildcards: tuple[Wildcard, ...]
    crawl_delay_s: float | None
    sitemaps: tuple[str, ...]


ALLOW_ALL: Final = Robots({}, (), (), None, ())


class _Group:
    """Rules gathered for one agent, all its groups merged (section 2.2.1)."""

    def __init__(self) -> None:
        self.seen = False
        self.rules: dict[str, bool] = {}
        self.delay_s: float | None = None


class _Reader:
    """Reads lines into the group that names us and the one for everybody.

    Agent lines in a row head one group; a rule ends the row. Other lines, blank ones included,
    neither end a group nor belong to one.
    """

    def __init__(self, agent: str) -> None:
        self._wanted = agent.lower().encode()
        self.own = _Group()
        self.others = _Group()
        self.sitemaps: list[str] = []
        self._current: list[_Group] = []
        self._heading = False

    def line(self, field: bytes, value: bytes) -> None:
        if field in _AGENT_FIELDS:
            self._agent(value)
        elif field == b"sitemap":
            if value and len(self.sitemaps) < MAX_SITEMAPS:
                self.sitemaps.append(value.decode("utf-8", "replace")[:_MAX_SITEMAP_CHARS])
        elif field == b"crawl-delay":
            if _DELAY.fullmatch(value):
                for group in self._current:
                    group.delay_s = max(group.delay_s or 0.0, float(value))
        else:
            self._rule(value, allow=field == b"allow")

    def _agent(self, value: bytes) -> None:
        if not self._heading:
            self._current = []
        self._heading = True
        name = _agent_name(value)
        group = self.own if name == self._wanted else self.others if name == b"*" else None
        if group is not None:
            group.seen = True
            self._current.append(group)

    def _rule(self, value: bytes, *, allow: bool) -> None:
        self._heading = False
        pattern = _pattern(value)
        if pattern:
            for group in self._current:
                group.rules[pattern] = group.rules.get(pattern, False) or allow


def parse(data: bytes, agent: str) -> Robots:
    """The rules of a robots.txt for a product token. Never fails: a bad line spoils only itself.

    Args:
        data: the decoded body; beyond `MAX_BYTES` only the whole lines within are used.
        agent: our product token, matched exactly but for case (2.2.1).
    """
    reader = _Reader(agent)
    for field, value in _lines(data):
        reader.line(field, value)
    group = reader.own if reader.own.seen else reader.others
    return _compile(group, tuple(reader.sitemaps))


def is_allowed(robots: Robots, path: str) -> bool:
    """Whether a path may be fetched: the longest matching rule decides, allow wins ties (2.2.2).

    Args:
        robots: of the URL's scheme, host and port.
        path: path and query as sent in the request line (`schemas.url.path_of`).
    """
    literal, lengths, wildcards, _, _ = robots
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


def _lines(data: bytes) -> list[tuple[bytes, bytes]]:
    """Field (lower case) and value of each line with a field we know."""
    if len(data) > MAX_BYTES:
        head = data[:MAX_BYTES]
        data = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1]
    data = data.removeprefix(b"\xef\xbb\xbf")
    found = []
    for raw in _EOL.split(data):
        line = raw.partition(b"#")[0].strip()
        field, colon, value = line.partition(b":")
        if not colon:
            field, _, value = line.partition(b" ")
            if b" " in value.strip():
                continue
        field = field.strip().lower()
        if field in _FIELDS:
            found.append((field, value.strip()))
    return found


def _agent_name(value: bytes) -> bytes:
    """A group's token: cut at the first character that a token cannot hold; `*` stands alone."""
    if value[:1] == b"*" and not value[1:2].strip():
        return b"*"
    token = _TOKEN.match(value)
    return token[0].lower() if token else b""


def _pattern(value: bytes) -> str:
    """A rule's value in the compared spelling; empty when it rules nothing."""
    origin = _ORIGIN.match(value)
    if origin:
        value = value[origin.end() :] or b"/"
    if not value:
        return ""
    if value[:1] not in (b"/", b"*"):
        value = b"/" + value
    text = value.decode("latin-1")
    if "%" in text:
        text = _PERCENT.sub(_normal_octet, text)
    text = text.translate(_ESCAPE)
    if "$" in text[:-1]:
        text = text[:-1].replace("$", "%24") + text[-1]
    return text


def _normal_octet(match: re.Match[str]) -> str:
    digits = match[1]
    if digits is None:
        return "%"
    char = chr(int(digits, 16))
    return char if char in _UNRESERVED else f"%{digits.upper()}"


def _compile(group: _Group, sitemaps: tuple[str, ...]) -> Robots:
    literal: dict[str, bool] = {}
    wildcards: list[Wildcard] = []
    for pattern, allow in group.rules.items():
        if "*" in pattern or pattern.endswith("$"):
            anchored = pattern.endswith("$")
            pieces = tuple((pattern[:-1] if anchored else pattern).split("*"))
            wildcards.append(Wildcard(len(pattern), allow, pieces, anchored))
        else:
            literal[pattern] = allow
    wildcards.sort(key=lambda rule: (-rule.octets, not rule.allow))
    lengths = tuple(sorted({len(prefix) for prefix in literal}, reverse=True))
    return Robots(literal, lengths, tuple(wildcards), group.delay_s, sitemaps)


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
