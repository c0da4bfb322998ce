"""URLs against the URL standard (ada, asked plainly), libc's and idna's hosts, and w3lib."""

from __future__ import annotations

import re
import socket
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import ada_url
import idna
import pytest
from w3lib.url import canonicalize_url, safe_url_string

from parsers.links.resolve import Base, Resolver, Target
from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
from schemas.reasons import Reason
from schemas.url import IGNORED_PARAMS, CrawlUrl, Rejected, normal_form, origin_of, parse, path_of
from tests.corpus import found, made
from tests.corpus.differences import Difference, comparing

if TYPE_CHECKING:
    from collections.abc import Callable

_SURROGATE = re.compile("[\ud800-\udfff]")


def _standard(href: str, base: str) -> str | None:
    """What the standard makes of a reference, less what no crawler sends; None: no URL."""
    try:
        url = ada_url.URL(_SURROGATE.sub("\ufffd", href), base=base)
    except ValueError:
        return None
    if url.protocol in ("http:", "https:"):
        url.hash = url.username = url.password = ""
    return str(url.href)


def _resolved(href: str, base: Base) -> str | Reason | None:
    target = base.resolve(href)
    if isinstance(target, Target):
        return target.url
    return None if target.reason is Reason.INVALID_URL else target.reason


def _is_web(url: str | None) -> bool:
    return url is not None and url.startswith(("http://", "https://"))


def _host(url: str) -> str:
    return str(ada_url.URL(url).hostname)


NO_NAME: Final = Difference(
    "no DNS name",
    "empty or overlong labels: no resolver has an address for them",
    lambda href, ours, theirs: (
        ours is None
        and _is_web(theirs)
        and re.search(r"^\.|\.\.|[^.]{64}|^.{254}", _host(theirs)) is not None
    ),
)
RESOLVED: Final = (
    Difference(
        "other schemes",
        "a crawl fetches http and https; whether another scheme's URL is well formed is not asked",
        lambda href, ours, theirs: ours is Reason.UNSUPPORTED_SCHEME and not _is_web(theirs),
    ),
    Difference(
        "run on",
        "a value with markup or blank lines in it lost its closing quote: no URL of the author's",
        lambda href, ours, theirs: (
            ours is Reason.MALFORMED_LINK
            and re.search(r"<|\n[ \t]*\n", href.partition("#")[0].replace("\r\n", "\n")) is not None
        ),
    ),
    NO_NAME,
    Difference(
        "broken A-label",
        "an A-label that is none's encoding: ada leaves it, idna has no name for it either",
        lambda href, ours, theirs: (
            ours is None
            and _is_web(theirs)
            and "xn--" in _host(theirs)
            and _fails(partial(idna.decode, _host(theirs).rstrip(".")))
        ),
    ),
)


def _fails(call: Callable[[], object]) -> bool:
    try:
        call()
    except (idna.IDNAError, UnicodeError):
        return True
    return False


@pytest.mark.parametrize("base", made.BASES)
def test_references_resolve_as_the_standard_says_with_memory_and_without(base: str) -> None:
    resolver = Resolver(compile_rules(CrawlSpec(crawl="c")))
    within = resolver.within(_standard(base, base) or "")
    with comparing(RESOLVED, at_least=4_000) as compare:
        for href in made.references(1, 4_000):
            ours = _resolved(href, within)
            assert _resolved(href, within) == ours
            compare(href, ours, _standard(href, base))


def test_urls_in_installed_packages_are_what_the_standard_says() -> None:
    resolver = Resolver(compile_rules(CrawlSpec(crawl="c")))
    within = resolver.within("http://a.example/")
    with comparing([NO_NAME], at_least=3_000) as compare:
        for href in found.urls():
            compare(href, _resolved(href, within), _standard(href, "http://a.example/"))


