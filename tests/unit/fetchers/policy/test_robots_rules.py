"""robots.txt: what rules name: another origin, ours, a path, the index page of a directory."""

from __future__ import annotations

import pytest

from fetchers.policy.robots import is_allowed
from tests.unit.fetchers.robots_files import ORIGIN, parse


def allows(rule: str, path: str, origin: str = ORIGIN) -> bool:
    return is_allowed(parse(f"User-agent: *\n{rule}\n".encode(), origin=origin), path)


# Rules that name an origin.


@pytest.mark.parametrize(
    "rule",
    [
        "https://other.example/*",
        "https://other.example/",
        "https://other.example",
        "https://staging.a.example/*",
        "https://a.example.other.example/",
        "https://a.example@other.example/",
        "https://other.example/https://a.example/",
        "https://other.example?https://a.example/",
        # Another scheme or port is another origin.
        "http://a.example/",
        "https://a.example:8443/",
        "ftp://a.example/",
        # A dot more is another host, as everywhere with us.
        "https://a.example./",
        # No host, or none that can be: nobody's origin.
        "https:///",
        "https:///p",
        "https://",
        "http://",
        "https://?",
        "https://%zz/",
        "https://a. example/",
        # No wildcards in a host: the RFC has them in paths.
        "https://*/",
        "https://*.example/",
        "https://a.example*",
        "http*://a.example/",
        "*://a.example/",
        "*.a.example/",
        # By the RFC's grammar a path of two slashes.
        "//other.example/*",
        "//other.example/",
        "//",
        "///",
        # Without slashes no origin is named: a path that lacks its first slash.
        "other.example/",
        "a.example/",
        "http:",
        "https:",
        "https:/",
        "https%3A//a.example/",
        "https:a.example/",
    ],
)
def test_what_names_no_path_of_ours_closes_nothing(rule: str) -> None:
    for path in ("/", "/p", "/p?q", "/other.html"):
        assert allows(f"Disallow: {rule}", path)
    assert not allows(f"Disallow: /\nAllow: {rule}", "/p")


@pytest.mark.parametrize(
    ("rule", "closed", "open_"),
    [
        ("https://a.example/p", "/p/x", "/q"),
        ("https://a.example/p*z$", "/p/z", "/p/zz/"),
        ("https://a.example/*.php$", "/x.php", "/x.php5"),
        ("HTTPS://A.Example/p", "/p", "/q"),
        ("https://a.example:443/p", "/p", "/q"),
        ("https://a.example:/p", "/p", "/q"),
        ("https://user:secret@a.example/p", "/p", "/q"),
        ("https://%61.example/p", "/p", "/q"),
        ("https://a.example/caf\u00e9", "/caf%C3%A9", "/cafe"),
        ("https://a.example/a b", "/a%20b", "/a"),
        ("https://a.example/%70?x", "/p?xy", "/p"),
        ("https://a.example?x=1", "/?x=1", "/"),
        ("https://a.example/?x=1", "/?x=1", "/"),
        # Backslashes are slashes in a URL, but for its query.
        ("https://a.example\\p", "/p", "/q"),
        ("https:\\\\a.example\\p\\r", "/p/r", "/p/s"),
        ("https://a.example/p?a\\b", "/p?a%5Cb", "/p?a/b"),
        ("//a.example/p", "/p", "/q"),
        # A fragment is a comment.
        ("https://a.example/p#part", "/p", "/q"),
    ],
)
def test_a_rule_that_names_our_origin_is_obeyed_by_its_path(
    rule: str, closed: str, open_: str
) -> None:
    assert not allows(f"Disallow: {rule}", closed)
    assert allows(f"Disallow: {rule}", open_)
    assert allows(f"Disallow: /\nAllow: {rule}", closed)
    assert not allows(f"Disallow: /\nAllow: {rule}", open_)


@pytest.mark.parametrize("rule", ["https://a.example", "https://a.example/", "https://a.example/*"])
def test_our_origin_alone_is_all_of_it(rule: str) -> None:
    assert not allows(f"Disallow: {rule}", "/p")
    assert not allows(f"Disallow: {rule}", "/")


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("//other.example/p", "//other.example/p/x"),
        ("//", "//x"),
        ("/*//", "/a//b"),
        ("/http://other.example", "/http://other.example/"),
        ("*://x/", "/go?to=http://x/y"),
        ("http:", "/http://x"),
        ("a.example/p", "/a.example/p"),
        ("?q", "/?q"),
        ("\\p", "/%5Cp"),
    ],
)
def test_what_is_a_path_stays_one(rule: str, path: str) -> None:
    assert not allows(f"Disallow: {rule}", path)


@pytest.mark.parametrize(
    ("origin", "own", "other"),
    [
        ("http://a.example", "http://a.example/p", "https://a.example/p"),
        ("http://a.example", "http://a.example:80/p", "http://a.example:443/p"),
        ("https://a.example:8443", "https://a.example:8443/p", "https://a.example/p"),
        ("https://a.example:8443", "//a.example:8443/p", "//a.example/p"),
        ("http://[::1]:8080", "http://[0:0::1]:8080/p", "http://[::2]:8080/p"),
        ("http://127.0.0.1", "http://127.1/p", "http://127.0.0.2/p"),
        (
            "https://xn--bcher-kva.example",
            "https://b\u00fccher.example/p",
            "https://bucher.example/p",
        ),
    ],
)
def test_origins_are_compared_as_the_urls_that_are_fetched(
    origin: str, own: str, other: str
) -> None:
    assert not allows(f"Disallow: {own}", "/p", origin)
    assert allows(f"Disallow: {other}", "/p", origin)


def test_a_rule_of_another_origin_ends_the_row_of_agents_like_any_other() -> None:
    text = (
        b"User-agent: acmebot\nDisallow: https://other.example/\nUser-agent: other\nDisallow: /\n"
    )
    assert is_allowed(parse(text), "/p")


# A5: the index page of a directory is what its URL says, not the directory.


@pytest.mark.parametrize(
    "rule",
    ["index.html", "index.htm", "index.html$", "index.html?q=1", "*/index.html", "index.html*"],
)
@pytest.mark.parametrize("path", ["/dir/", "/dir/?q=1", "/dir/x/", "/dir/index", "/dir/index.php"])
def test_an_index_page_allowed_does_not_open_its_directory(rule: str, path: str) -> None:
    assert not allows(f"Disallow: /dir/\nAllow: /dir/{rule}", path)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("/dir/index.html", "/dir/index.html"),
        ("/dir/index.html", "/dir/index.html?q=1"),
        ("/dir/index.html$", "/dir/index.html"),
        ("/dir/index.htm", "/dir/index.html"),
        ("/*/index.html", "/dir/index.html"),
        ("/dir/$", "/dir/"),
    ],
)
def test_it_opens_what_it_names(rule: str, path: str) -> None:
    assert allows(f"Disallow: /dir/\nAllow: {rule}", path)


def test_an_index_page_closed_does_not_close_its_directory() -> None:
    assert allows("Disallow: /dir/index.html", "/dir/")
