"""The normal form, and the id made of it: which spellings are one page, and which stay apart."""

from __future__ import annotations

import pytest

from schemas.url import IGNORED_PARAMS, url_id
from tests.unit.schemas.urls import assert_dedup, normal

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


def test_the_id_is_that_of_crawl_and_normal_form() -> None:
    href = "http://a.example/x?b=1&a=2"
    assert url_id("c", href).hex() == "d2df294aa8400afc84c6ccaeb42e7252"
    assert len(url_id("c", href)) == 16
    assert url_id("c", href) != url_id("d", href)
