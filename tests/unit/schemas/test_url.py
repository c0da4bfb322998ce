from __future__ import annotations

from ipaddress import ip_address

import pytest

from schemas.reasons import Reason
from schemas.url import (
    IGNORED_PARAMS,
    MAX_URL_CHARS,
    CrawlUrl,
    Rejected,
    host_key,
    normal_form,
    origin_of,
    parse,
    path_of,
    url_id,
)
from tests.cases import case, given, ids


def fetched(text: str, base: str | None = None, charset: str | None = None) -> str:
    found = parse(text, base, charset)
    assert isinstance(found, CrawlUrl), found
    return found.href


def host_of(text: str) -> str:
    found = parse(text)
    assert isinstance(found, CrawlUrl), found
    return found.host


def normal(text: str, ignore: frozenset[str] = IGNORED_PARAMS) -> str:
    return normal_form(fetched(text), ignore)


def refused(text: str, base: str | None = None) -> Reason:
    found = parse(text, base)
    assert isinstance(found, Rejected), found
    return found.reason


def assert_dedup(one: str, other: str, verdict: str) -> None:
    assert verdict in {"same", "different"}
    equal_ids = url_id("c", fetched(one)) == url_id("c", fetched(other))
    assert equal_ids is (verdict == "same")


# ---- the case list


def test_every_url_case_of_the_list_is_driven_here() -> None:
    assert ids("url-") == {f"url-{n:02}" for n in (1, 3, 4, 6, 7, 9, 10, 12, 13)}
    assert ids("idna-") == {f"idna-{n:02}" for n in (1, 3, 4, 6)}


@pytest.mark.parametrize(
    ("given_key", "expected_key"), [("url", "canonical"), ("also", "also_canonical")]
)
@pytest.mark.parametrize("case_id", ["url-01", "url-10"])
def test_escapes_survive(case_id: str, given_key: str, expected_key: str) -> None:
    entry = case(case_id)
    text, expected = entry["input"][given_key], entry["expected"][expected_key]
    assert fetched(text) == expected
    assert normal(text) == expected
    assert normal(normal(text)) == expected


def test_url_03_a_bare_query_key_is_sent_as_seen() -> None:
    entry = case("url-03")
    href = fetched(entry["input"]["href_seen"])
    assert path_of(href) == entry["expected"]["request_target_sent"]
    assert path_of(normal_form(href)) == entry["expected"]["request_target_sent"]


@pytest.mark.parametrize(
    ("one", "other", "verdict"), [*given("url-04"), *given("url-06"), *given("url-12")]
)
def test_dedup_rows(one: str, other: str, verdict: str) -> None:
    assert_dedup(one, other, verdict)


def test_url_04_https_on_port_80_keeps_port_and_scheme() -> None:
    assert normal("https://a.example:80/x") == "https://a.example:80/x"


@pytest.mark.parametrize(("href", "expected"), given("url-07"))
def test_url_07_resolution(href: str, expected: str) -> None:
    assert fetched(href, case("url-07")["input"]["base"]) == expected


@pytest.mark.parametrize("key", ["url", "also"])
def test_url_09_a_stray_percent_is_kept(key: str) -> None:
    text = case("url-09")["input"][key]
    assert fetched(text) == text
    assert normal(text) == text


def test_url_12_the_order_seen_is_the_order_sent() -> None:
    entry = case("url-12")
    href = fetched(entry["input"]["first_seen"])
    assert path_of(href) == entry["expected"]["request_target_sent"]


@pytest.mark.parametrize(("text", "expected"), given("url-13"))
def test_url_13_trackers(text: str, expected: str) -> None:
    assert normal(text) == expected
    assert fetched(text) == text


@pytest.mark.parametrize(("text", "expected"), given("idna-01"))
def test_idna_01_hosts_as_browsers_read_them(text: str, expected: str) -> None:
    assert fetched(text) == expected


