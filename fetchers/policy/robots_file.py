"""Reading a robots.txt piece by piece as it arrives: lines, groups, and what bounds them.

Only what may be obeyed is kept: the rules of the group that names us, and those of `*` until such a
group is seen. Groups of one agent may be repeated anywhere and are one (RFC 9309 section 2.2.1).

Rules are paths. One written as an absolute URL is obeyed by its path when it names the origin that
was asked, and rules nothing when it names another; both are what its author meant, and Google's
parser, which compares the URL with the path as it stands, closes nothing by it either. URLs are
read as everywhere here (`schemas.url`), so letter case, a default port, credentials and backslashes
make no difference, and another scheme or port is another origin. `//host/path` is a path by the
grammar of section 2.2 and stays one unless the host is ours. Whatever else lacks its leading slash
gets it: `example.com/x` is `/example.com/x`.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from fetchers.policy.robots import Robots, compile_rules, normal_pattern, weight_of
from schemas.url import MAX_URL_CHARS, CrawlUrl, origin_of
from schemas.url import parse as parse_url

MIN_BYTES: Final = 500 * 1024
"""How much of a file has to be obeyed whatever it holds (section 2.5)."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""How much of a file is read."""
MAX_LINE_BYTES: Final = 16 * 1024
"""A longer line is no rule and names no sitemap; its comment may be as long as it likes."""
MAX_RULES_WEIGHT: Final = 16 * 1024 * 1024
"""Most that the rules of a group may take in memory, in bytes (`weight_of`): what fills `MIN_BYTES`
with the shortest rules, or with one rule of wildcards alone, stays within. Beyond it the group
takes no further rules, as if the file ended."""
MAX_SITEMAPS: Final = 200

Bound = Literal["file", "line", "rules", "sitemaps"]
"""What a file can exceed: the size read, or a bound of the same name."""
_Kind = Literal["agent", "disallow", "allow", "sitemap", "crawl-delay"]

_BOM = b"\xef\xbb\xbf"
_LINE_KEPT = len(_BOM) + MAX_LINE_BYTES + 1
"""Enough of a line to see that it is too long."""
_TOKEN = re.compile(rb"[A-Za-z_-]+")
_DELAY = re.compile(rb"[0-9]{1,12}(?:\.[0-9]{0,12})?")
_AUTHORITY = re.compile(rb"(?:([A-Za-z][A-Za-z0-9+.-]*:)[/\\]{2}|//)([^/\\?]*)")
_FIELDS: Final[dict[bytes, _Kind]] = {
    b"user-agent": "agent",
    b"useragent": "agent",
    b"user agent": "agent",
    b"disallow": "disallow",
    # Misspellings that Google's parser obeys too.
    b"dissallow": "disallow",
    b"dissalow": "disallow",
    b"disalow": "disallow",
    b"diasllow": "disallow",
    b"disallaw": "disallow",
    b"allow": "allow",
    b"sitemap": "sitemap",
    b"site-map": "sitemap",
    b"crawl-delay": "crawl-delay",
}


