"""robots.txt beside Protego, on made-up files: they agree on every question but for what is listed.

A question is whether a path may be fetched; the file's sitemaps are compared along. A difference is
listed as what it takes to make Protego read as we do: the file and the path rewritten, or its
matching changed. With all of them it must agree on every question, and without any one of them it
must disagree on some, so the list can neither lack one nor hold one too many. And we must read the
rewritten file as the one that was given, so that no rewrite takes away what Protego would see.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import pytest
from protego import Protego, _protego, _utils

from fetchers.policy.robots import Robots, is_allowed
from schemas.url import CrawlUrl, path_of
from schemas.url import parse as parse_url
from tests.unit.fetchers.robots_files import ORIGIN, Question, make_questions, parse

FILES = 4_000
PATHS = 8

Text = Callable[[str, str], str]
"""Rewrites a file for a product token."""
_VALUE = r"([ \t]*(?::[ \t]*|[ \t]+))(.*?)[ \t]*"
_RULE_FIELD = "diss?all?ow|diasllow|disallaw|allow"
_AGENT_FIELD = "user-agent|useragent|user agent"
_RULE = re.compile(rf"([ \t]*(?:{_RULE_FIELD})){_VALUE}", re.IGNORECASE | re.DOTALL)
_AGENT = re.compile(rf"([ \t]*(?:{_AGENT_FIELD})){_VALUE}", re.IGNORECASE | re.DOTALL)
_KNOWN = re.compile(rf"(?:{_RULE_FIELD}|{_AGENT_FIELD}|site-?map|crawl-delay)", re.IGNORECASE)


# What the rewrites do, in words of their own rather than in those of the product.


def by_line(change: Callable[[str], str]) -> Text:
    return lambda text, _: "\n".join(map(change, re.split("\r\n|\r|\n", text)))


def by_rule(change: Callable[[str], str]) -> Text:
    def line(text: str) -> str:
        found = _RULE.fullmatch(text.partition("#")[0])
        return text if found is None else found[1] + ": " + change(found[3])

    return by_line(line)


def by_agent(change: Callable[[str, str], str]) -> Text:
    def file(text: str, agent: str) -> str:
        def line(text: str) -> str:
            found = _AGENT.fullmatch(text.partition("#")[0])
            return text if found is None else found[1] + ": " + change(found[3], agent)

        return by_line(line)(text, agent)

    return file


def encoded(found: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in found[0].encode())


def unknown_lines_out(line: str) -> str:
    line = line.partition("#")[0].strip(" \t")
    field, colon, _ = line.partition(":")
    if not colon:
        field, *values = line.split() or [""]
        if len(values) != 1:
            return ""
    return line if _KNOWN.fullmatch(field.strip(" \t")) else ""


def delays_out(line: str) -> str:
    return "" if line.lower().lstrip(" \t").startswith("crawl-delay") else line


def token_alone(value: str, _agent: str) -> str:
    if re.fullmatch(r"\*(\s.*)?", value, re.DOTALL):
        return "*"
    found = re.match(r"[A-Za-z_-]+", value)
    return found[0] if found else "nobody"


def nobody_else(value: str, agent: str) -> str:
    return value if value.lower() in ("*", agent.lower()) else "nobody"


def path_of_rule(value: str) -> str:
    found = re.fullmatch(r"(?is)(?:([a-z][a-z+.-]*:)(?://|\\\\)|//)([^/\\?]*)(.*)", value)
    if found is None:
        return value
    scheme, authority, rest = found.groups()
    host = authority.rpartition("@")[2].lower().removesuffix(":443")
    if (scheme or "https:").lower() == "https:" and host == "a.example":
        path, mark, query = rest.partition("?")
        return (path.replace("\\", "/") or "/") + mark + query
    return "" if scheme else value


def first_slash(value: str) -> str:
    return value if value[:1] in ("", "/", "*") else f"/{value}"


RESERVED = "!#&'()+,:;=?@[]"


def reserved_apart(text: str) -> str:
    """Control characters, which are in no path, in place of escaped reserved ones."""

    def spelled(found: re.Match[str]) -> str:
        number = RESERVED.find(chr(int(found[1], 16)))
        return found[0] if number < 0 else f"%{number + 1:02X}"

    return re.sub("%([0-9A-Fa-f]{2})", spelled, text)


def octets_apart(text: str) -> str:
    """Each octet that is no ASCII, as text of the length that its escape has."""
    text = re.sub("[^\0-\x7f]", lambda found: encoded_octets(found[0]), text)
    return re.sub("%([89A-Fa-f][0-9A-Fa-f])", lambda found: f"_{found[1].upper()}", text)


def encoded_octets(char: str) -> str:
    return "".join(f"%{octet:02X}" for octet in char.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class Difference:
    """Why we and Protego part, and how it is made to read as we do; neither: see `ruleset`."""

    reason: str
    text: Text | None = None
    path: Callable[[str], str] | None = None


DIFFERENCES = {
    "mark": Difference(
        "A byte order mark is no part of the first line; it takes text, and leaves that to who"
        " decodes.",
        text=lambda text, _: text.removeprefix("\ufeff"),
    ),
    "white": Difference(
        "RFC 9309 2.2: lines end with CR or LF, white space is space and tab. It splits and strips"
        " at Unicode's line and word separators too, in the middle of a path as well.",
        text=lambda text, _: re.sub("[\x0b\x0c\x1c-\x1e\x85\xa0\u2028\u2029]", encoded, text),
    ),
    "colon": Difference(
        "A line without a colon is read when it is two words, as Google's parser does; it reads"
        " those of one and of more, and those whose colon is in their value.",
        text=by_line(unknown_lines_out),
    ),
    "row": Difference(
        "RFC 9309 2.2.4: other records do not interfere with groups, as at Google. At its hands a"
        " crawl delay between two agents parts them.",
        text=by_line(delays_out),
    ),
    "token": Difference(
        "RFC 9309 2.2.1: a product token holds letters, _ and - only, and what follows (a version)"
        " is not of it. It compares all of the line, and takes its asterisks away.",
        text=by_agent(token_alone),
    ),
    "exact": Difference(
        "RFC 9309 2.2.1: the group's token is the crawler's. It obeys a group whose name the"
        " crawler's begins with, so that `acme` names `acmebot`.",
        text=by_agent(nobody_else),
    ),
    "origin": Difference(
        "An absolute URL is obeyed by its path when it names our origin, and rules nothing when it"
        " names another. It puts a slash before it, which makes a path that nobody has.",
        text=by_rule(path_of_rule),
    ),
    "slash": Difference(
        "A path without its leading slash gets it. It compares it as it is, so nothing matches.",
        text=by_rule(first_slash),
    ),
    "reserved": Difference(
        "RFC 9309 2.2.2 and RFC 3986 2.2: an escaped reserved character is not the character."
        " It decodes all but the slash.",
        text=by_rule(reserved_apart),
        path=reserved_apart,
    ),
    "octets": Difference(
        "RFC 9309 2.2.2 compares octets. It compares characters of UTF-8, so that all octets that"
        " are none are equal, and none begins with a part of another.",
        text=by_rule(octets_apart),
        path=octets_apart,
    ),
    "itself": Difference(
        "RFC 9309 2.2.2: the URI /robots.txt is allowed. It allows it with any query.",
        path=lambda path: path.replace("/robots.txt?", "/robots%2Etxt?"),
    ),
    "dollar": Difference(
        "RFC 9309 2.2.3: a last $ is the end of the path, %24 the character. It reads it as both.",
    ),
    "index": Difference(
        "RFC 9309 2.2.2: a path is allowed by a rule that matches it. An allowed index.html opens"
        " its directory at Protego and Google; which file a directory shows is the server's choice,"
        " and we do not fetch on a guess what a rule forbids.",
    ),
    "spelling": Difference(
        "RFC 9309 2.2.2: reserved characters stay as they are. It percent-encodes them, so that"
        " each counts as three octets and a wildcard ends in the midst of one: `/*A` is in `/a:`.",
    ),
}


@cache
def ruleset(as_we: frozenset[str]) -> type[_protego._RuleSet]:
    """Protego's rules, some of whose ways are ours."""

    class Changed(_protego._RuleSet):  # type: ignore[misc]
        within = False

        def allow(self, pattern: str) -> None:
            self.added(super().allow, pattern)
            if "index" in as_we and not self.within and pattern.endswith("/index.html"):
                self._rules.pop()  # the one of the directory, added behind

        def disallow(self, pattern: str) -> None:
            self.added(super().disallow, pattern)

        def added(self, add: Callable[[str], None], pattern: str) -> None:
            if self.within:  # the rule that stands for the character $
                if "dollar" not in as_we:
                    add(pattern)
                return
            self.within = "$" in pattern
            add(pattern)
            self.within = False

    return Changed


