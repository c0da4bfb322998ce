from __future__ import annotations

import string
from urllib.parse import unquote_to_bytes

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from schemas.reasons import REASONS
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

QUICK = settings(max_examples=25, deadline=None, database=None)

SURROGATES = st.characters(categories=["Cs"])
ANY_TEXT = st.text(st.one_of(st.characters(), SURROGATES), max_size=60)
PIECES = st.sampled_from(
    [
        *(
            "http:",
            "https:",
            "HTTP:",
            "ftp:",
            "data:",
            "x:",
            "//",
            "/",
            "\\",
            "a.example",
            "b",
            ".",
        ),
        *("..", "@", ":", ":80", ":81", ":0", "[::1]", "[", "]", "%", "%25", "%41", "%7e", "%2f"),
        *("%C3%A9", "%2E", "?", "&", "=", "#", ";", "+", " ", "\t", "\x00", "é", "ß", "。", "xn--"),
        *("xn--ls8h", "bcher-kva", "1", "0x7f", "127.1", "utm_source=1", "a=1", "b=2", "a[]=3"),
        *("jsessionid=1", ";jsessionid=2", "A=4", "%61=5", "flag", "\ud800", "\U0001f4a9", "~"),
    ]
)
TEXT = st.one_of(ANY_TEXT, st.lists(PIECES, max_size=14).map("".join))
BASE = st.one_of(
    st.none(), TEXT, st.sampled_from(["http://a.example/d/p?q", "https://b.example:81"])
)
REST = st.lists(PIECES, max_size=10).map(lambda pieces: "http://a.example/" + "".join(pieces))
CHARSETS = st.sampled_from([None, "latin-1", "shift_jis", "iso2022_jp", "gb18030", "nonsense"])


@QUICK
@given(TEXT, BASE, CHARSETS)
def test_parse_is_total(text: str, base: str | None, charset: str | None) -> None:
    found = parse(text, base, charset)
    if isinstance(found, Rejected):
        assert REASONS[found.reason].kind == "rejected"
        assert len(found.detail.encode()) <= 1024
    else:
        assert found.href.isascii()
        assert found.href.startswith(("http://", "https://"))
        assert "#" not in found.href
        assert "@" not in origin_of(found.href)
        assert len(found.href) <= MAX_URL_CHARS
        assert not found.href.count(" ")


@QUICK
@given(TEXT, BASE)
def test_parse_is_idempotent(text: str, base: str | None) -> None:
    found = parse(text, base)
    if isinstance(found, CrawlUrl):
        assert parse(found.href) == found
        assert parse(found.href, base="http://other.example/x") == found


@QUICK
@given(st.text(st.characters(max_codepoint=0x2FF), min_size=1, max_size=30), st.integers(0, 70_000))
def test_hosts_and_ports(host: str, port: int) -> None:
    found = parse(f"http://{host}:{port}/")
    if isinstance(found, CrawlUrl):
        assert parse(f"https://{found.host}/") == CrawlUrl(f"https://{found.host}/", found.host)
        assert found.host == host_key(found.host)
        assert not found.host.endswith(".")
        assert found.host in origin_of(found.href)


@QUICK
@given(st.ip_addresses(v=6), st.booleans())
def test_spellings_of_an_ipv6_address_are_one_host(address: object, upper: bool) -> None:
    exploded = address.exploded  # type: ignore[attr-defined]  # ip_addresses() is untyped here
    one = parse(f"http://[{exploded.upper() if upper else exploded}]/")
    assert one == parse(f"http://[{address}]/")
    assert isinstance(one, CrawlUrl)


@QUICK
@given(REST)
def test_the_normal_form_is_total_and_idempotent(text: str) -> None:
    found = parse(text)
    assume(isinstance(found, CrawlUrl))
    assert isinstance(found, CrawlUrl)
    normal = normal_form(found.href)
    assert normal_form(normal) == normal
    assert normal.isascii()
    _, mark, query = normal.partition("?")
    assert bool(mark) is bool(query)
    assert not query.endswith("&")


@QUICK
@given(REST, REST, st.sampled_from(["c", "d"]))
def test_ids_are_equal_exactly_when_normal_forms_are(one: str, other: str, crawl: str) -> None:
    first, second = parse(one), parse(other)
    assume(isinstance(first, CrawlUrl) and isinstance(second, CrawlUrl))
    assert isinstance(first, CrawlUrl)
    assert isinstance(second, CrawlUrl)
    equal = normal_form(first.href) == normal_form(second.href)
    assert (url_id("c", first.href) == url_id("c", second.href)) is equal
    assert (url_id(crawl, first.href) == url_id("c", first.href)) is (crawl == "c")


@QUICK
@given(REST, REST)
def test_what_is_merged_decodes_to_the_same_octets(one: str, other: str) -> None:
    first, second = parse(one), parse(other)
    assume(isinstance(first, CrawlUrl) and isinstance(second, CrawlUrl))
    assert isinstance(first, CrawlUrl)
    assert isinstance(second, CrawlUrl)
    if url_id("c", first.href, frozenset()) == url_id("c", second.href, frozenset()):
        paths = [path_of(found.href).partition("?") for found in (first, second)]
        assert unquote_to_bytes(paths[0][0]) == unquote_to_bytes(paths[1][0])
        pairs = [
            sorted(unquote_to_bytes(pair) for pair in query.split("&") if pair)
            for _, _, query in paths
        ]
        assert pairs[0] == pairs[1]


NAMES = st.text(st.sampled_from("abAB[]%+~é=. "), min_size=1, max_size=3)


@QUICK
@given(st.lists(st.tuples(NAMES, st.sampled_from(["", "=", "=1", "=2"])), max_size=5), st.data())
def test_only_the_order_of_unlike_parameters_is_forgotten(
    pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(pairs))
    one, other = (
        parse("http://a.example/?" + "&".join(name + value for name, value in order))
        for order in (pairs, shuffled)
    )
    assert isinstance(one, CrawlUrl)
    assert isinstance(other, CrawlUrl)
    if url_id("c", one.href) == url_id("c", other.href):
        for name, _ in pairs:
            kept = [pair for pair in pairs if pair[0] == name]
            assert kept == [pair for pair in shuffled if pair[0] == name]


@QUICK
@given(
    st.text(string.ascii_letters + string.digits + "-._~/", max_size=20),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.booleans(),
)
def test_escapes_of_unreserved_characters_do_not_matter(
    path: str, escaped: list[bool], upper: bool
) -> None:
    form = "%%%02X" if upper else "%%%02x"
    spelt = "".join(
        form % ord(char) if escape and char != "/" else char
        for char, escape in zip(path, escaped, strict=False)
    )
    plain, other = parse(f"http://a.example/{path}"), parse(f"http://a.example/{spelt}")
    assert isinstance(plain, CrawlUrl)
    assert isinstance(other, CrawlUrl)
    assert normal_form(plain.href) == normal_form(other.href) == plain.href


@QUICK
@given(REST, st.sampled_from(sorted(IGNORED_PARAMS)), st.text(string.ascii_letters, max_size=5))
def test_a_tracker_at_the_end_changes_no_id(text: str, name: str, value: str) -> None:
    found = parse(text)
    assume(isinstance(found, CrawlUrl))
    assert isinstance(found, CrawlUrl)
    tracked = f"{found.href}{'&' if '?' in found.href else '?'}{name}={value}"
    assert url_id("c", tracked) == url_id("c", found.href)