@pytest.mark.parametrize("text", given("idna-03"))
def test_idna_03_ascii_hosts_pass(text: str) -> None:
    assert fetched(text) == text
    assert fetched(text.upper().replace("HTTPS", "https")).startswith(text.rpartition("/")[0])


@pytest.mark.parametrize("text", given("idna-04"))
def test_idna_04_broken_a_labels_are_rejected(text: str) -> None:
    assert refused(text) is Reason.INVALID_URL


@pytest.mark.parametrize(("one", "other", "verdict"), given("idna-06"))
def test_idna_06_the_trailing_dot(one: str, other: str, verdict: str) -> None:
    assert_dedup(one, other, verdict)
    assert host_of(one) == host_of(other)
    assert fetched(one) == one


@pytest.mark.parametrize(("one", "other", "verdict"), given("inf-03"))
def test_inf_03_session_ids(one: str, other: str, verdict: str) -> None:
    if verdict == "same only by configured name":
        assert_dedup(one, other, "different")
        configured = IGNORED_PARAMS | {"sid"}
        assert normal(one, configured) == normal(other, configured) == "http://a.example/p?x=1"
    else:
        assert_dedup(one, other, verdict)


@pytest.mark.parametrize("host", given("ssr-03", "invalid_hosts"))
def test_ssr_03_numbers_that_are_no_address(host: str) -> None:
    assert refused(f"http://{host}/") is Reason.INVALID_URL


@pytest.mark.parametrize("host", given("ssr-03", "hosts"))
def test_ssr_03_spellings_show_what_they_are(host: str) -> None:
    found = host_of(f"http://{host}/")
    if found != "localhost":
        address = ip_address(found)
        assert address.is_loopback or address.is_unspecified


# ---- the URL fetched: rows from the URL standard

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


# ---- the normal form