def test_parts_are_those_of_the_standard() -> None:
    with comparing(at_least=3_000) as compare:
        for href in (*found.urls(), *made.references(2, 3_000)):
            ours = parse(href, "http://a.example/d/")
            if isinstance(ours, CrawlUrl):
                theirs = ada_url.URL(ours.href)
                compare(
                    href,
                    (ours.host, origin_of(ours.href), path_of(ours.href)),
                    (theirs.hostname.removesuffix("."), theirs.origin, _path(theirs, ours.href)),
                )


def _path(url: ada_url.URL, href: str) -> str:
    return str(url.pathname) + (str(url.search) or ("?" if href.endswith("?") else ""))


HOST_NUMBERS: Final = (
    Difference(
        "trailing dot",
        "the standard drops it from an address; libc asks DNS",
        lambda host, ours, theirs: theirs is None and host[-1] == "." and ours == _libc(host[:-1]),
    ),
)


def test_numbers_for_hosts_are_the_addresses_that_libc_would_connect_to() -> None:
    random = Random(3)
    with comparing(HOST_NUMBERS, at_least=4_000) as compare:
        for _ in range(4_000):
            host = ".".join(_number(random) for _ in range(random.choice((1, 2, 3, 4, 4, 5))))
            host += random.choice(("", "", "", "."))
            url = parse(f"http://{host}/")
            compare(host, url.host if isinstance(url, CrawlUrl) else None, _libc(host))


def _number(random: Random) -> str:
    edges = (0, 1, 7, 8, 9, 127, 255, 256, 65_535, 65_536, 2**24 - 1, 2**24, 2**32 - 1, 2**32)
    number = random.choice((*edges, random.randrange(2**32)))
    return random.choice(("%d", "0x%x", "0%o", "0X%X", "%03d", "00%d", "0x0%x")) % number


def _libc(host: str) -> str | None:
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None


_LETTERS: Final = (
    "a\u00e4\u00df\u00e9\u00c9\u00fc\u015f\u0131\u0130\u4f8b\u3048\u0436\u03c3\u03c2\u03a3\u0661"
    "\u05d0\u06f0-_\u200d\u200c\u00ad\u3002\uff0e\uff41\uff21\u2460\ufb03\u00bd\u2173\u0301\u0308"
    "\U0001f4a9\u2603\u0643"
)
HOST_NAMES: Final = (
    Difference(
        "wider than IDNA2008",
        "the standard (UTS 46) takes symbols, hyphens at the ends and mixed directions, as browsers"
        " do; the encoding is the same where IDNA2008 has one",
        lambda host, ours, theirs: theirs is None and ours is not None,
    ),
)


def test_names_in_other_scripts_have_the_labels_of_idna() -> None:
    random = Random(4)
    with comparing(HOST_NAMES, at_least=4_000) as compare:
        for _ in range(4_000):
            letters = _LETTERS if random.random() < 0.6 else "abcxyz\u00e9\u4f8b"
            host = "".join(random.choices(letters, k=random.randint(1, 6))) + ".example"
            url = parse(f"http://{host}/")
            compare(host, url.host if isinstance(url, CrawlUrl) else None, _idna(host))


