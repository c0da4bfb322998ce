"""robots.txt for tests: read at once, and made up from a seed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from fetchers.policy.robots import Robots
from fetchers.policy.robots_file import RobotsReader

ORIGIN = "https://a.example"
AGENT = "acmebot"


def read(pieces: Iterable[bytes], agent: str = AGENT, origin: str = ORIGIN) -> Robots:
    reader = RobotsReader(agent, origin)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()


def parse(data: bytes, agent: str = AGENT, origin: str = ORIGIN) -> Robots:
    return read([data], agent, origin)


class Question(NamedTuple):
    """May `agent` fetch `path` of `ORIGIN`, whose file this is?"""

    file: bytes
    path: str
    agent: str


_AGENTS = (
    "*", "*", "*", "*", "*", "acmebot", "acmebot", "AcmeBot", "acmebot/2.1", "acmebot (news)",
    "acme", "acmebot-news", "acmebot_x", "bot", "otherbot", "Other Bot", "* all", "*bot",
    "acmebot*", "", "Mozilla/5.0",
)  # fmt: skip
_FIELDS = {
    "agent": ("User-agent", "User-Agent", "user-agent", "USER-AGENT", "Useragent", "User agent"),
    "allow": ("Allow", "allow", "ALLOW"),
    "disallow": ("Disallow", "disallow", "DISALLOW", "DisAllow", "Dissallow", "Disalow"),
    "sitemap": ("Sitemap", "sitemap", "SITEMAP", "Site-map"),
    "crawl-delay": ("Crawl-delay", "crawl-delay"),
}
_WORDS = (
    "a", "b", "dir", "index.html", "index.htm", "p.php", "x-y", "caf\u00e9", "%63", "%7Ejoe",
    "~joe", "a%2Fb", "a%2fb", "\u30c4", "%E3%83%84", "%e3%83%84", "A", "a,b", "a;b=1", "a+b", "a:b",
    "a@b", "(a)", "a'b", "a b", "%E9", "%FF", "a%20b", "%zz", "50%", "a&b", "a%26b", "a%3Db", "a=b",
    "{x}", "%7Bx%7D", "a|b",
)  # fmt: skip
_QUERIES = ("", "", "", "?", "?q=1", "?q=%3D", "?a&b", "?dir=/a", "?q=http://x.example/")
_PATTERN_ENDS = ("", "", "", "", "$", "*", "*$", "/*.php", "*.php$", "$x", "%24", "*/b", "**b")
_PATH_ENDS = ("", "", "", "/", "x", ".php", "/c/b", "$", "%24", "$x", "*", "%2A")
_ORIGINS = (
    "https://a.example", "HTTPS://A.Example", "https://a.example:443", "http://a.example",
    "https://a.example:8443", "https://b.example", "http://b.example", "https://a.example.b.example",
    "//a.example", "//b.example", "https:\\\\a.example", "https://u:p@a.example", "ftp://a.example",
    "https://*.example", "*://a.example", "a.example", "https:", "https://",
)  # fmt: skip


def _joined(random: Random, most: int) -> str:
    return "".join(f"/{random.choice(_WORDS)}" for _ in range(random.randint(0, most)))


def _pattern(random: Random) -> str:
    if random.random() < 0.06:
        return ""
    value = _joined(random, 3) or "/"
    if random.random() < 0.3:
        value = value.replace("/", "/*", 1)
    value += random.choice(_QUERIES) + random.choice(_PATTERN_ENDS)
    start = random.random()
    if start < 0.06:
        return value[1:]
    if start < 0.14:
        return random.choice(_ORIGINS) + random.choice((value, value, value, ""))
    return value


def _line(random: Random, kind: str, value: str) -> str:
    field = random.choice(_FIELDS[kind])
    separator = random.choices((": ", ":", " : ", ":\t", " "), (60, 20, 10, 5, 5))[0]
    line = random.choice(("", "", "", " ", "\t")) + field + separator + value
    return line + random.choice(("", "", "", "", " ", " # comment", "#c", "\t"))


def _noise(random: Random) -> str:
    return random.choice(
        (
            "", "", "", "# comment", "#", "Noindex: /a", "Host: a.example", "Disallow", ":", "/a",
            "Disallow : ", "<html>", "\x00\x01", "Request-rate: 1/5", "a:hover { color: red }",
            "Disallow /a /b", "User-agent", "x" * 300, "Disallow: /a\x0cb", "Disallow: /a\u2028/b",
            "Disallow: /b\u00a0", "Disallow /b\u00a0",
        )
    )  # fmt: skip


def _group(random: Random) -> list[str]:
    lines = []
    for _ in range(random.choices((1, 2, 3, 0), (70, 20, 5, 5))[0]):
        lines.append(_line(random, "agent", random.choice(_AGENTS)))
        if random.random() < 0.1:
            lines.append(_noise(random))
    if random.random() < 0.1:
        folder = _joined(random, 1)
        lines.append(_line(random, "disallow", f"{folder}/"))
        lines.append(_line(random, "allow", f"{folder}/index.html"))
    kinds = random.choices(
        ("disallow", "allow", "crawl-delay", "sitemap", "noise"),
        (60, 20, 5, 5, 10),
        k=random.randint(0, 8),
    )
    for kind in kinds:
        if kind == "noise":
            lines.append(_noise(random))
        elif kind == "crawl-delay":
            lines.append(_line(random, kind, random.choice(("1", "2.5", "0", "x", ""))))
        elif kind == "sitemap":
            lines.append(_line(random, kind, random.choice(("/s.xml", f"{ORIGIN}/t.xml"))))
        else:
            lines.append(_line(random, kind, _pattern(random)))
    return lines


def make_file(random: Random) -> bytes:
    """A file: realistic in what it holds, nasty in how."""
    lines = random.choice(([], [], [""], ["# made up"], [_line(random, "disallow", "/early")]))
    for _ in range(random.randint(1, 5)):
        lines = [*lines, *_group(random)]
    ends = random.choice((("\n",), ("\n",), ("\r\n",), ("\r",), ("\n", "\r\n", "\r", "\n\n")))
    text = "".join(line + random.choice(ends) for line in lines)
    if random.random() < 0.2:
        text = text.rstrip("\r\n")
    data = text.encode()
    if random.random() < 0.1:
        data = data.replace("\u00e9".encode(), b"\xe9")
    return (b"\xef\xbb\xbf" if random.random() < 0.1 else b"") + data


def make_questions(seed: int, files: int, paths: int) -> Iterable[Question]:
    """Questions about made-up files; half of the paths are near a rule of theirs."""
    random = Random(seed)
    for _ in range(files):
        file = make_file(random)
        agent = random.choice(("acmebot", "acmebot", "otherbot", "AcmeBot"))
        near = re.findall(r"(?i)allow:? *([^#\r\n]+)", file.decode("utf-8", "replace"))
        for _ in range(paths):
            if near and random.random() < 0.75:
                path = re.sub(
                    r"^(?:[a-zA-Z]+:)?(?://|\\\\)[^/\\]*", "", random.choice(near)
                ).strip()
                path = path.replace("*", random.choice(("", "x", "/a"))).removesuffix("$")
                path = f"/{path.removeprefix('/')}" + random.choice(_PATH_ENDS)
            elif random.random() < 0.05:
                path = random.choice(("/robots.txt", "/robots.txt?x"))
            else:
                path = (_joined(random, 3) or "/") + random.choice(_PATH_ENDS)
                path += random.choice(_QUERIES)
            yield Question(file, path, agent)