@cache
def questions() -> tuple[tuple[Question, str], ...]:
    """Questions, and their paths as they are requested."""
    found = []
    for question in make_questions(9309, FILES, PATHS):
        url = parse_url(ORIGIN + question.path)
        if isinstance(url, CrawlUrl):
            found.append((question, path_of(url.href)))
    return tuple(found)


Answer = tuple[bool, tuple[str, ...]]
Names = tuple[str, ...]
EVERY: Names = tuple(DIFFERENCES)


@lru_cache(maxsize=1)
def rules_of(file: bytes, agent: str) -> Robots:
    return parse(file, agent)


@lru_cache(maxsize=1)
def file_as_we_read_it(file: bytes, agent: str, names: Names) -> bytes:
    text = file.decode("utf-8", "surrogateescape")
    for name in names:
        if (change := DIFFERENCES[name].text) is not None:
            text = change(text, agent)
    return text.encode("utf-8", "surrogateescape")


def path_as_we_read_it(path: str, names: Names) -> str:
    for name in names:
        if (change := DIFFERENCES[name].path) is not None:
            path = change(path)
    return path


@lru_cache(maxsize=1)
def peer_of(file: bytes, agent: str, names: Names) -> Protego:
    return Protego.parse(file_as_we_read_it(file, agent, names).decode("utf-8", "replace"))