def _idna(host: str) -> str | None:
    try:
        return idna.encode(host, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        return None


def _canonical(url: str) -> str:
    return str(canonicalize_url(url, keep_blank_values=True))


def _cleaned(url: str) -> str:
    """Without the parameters and the dot that we leave out."""
    path, _, query = url.replace(".example./", ".example/").partition("?")
    path = re.sub(r";(\w+)=[^;/]*", lambda it: "" if _ignored(it[1]) else it[0], path)
    pairs = [pair for pair in query.split("&") if not _ignored(pair.partition("=")[0])]
    return _canonical(f"{path}?{'&'.join(pairs)}")


def _ignored(name: str) -> bool:
    return name.lower() in IGNORED_PARAMS


def _pairs(url: str, *, plus: str = "+") -> list[str]:
    query = normal_form(url).partition("?")[2].replace("+", plus)
    return sorted(pair for pair in query.split("&") if pair)


def _order_only(urls: tuple[str, str]) -> bool:
    one, other = (_pairs(url, plus="%20") for url in urls)
    return one == other


IDENTITY: Final = (
    Difference(
        "what we leave out",
        "tracking and session parameters, and the dot of the host, name no other page",
        lambda urls, ours, theirs: ours and _cleaned(urls[0]) == _cleaned(urls[1]),
    ),
    Difference(
        "stray percent",
        "servers differ on `%zz`: a part that holds one is left alone",
        lambda urls, ours, theirs: (
            theirs and any(re.search(r"%(?![0-9A-Fa-f]{2})", url) for url in urls)
        ),
    ),
    Difference(
        "plus",
        "`+` is a space in forms only",
        lambda urls, ours, theirs: (
            theirs
            and normal_form(urls[0].replace("+", "%20")) == normal_form(urls[1].replace("+", "%20"))
        ),
    ),
    Difference(
        "order of a bare query",
        "a query with a bare parameter is no list of names: its order may matter",
        lambda urls, ours, theirs: (
            theirs and _order_only(urls) and any("=" not in pair for pair in _pairs(urls[0]))
        ),
    ),
    Difference(
        "order of one name",
        "values of names that a server may read as one keep their order",
        lambda urls, ours, theirs: theirs and _order_only(urls),
    ),
    Difference(
        "bare and empty",
        "`a` and `a=` stay apart",
        lambda urls, ours, theirs: (
            theirs
            and sorted(pair.removesuffix("=") for pair in _pairs(urls[0], plus="%20"))
            == sorted(pair.removesuffix("=") for pair in _pairs(urls[1], plus="%20"))
        ),
    ),
    Difference(
        "reserved",
        "an escape of a reserved character is not the character (RFC 3986, 2.2)",
        lambda urls, ours, theirs: (
            theirs
            and sorted(map(unquote, _pairs(urls[0]))) == sorted(map(unquote, _pairs(urls[1])))
        ),
    ),
)


def test_two_spellings_are_one_page_where_w3lib_says_so() -> None:
    random = Random(5)
    with comparing(IDENTITY, at_least=8_000) as compare:
        for _ in range(10_000):
            one, other = parse(written := made.page_url(random)), parse(made.spelt(written, random))
            if isinstance(one, CrawlUrl) and isinstance(other, CrawlUrl):
                urls = (one.href, other.href)
                ours = normal_form(one.href) == normal_form(other.href)
                compare(urls, ours, _canonical(one.href) == _canonical(other.href))


_CHARSETS: Final = ("latin-1", "cp1251", "koi8-r", "shift_jis", "euc-jp", "gbk", "big5", "euc-kr")


@pytest.mark.parametrize("charset", _CHARSETS)
def test_queries_are_sent_in_the_encoding_of_the_page(charset: str) -> None:
    random = Random(6)
    wide = bytes(byte for first in range(0xB0, 0xD0) for byte in (first, 0xC1, 0x20))
    letters = (
        "abz09-_.~!$'()*+,;:@/?=& \"<>" + wide.decode(charset, "ignore") + "\u65e5\u20ac\u0142"
    )
    with comparing(at_least=500) as compare:
        for _ in range(500):
            query = "".join(random.choices(letters, k=random.randint(0, 8))) + "z"
            url = parse(f"http://a.example/p?{query}", charset=charset)
            assert not isinstance(url, Rejected)
            query = "".join([_held(letter, charset) for letter in query])
            theirs = safe_url_string(f"http://a.example/p?{query}", encoding=charset)
            compare(query, url.href, theirs)


def _held(letter: str, charset: str) -> str:
    """A letter, or the reference to it that the standard sends where the encoding lacks it."""
    try:
        letter.encode(charset)
    except UnicodeEncodeError:
        return f"%26%23{ord(letter)}%3B"
    return letter
