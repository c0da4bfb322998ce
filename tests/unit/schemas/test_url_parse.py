"""The URL fetched, by rows from the URL standard; what is refused; a URL's parts."""

from __future__ import annotations

import pytest

from schemas.reasons import Reason
from schemas.url import MAX_URL_CHARS, CrawlUrl, Rejected, host_key, origin_of, parse, path_of
from tests.unit.schemas.urls import fetched, host_of, refused

BASE = "http://a.example/d/p?q#f"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(" \x00http://a.example/\x1f ", "http://a.example/", id="C0 and space trimmed"),
        pytest.param("ht\ttp://a.exam\nple/x\ry", "http://a.example/xy", id="tab, CR, LF removed"),
        pytest.param("http:\\\\a.example\\b?c\\d", "http://a.example/b?c\\d", id="backslashes"),
        pytest.param("HTTP://A.EXAMPLE/A%2fb", "http://a.example/A%2fb", id="case"),
        pytest.param("http://a.example/a/./b/../c", "http://a.example/a/c", id="dot segments"),
        pytest.param("http://a.example/a/%2E%2e/c", "http://a.example/c", id="escaped dots"),
        pytest.param("http://a.example/../../x", "http://a.example/x", id="above the root"),
        pytest.param("http://a.example//x//y/", "http://a.example//x//y/", id="empty segments"),
        pytest.param("http://a.example/é ü", "http://a.example/%C3%A9%20%C3%BC", id="UTF-8 path"),
        pytest.param("http://a.example/?é'\"<", "http://a.example/?%C3%A9%27%22%3C", id="query"),
        pytest.param("http://a.example/p?a#b?c", "http://a.example/p?a", id="? in the fragment"),
        pytest.param("http://a.example/p#", "http://a.example/p", id="empty fragment"),
        pytest.param("http://a.example/p?#f", "http://a.example/p?", id="empty query is sent"),
        pytest.param("http://a.example/a?b?c", "http://a.example/a?b?c", id="? in the query"),
        pytest.param("http://a.example/p;x=1", "http://a.example/p;x=1", id="path parameters"),
        pytest.param("http://a.example/\x00?\x00x", "http://a.example/%00?%00x", id="NUL"),
        pytest.param("http://u:p@a.example/", "http://a.example/", id="credentials"),
        pytest.param("http://u@a.example:81/@x", "http://a.example:81/@x", id="user"),
        pytest.param("http://:@a.example/", "http://a.example/", id="empty credentials"),
        pytest.param("http://u@v@a.example/?@", "http://a.example/?@", id="two @"),
        pytest.param("http://%41.example/", "http://a.example/", id="escaped host"),
        pytest.param("http://a.example:00080/", "http://a.example/", id="zeros before the port"),
        pytest.param("http://a.example:65535/", "http://a.example:65535/", id="last port"),
        pytest.param("https://faß.example/", "https://xn--fa-hia.example/", id="sharp s stays"),
        pytest.param("http://a\u00adb.example/", "http://ab.example/", id="soft hyphen"),
        pytest.param("http://0x7f.1/", "http://127.0.0.1/", id="IPv4 in hexadecimal"),
        pytest.param("http://1.2.3.4./", "http://1.2.3.4/", id="IPv4 with a dot"),
        pytest.param("http://[0:0::1]:81/", "http://[::1]:81/", id="IPv6 compressed"),
        pytest.param("http://[::FFFF:1.2.3.4]/", "http://[::ffff:102:304]/", id="IPv4 in IPv6"),
        pytest.param("http://a.example/?\ud800", "http://a.example/?%EF%BF%BD", id="surrogate"),
    ],
)
def test_absolute(text: str, expected: str) -> None:
    assert fetched(text) == expected
    assert fetched(text, BASE) == expected
    assert fetched(expected) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "http://a.example/d/p?q"),
        ("#other", "http://a.example/d/p?q"),
        ("?", "http://a.example/d/p?"),
        ("?r", "http://a.example/d/p?r"),
        (".", "http://a.example/d/"),
        ("..", "http://a.example/"),
        ("x y", "http://a.example/d/x%20y"),
        ("/x", "http://a.example/x"),
        ("\\x", "http://a.example/x"),
        ("\\\\b.example", "http://b.example/"),
        ("//b.example", "http://b.example/"),
        ("https:x", "https://x/"),
        ("./x:y", "http://a.example/d/x:y"),
    ],
)
def test_relative(text: str, expected: str) -> None:
    assert parse(text, BASE) == CrawlUrl(expected, expected.split("/")[2])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a.example/x",
        "/x",
        "http:",
        "https://",
        "http://?x",
        "http://:80/",
        "http://u@/x",
        "http://a.example:65536/",
        "http://a.example:-1/",
        "http://a.example:8a/",
        "http://a b.example/",
        "http://a%20b.example/",
        "http://a<b.example/",
        "http://a%00b.example/",
        "http://a|b.example/",
        "http://\u00ad/",
        "http://[::1",
        "http://[::1]x/",
        "http://[1::2::3]/",
        "http://[fe80::1%eth0]/",
        "http://[fe80::1%25eth0]/",
        "http://a.example:99999999999999999999/",
        "http://1.2.3.4.5/",
        "http://0x100000000/",
        "http://a.1/",
        "h\tttp://",
    ],
)
def test_invalid(text: str) -> None:
    assert refused(text) is Reason.INVALID_URL