SAME = [
    ("/%7Ea", "/~a"),
    ("/%c3%a9", "/%C3%A9"),
    ("/%41%42", "/AB"),
    ("/x?", "/x"),
    ("/x?&", "/x"),
    ("/x?a=1&&b=2", "/x?a=1&b=2"),
    ("/x?&a=1&", "/x?a=1"),
    ("/x?flag&", "/x?flag"),
    ("/x?%61=1", "/x?a=1"),
    ("/x?b=&a=", "/x?a=&b="),
    ("/x?%75tm_source=1&a=2", "/x?a=2"),
    ("/x?UTM_Source=1", "/x"),
    ("/x?gclid", "/x"),
    ("/x?gclid&b=1&a=2", "/x?a=2&b=1"),
    ("/p;JSessionID=1/q", "/p/q"),
    ("/p;%6Asessionid=1", "/p"),
    ("/p;a=1;jsessionid=2;b", "/p;a=1;b"),
    ("/p;jsessionid=1?a=1", "/p?a=1"),
]
DIFFERENT = [
    ("/a%2Fb", "/a/b"),
    ("/a%3Fb", "/a?b"),
    ("/a%23b", "/a"),
    ("/a%26b", "/a&b"),
    ("/a%3Bb", "/a;b"),
    ("/a%5Cb", "/a/b"),
    ("/a%2Bb", "/a+b"),
    ("/a%20b", "/a+b"),
    ("/a%40b", "/a@b"),
    ("/%2541", "/%41"),
    ("/%25", "/%"),
    ("/%%34%31", "/%2541"),
    ("/%%34%31", "/%41"),
    ("/%C3%A9", "/%E9"),
    ("/%C3%A9", "/e%CC%81"),
    ("/A", "/a"),
    ("//a", "/a"),
    ("/a/", "/a"),
    ("/a//b", "/a/b"),
    ("/index.html", "/"),
    ("/x?a", "/x?a="),
    ("/x?a=+", "/x?a=%20"),
    ("/x?a=%2B", "/x?a=+"),
    ("/x?a=1%26b=2", "/x?a=1&b=2"),
    ("/x?a%3D1", "/x?a=1"),
    ("/x?A=1", "/x?a=1"),
    ("/x?a=B", "/x?a=b"),
    ("/x?a=1;b=2", "/x?a=1&b=2"),
    ("/x?b=1;a=2", "/x?a=2;b=1"),
    ("/x?a=1&a=1", "/x?a=1"),
    ("/x?paris&london", "/x?london&paris"),
    ("/x?/topic/9&page=2", "/x?page=2&/topic/9"),
    ("/x?A=1&a=2", "/x?a=2&A=1"),
    ("/x?a[]=1&a[]=2", "/x?a[]=2&a[]=1"),
    ("/x?a[]=1&a%5B%5D=2", "/x?a%5B%5D=2&a[]=1"),
    ("/x?a[]=1&a[1]=2", "/x?a[1]=2&a[]=1"),
    ("/x?a+b=1&a%20b=2", "/x?a%20b=2&a+b=1"),
    ("/x?utm=1", "/x"),
    ("/x?id=utm_source", "/x"),
    ("/x?id=utm_source=1", "/x"),
    ("/x?sid=1", "/x"),
    ("/x?amp;utm_source=1", "/x"),
    ("/p;a=1", "/p"),
    ("/p;jsessionid", "/p"),
    ("/p;xjsessionid=1", "/p"),
    ("/p%3Bjsessionid=1", "/p"),
    ("/jsessionid=1", "/"),
    ("/x#a", "/y#a"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_page(one: str, other: str) -> None:
    assert_dedup(f"http://a.example{one}", f"http://a.example{other}", "same")


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_pages_that_stay_apart(one: str, other: str) -> None:
    assert_dedup(f"http://a.example{one}", f"http://a.example{other}", "different")


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("http://a.example/", "https://a.example/", "different"),
        ("http://a.example/", "http://www.a.example/", "different"),
        ("http://a.example.:81/", "http://a.example:81/", "same"),
        ("http://a.example.:81/", "http://a.example/", "different"),
        ("http://a.example./?x=.", "http://a.example/?x=", "different"),
        ("http://ß.example/", "http://ss.example/", "different"),
        ("http://é.example/", "http://e\u0301.example/", "same"),
        ("http://[::1]/", "http://[0:0:0:0:0:0:0:1]/", "same"),
        ("http://[::1]/", "http://[::2]/", "different"),
        ("http://[::ffff:1.2.3.4]/", "http://1.2.3.4/", "different"),
        ("http://1.2.3.4./", "http://1.2.3.4/", "same"),
        ("http://u:p@a.example/", "http://a.example/", "same"),
        ("http://a.example\\x", "http://a.example/x", "same"),
    ],
)
def test_hosts_in_dedup(one: str, other: str, verdict: str) -> None:
    assert_dedup(one, other, verdict)


def test_a_configured_name_counts_in_queries_and_path_parameters() -> None:
    ignore = IGNORED_PARAMS | {"sid"}
    assert normal("http://a.example/p;SID=1/q?Sid=2&x=1&nosid=3", ignore) == (
        "http://a.example/p/q?nosid=3&x=1"
    )
    assert url_id("c", "http://a.example/?sid=1", ignore) == url_id("c", "http://a.example/")


def test_a_stray_percent_stops_normalisation_of_its_own_part_alone() -> None:
    assert normal("http://a.example/%7Ea%?%7Eb=%7E&%7Ec=%zz%7E&a=%7e") == (
        "http://a.example/%7Ea%?a=~&~b=~&%7Ec=%zz%7E"
    )


# ---- the URL id and the parts


def test_the_id_is_that_of_crawl_and_normal_form() -> None:
    href = "http://a.example/x?b=1&a=2"
    assert url_id("c", href).hex() == "d2df294aa8400afc84c6ccaeb42e7252"
    assert len(url_id("c", href)) == 16
    assert url_id("c", href) != url_id("d", href)


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
