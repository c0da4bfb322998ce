"""Inputs of our own: seeded, so that a failure can be had again."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BASES: Final = (
    "http://a.example/",
    "https://a.example/d/e/p.html?q=/x#f",
    "http://user:secret@b.a.example:8080/d/e/",
    "https://[2001:db8::1]:444/x/y;p=1/z",
    "http://xn--mller-kva.example/%7Eu/a%2Fb/c",
    "http://a.example/d//e/../f/./g?h",
)
_SCHEMES: Final = ("http:", "https:", "HTTP:", "hTTps:", "ftp:", "mailto:", "javascript:", "data:",
                   "blob:", "ht\ttp:", " http:", "file:", "x-y+z.1:", "http", "1http:")  # fmt: skip
_SLASHES: Final = ("//", "//", "//", "/", "", "///", "\\\\", "/\\", "////")
_USERS: Final = ("", "", "", "", "u@", "u:p@", ":@", "u%40x:p:q@", "a@b@", "@", "\u00fc:\u00e9@")
_HOSTS: Final = (
    *("a.example", "A.EXAMPLE", "a.example.", "a.example..", ".a.example", "a..example", "b"),
    *("sub.a.example", "m\u00fcller.example", "M\u00dcLLER.example", "xn--mller-kva.example"),
    *("stra\u00dfe.example", "xn--strae-oqa.example", "\u4f8b\u3048.example", "a\u3002example"),
    *("\uff21.example", "xn--a.example", "xn--zzzzzz.example"),
    *("xn--.example", "caf\u0065\u0301.example"),
    *("\U0001f4a9.example", "a\u00ad.example"),
    *("a\u200db.example", "\u05d0a.example", "\u00a0.example"),
    *("1.2.3.4", "0x7f.1", "017700000001", "2130706433", "1.2.3", "1.2.3.4.5", "256.1.1.1"),
    *("1.2.3.4.", "0x.0x.0", "1.2.3.08", "0xffffffff", "4294967296", "1..2", "\u0661.2.3.4"),
    *("[::1]", "[1:2::3:4]", "[::ffff:1.2.3.4]", "[::1", "[::1%25eth0]", "[1:2:3]", "[v1.x]"),
    *("", "%61.example", "a%2eexample", "a%00.example", "a b.example", "a_b.example", "-a.example"),
    *("a-.example", "a<b.example", "a|b.example"),
    *("a^b.example", "a*.example", "x" * 63 + ".example"),
    *("x" * 64 + ".example", ("y" * 60 + ".") * 5 + "example"),
    *("localhost", "a.b-c.d-", "a,b.example"),
)  # fmt: skip
_PORTS: Final = ("", "", "", "", ":80", ":443", ":8080", ":", ":0", ":65535", ":65536", ":00080",
                 ":x", ":-1", ":8 0", ": 80")  # fmt: skip
_PATHS: Final = (
    *("a", "b.html", "..", ".", "", "%2e%2e", "%2E", ".%2e", "%2e%2E%2f", "...", "a b", "a%20b"),
    *("a%", "%zz", "%4", "%41%7e", "%c3%a9", "\u00e9"),
    *("\u65e5\u672c", "a;p=1", ";", ";jsessionid=4F"),
    *("a=b,c", "a:b", "C:", "C|", "@", "~u", "%7Eu", "a+b", "a\\b", "<", '"', "{x}", "|", "^", "`"),
    *("a\tb", "a\nb", "a\r\nb", "\x00", "\x7f", "\x01"),
    *("\ufeff", "\ud800", "\ufffd", "*", "'", "(x)"),
)  # fmt: skip
_QUERIES: Final = (
    *("a=1", "b=2", "A=3", "a=4", "a", "a=", "=", ""),
    *("b[]=1", "b[1]=2", "%61=5", "a+b=1", "a%20b=2"),
    *("utm_source=x", "UTM_Medium=y", "PHPSESSID=0123", "gclid=1", "x=%", "x=%zz", "x=%2B", "x=+"),
    *("\u00e9=\u00e8", "q=\u65e5", "q=%E9", "x='y'"),
    *('x="y"', "x=<y>", "x=a/b?c", "x=a\\b", "x=\u0142"),
    *("x=1;y=2", "x=\tz", "x=#", "&amp;y=1", "x=[y]"),
    *("x={y}", "x=|", "x=\U0001f600", "_=1", "v=1.0"),
)  # fmt: skip
_FRAGMENTS: Final = ("", "", "", "#", "#top", "#!/x", "#a#b", "#\u00e9", "#a/../b?c")
_SPACES: Final = ("", "", "", "", "", " ", "\n", "\t ", "\x00", "\x1f", "\u00a0", "\ufeff")


def reference(random: Random) -> str:
    """A reference as a page may write it: absolute or relative, sane or not."""
    parts = [random.choice(_SPACES)]
    shape = random.random()
    if shape < 0.45:
        parts.append(random.choice(_SCHEMES[:2] if random.random() < 0.6 else _SCHEMES))
        slashes = "//" if random.random() < 0.8 else random.choice(_SLASHES)
        parts.append(slashes)
    elif shape < 0.55:
        parts.append(random.choice(_SLASHES))
    if shape < 0.52:
        parts += [random.choice(_USERS), random.choice(_HOSTS)]
        parts.append(random.choice(_PORTS))
        parts.append(random.choice(("/", "/", "/", "", "\\")))
    elif random.random() < 0.3:
        parts.append("/")
    parts.append("/".join(random.choices(_PATHS, k=random.choice((0, 1, 1, 2, 3, 5)))))
    if random.random() < 0.5:
        parts.append("?" + "&".join(random.choices(_QUERIES, k=random.choice((0, 1, 1, 2, 4)))))
    parts += [random.choice(_FRAGMENTS), random.choice(_SPACES)]
    return "".join(parts)


def references(seed: int, count: int) -> Iterator[str]:
    """`count` references."""
    random = Random(seed)
    for _ in range(count):
        yield reference(random)


def page_url(random: Random) -> str:
    """A URL of a page on one host."""
    path = "/".join(random.choices(_PATHS, k=random.choice((0, 1, 2))))
    query = "&".join(random.choices(_QUERIES, k=random.choice((0, 1, 2, 3))))
    return f"http://a.example/{path}{'?' if query else ''}{query}"


def _add(pair: str) -> Callable[[str], str]:
    return lambda url: f"{url}{'&' if '?' in url else '?'}{pair}"


def _swap(old: str, new: str, count: int = -1) -> Callable[[str], str]:
    return lambda url: url.replace(old, new, count)


def _shuffled(url: str, random: Random) -> str:
    path, mark, query = url.partition("?")
    pairs = query.split("&")
    random.shuffle(pairs)
    return f"{path}{mark}{'&'.join(pairs)}"


_SPELLINGS: Final = (
    *(_add(""), _add("utm_source=1"), _add("utm_source=1"), _add("b=2"), _add("a=")),
    *(_swap("%7E", "~"), _swap("~", "%7e"), _swap("a=", "%61=")),
    *(_swap("%2e", "."), _swap("%C3", "%c3")),
    *(_swap(";", "%3B"), _swap("/b", "%2Fb"), _swap("+", "%20")),
    *(_swap("%20", "+"), _swap("%", "%25", 1)),
    *(_swap(".example", ".example.", 1), _swap("a.example", "A.EXAMPLE"), _swap("http:", "https:")),
    *(_swap(".example/", ".example:80/"), _swap("&", "&&"), _swap("?", "?&"), _swap("=1", "=", 1)),
    *(_swap("=&", "&", 1), _swap("A=", "a=", 1), str.upper),
    *(lambda url: f"{url}#x", lambda url: f"{url}/"),
)  # fmt: skip


def spelt(url: str, random: Random) -> str:
    """The URL in another spelling, or one close to it that names another page."""
    if random.random() < 0.3:
        url = _shuffled(url, random)
    for change in random.choices(_SPELLINGS, k=random.choice((1, 1, 2))):
        url = change(url)
    return url