@pytest.mark.parametrize(
    "text",
    [
        "http://./",
        "http://../",
        "http://.a.example/",
        "http://a..example/",
        "http://a.example../",
        f"http://{'a' * 64}.example/",
        f"http://{'a.' * 127}example/",
    ],
)
def test_a_host_that_no_resolver_can_be_asked_for(text: str) -> None:
    assert refused(text) is Reason.INVALID_URL


@pytest.mark.parametrize(
    "host", ["a" * 63 + ".example", ".".join(["a" * 49] * 5) + ".abc", "a", "1a", "_x._y"]
)
def test_hosts_at_the_limits_pass(host: str) -> None:
    assert host_of(f"http://{host}./") == host


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("mailto:x@a.example", "mailto"),
        ("javascript:void(0)", "javascript"),
        ("JaVa\nScript:alert(1)", "javascript"),
        ("data:text/html,http://a.example/", "data"),
        ("ftp://a.example/", "ftp"),
        ("ws://a.example/", "ws"),
        ("file:///etc/hostname", "file"),
        ("blob:http://a.example/1", "blob"),
        ("localhost:80", "localhost"),
        ("ftp://a b/", "ftp"),
        ("x:y", "x"),
    ],
)
def test_other_schemes(text: str, scheme: str) -> None:
    assert parse(text) == Rejected(Reason.UNSUPPORTED_SCHEME, scheme)
    assert refused(text, BASE) is Reason.UNSUPPORTED_SCHEME


def test_the_length_limit_is_that_of_the_serialised_form() -> None:
    fits = "http://a.example/" + "x" * (MAX_URL_CHARS - len("http://a.example/"))
    assert fetched(fits) == fits
    assert fetched(fits + "#" + "f" * 10_000) == fits
    assert refused(fits + "x") is Reason.URL_TOO_LONG
    assert refused("http://a.example/" + "é" * 1_000) is Reason.URL_TOO_LONG
    assert fetched("http://a.example/" + "../" * 10_000) == "http://a.example/"


@pytest.mark.parametrize("base", ["", "a.example", "mailto:x", "http://", "\ud800", "http://\x00/"])
def test_an_unusable_base_is_a_rejection(base: str) -> None:
    assert refused("x", base) is Reason.INVALID_URL


@pytest.mark.parametrize(
    ("text", "charset", "expected"),
    [
        ("/é?é#é", "latin-1", "/%C3%A9?%E9"),
        ("?Привет", "windows-1251", "/?%CF%F0%E8%E2%E5%F2"),
        ("?a=日&b=c", "shift_jis", "/?a=%93%FA&b=c"),
        ("?日", "latin-1", "/?%26%2326085%3B"),
        ("?日\ud800", "latin-1", "/?%26%2326085%3B%26%2365533%3B"),
        ("?日", "iso2022_jp", "/?%1B$BF|%1B(B"),
        ("?€%41+", "windows-1252", "/?%80%41+"),
        ("?é", "utf-8", "/?%C3%A9"),
        ("?é", "no such codec", "/?%C3%A9"),
        ("?é", "\x00", "/?%C3%A9"),
        ("?é", "base64", "/?%C3%A9"),
        ("?é", "idna", "/?%C3%A9"),
        ("x#?é", "latin-1", "/x"),
    ],
)
def test_the_charset_of_the_page_encodes_queries_alone(
    text: str, charset: str, expected: str
) -> None:
    assert fetched(text, "http://a.example/", charset) == f"http://a.example{expected}"


def test_the_charset_leaves_hosts_alone() -> None:
    assert fetched("http://ü.example?ü", None, "latin-1") == "http://xn--tda.example/?%FC"


@pytest.mark.parametrize(
    ("hostname", "key"),
    [
        ("a.example", "a.example"),
        ("A.Example.", "a.example"),
        ("[::1]", "[::1]"),
        ("127.0.0.1", "127.0.0.1"),
        ("", ""),
    ],
)
def test_host_key(hostname: str, key: str) -> None:
    assert host_key(hostname) == key


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://a.example:81/", "a.example"),
        ("http://a.example.:81/x:5", "a.example"),
        ("http://[::1]:81/", "[::1]"),
        ("http://[2001:db8::1]/", "[2001:db8::1]"),
        ("http://127.1:81/", "127.0.0.1"),
        ("http://u:5@a.example:81/", "a.example"),
    ],
)
def test_the_bucket_has_no_port(text: str, host: str) -> None:
    assert host_of(text) == host


def test_path_and_origin_make_the_url() -> None:
    for href in ("http://a.example/", "https://a.example:81/x/y?z=/", "http://[::1]:81/?a://b"):
        assert origin_of(href) + path_of(href) == href
        assert path_of(href).startswith("/")
    assert origin_of("http://[::1]:81/?a://b") == "http://[::1]:81"