class RobotsReader:
    """Reads one file. Never fails: a bad line spoils only itself.

    Memory is bounded by the bounds above, work is linear in the size of the file, and how the file
    is cut into pieces makes no difference.
    """

    def __init__(self, agent: str, origin: str) -> None:
        """For our product token, and the scheme, host and port that were asked for the file.

        Args:
            agent: matched exactly but for letter case (2.2.1).
            origin: that of the request, not of where redirects of it led (2.3.1.2).
        """
        self._groups = _Groups(agent, origin)
        self._line = bytearray()
        self._at_start = True
        self.size = 0
        """Bytes so far; those beyond `MAX_BYTES` are counted and not read."""

    @property
    def exceeded(self) -> frozenset[Bound]:
        """The bounds that the file exceeded; something of it is not obeyed."""
        return frozenset(self._groups.exceeded | self._groups.obeyed.exceeded)

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the decoded file."""
        room = max(MAX_BYTES - self.size, 0)
        self.size += len(piece)
        # CR LF makes an empty line, which means nothing.
        first, *lines = piece[:room].replace(b"\r", b"\n").split(b"\n")
        self._begin_line(first)
        if lines:
            self._end_line()
            self._begin_line(lines.pop())
            for line in lines:
                self._groups.take(line)

    def finish(self, *, cut: bool = False) -> Robots:
        """The rules, after the last piece.

        Args:
            cut: the file goes on, and was not received further. What is there of its last line is
                no rule then.
        """
        if cut or self.size > MAX_BYTES:
            self._groups.exceeded.add("file")
        else:
            self._end_line()
        group = self._groups.obeyed
        return compile_rules(group.rules, group.delay_s, tuple(self._groups.sitemaps), group.weight)

    def _begin_line(self, start: bytes) -> None:
        self._line += start[: _LINE_KEPT - len(self._line)]

    def _end_line(self) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        self._groups.take(line)


class _Group:
    """Rules gathered for one agent, all its groups merged (section 2.2.1)."""

    __slots__ = ("delay_s", "exceeded", "rules", "weight")

    def __init__(self) -> None:
        self.rules: dict[str, bool] = {}
        self.delay_s: float | None = None
        self.weight = 0
        self.exceeded: set[Bound] = set()

    def add(self, pattern: str, *, allow: bool) -> None:
        known = self.rules.get(pattern)
        if known is None:
            weight = weight_of(pattern)
            if "rules" in self.exceeded or self.weight + weight > MAX_RULES_WEIGHT:
                self.exceeded.add("rules")
                return
            self.weight += weight
        self.rules[pattern] = known or allow


class _Groups:
    """Reads lines into the group that names us, and into that of everybody while there is none.

    Agent lines in a row head one group; a rule ends the row. Other lines, blank ones included,
    neither end a group nor belong to one.
    """

    def __init__(self, agent: str, origin: str) -> None:
        self.exceeded: set[Bound] = set()
        self._wanted = agent.lower().encode()
        self._origin = origin
        self._own: _Group | None = None
        self._others = _Group()
        self._current: list[_Group] = []
        self._heading = False
        self.sitemaps: list[str] = []

    @property
    def obeyed(self) -> _Group:
        """The group whose rules count, as far as the file was read."""
        return self._own or self._others

    def take(self, line: bytes) -> None:
        """Read a line without its end; of one that is too long, more than `MAX_LINE_BYTES`."""
        text, comment, _ = line[:MAX_LINE_BYTES].partition(b"#")
        whole = bool(comment) or len(line) <= MAX_LINE_BYTES
        field, colon, value = text.partition(b":")
        if not colon:
            words = text.split()
            if len(words) != 2:
                return
            field, value = words
        kind = _FIELDS.get(field.strip().lower())
        if kind is None:
            return
        value = value.strip()
        if kind == "agent":
            self._agent(value)
            return
        if not whole:
            value = b""
            for holder in (self,) if kind == "sitemap" else self._current:
                holder.exceeded.add("line")
        if kind == "sitemap":
            self._sitemap(value)
        elif kind == "crawl-delay":
            self._delay(value)
        else:
            self._rule(value, allow=kind == "allow")

    def _agent(self, value: bytes) -> None:
        if not self._heading:
            self._current.clear()
        self._heading = True
        name = _agent_name(value)
        if name == self._wanted:
            if self._own is None:
                self._own = _Group()
                self._others = _Group()
                self._current.clear()
            self._join(self._own)
        elif name == b"*" and self._own is None:
            self._join(self._others)

    def _join(self, group: _Group) -> None:
        if group not in self._current:
            self._current.append(group)

    def _rule(self, value: bytes, *, allow: bool) -> None:
        self._heading = False
        if self._current and (path := self._path(value)):
            pattern = normal_pattern(path.decode("latin-1"))
            for group in self._current:
                group.add(pattern, allow=allow)

    def _path(self, value: bytes) -> bytes:
        """A rule's path; empty when it rules nothing here."""
        found = _AUTHORITY.match(value)
        if found is not None:
            scheme, authority = found.groups()
            if self._is_here(scheme, authority):
                path, mark, query = value[found.end() :].partition(b"?")
                value = (path.replace(b"\\", b"/") or b"/") + mark + query
            elif scheme is not None:
                return b""
        if value and value[:1] not in (b"/", b"*"):
            return b"/" + value
        return value

    def _is_here(self, scheme: bytes | None, authority: bytes) -> bool:
        start = scheme.decode("ascii") if scheme else self._origin.partition("/")[0]
        found = parse_url(f"{start}//{authority.decode('utf-8', 'replace')}/")
        return isinstance(found, CrawlUrl) and origin_of(found.href) == self._origin

    def _sitemap(self, value: bytes) -> None:
        if len(value) > MAX_URL_CHARS:
            self.exceeded.add("line")
        elif value and len(self.sitemaps) < MAX_SITEMAPS:
            self.sitemaps.append(value.decode("utf-8", "replace"))
        elif value:
            self.exceeded.add("sitemaps")

    def _delay(self, value: bytes) -> None:
        if _DELAY.fullmatch(value):
            for group in self._current:
                group.delay_s = max(group.delay_s or 0.0, float(value))


def _agent_name(value: bytes) -> bytes:
    """A group's token: cut at the first character that a token cannot hold; `*` stands alone."""
    if value[:1] == b"*" and not value[1:2].strip():
        return b"*"
    token = _TOKEN.match(value)
    return token[0].lower() if token else b""