def ours(question: Question, path: str) -> Answer:
    rules = rules_of(question.file, question.agent)
    return is_allowed(rules, path), rules.sitemaps


def theirs(question: Question, path: str, names: Names) -> Answer:
    peer = peer_of(question.file, question.agent, names)
    allowed = peer.can_fetch(ORIGIN + path_as_we_read_it(path, names), question.agent)
    return allowed, tuple(peer.sitemaps)


def disagreements(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Question, Answer, Answer]]:
    peer_of.cache_clear()
    monkeypatch.setattr(_protego, "_RuleSet", ruleset(frozenset(names)))
    if "spelling" in names:
        for safe in ("_SAFE", "_PATTERN_SAFE"):
            monkeypatch.setattr(_utils, safe, getattr(_utils, safe) + RESERVED)
    for question, path in questions():
        we, they = ours(question, path), theirs(question, path, names)
        if we != they:
            yield question, we, they


def test_they_agree_but_for_what_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    unlisted = list(disagreements(EVERY, monkeypatch))
    assert unlisted == [], f"{len(unlisted)} of {len(questions())}"


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_is_listed_occurs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others = tuple(other for other in EVERY if other != name)
    assert next(disagreements(others, monkeypatch), None) is not None


def test_rewrites_change_nothing_for_us() -> None:
    for question, path in questions():
        file = file_as_we_read_it(question.file, question.agent, EVERY)
        again = question._replace(file=file)
        assert ours(again, path_as_we_read_it(path, EVERY)) == ours(question, path), question


def test_the_questions_are_worth_asking() -> None:
    verdicts = Counter(ours(question, path)[0] for question, path in questions())
    assert verdicts.total() > 10_000
    assert verdicts[False] > verdicts.total() / 5
