from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.shapes import deepens, may_grow, shape, varies
from schemas.url import CrawlUrl, parse

ROOT = "http://a.example"
ID, OTHER = "4f6e1a9b2c3d", "90ab12cd34ef"


@pytest.mark.parametrize(
    ("page", "link", "grows"),
    [
        ("/", "/news/", True),
        ("/", "/news", False),
        ("/news/", "/news/about/", True),
        ("/news/", "/news/about", False),
        ("/news/", "/about/news/", False),
        ("/news/x", "/news/about/x", True),
        ("/news/x", "/news/y", False),
        ("/news/?a=/b/", "/news/y?u=/c/d/", False),
    ],
)
def test_what_deepens_a_page(page: str, link: str, *, grows: bool) -> None:
    assert deepens(shape(ROOT + page), ROOT + link) is grows


@pytest.mark.parametrize(
    ("page", "link", "grows"),
    [
        pytest.param("/list?a=1", "/list?a=2", True, id="query"),
        pytest.param("/list", "/list?a=2", True, id="first query"),
        pytest.param("/list?a=1", "/item?a=1", False, id="another path"),
        pytest.param("/item/17", "/item/18", False, id="a number is a page of its own"),
        pytest.param("/calendar/2026/01/", "/calendar/2026/02/", True, id="dates"),
        pytest.param("/news/2026/01/", "/news/2026/02/", False, id="dates of articles"),
        pytest.param(f"/s/{ID}/a", f"/s/{OTHER}/a", True, id="session, same page"),
        pytest.param(f"/s/{ID}/a", f"/s/{OTHER}/b", True, id="session, another page"),
        pytest.param(f"/(S({ID}))/a", f"/(S({OTHER}))/b", True, id="session in brackets"),
        pytest.param(f"/s/{ID}/a", f"/t/{OTHER}/a", False, id="ids in other places"),
        pytest.param(f"/a?ticket={ID}", f"/b?ticket={OTHER}", True, id="session in a query"),
        pytest.param(f"/a?ticket={ID}", f"/b?doc={OTHER}", False, id="another parameter"),
        pytest.param(f"/a?ticket={ID}", "/b", False, id="no id"),
    ],
)
def test_what_varies_a_page(page: str, link: str, *, grows: bool) -> None:
    assert varies(shape(ROOT + page), ROOT + link) is grows


PARTS = st.sampled_from(["", "a", "b", "2026", "01", "calendar", ID, OTHER, "?", "a=1", "=", ";"])
TARGETS = st.builds("/".join, st.lists(PARTS, max_size=6)).map(lambda path: f"{ROOT}/{path}")


@settings(max_examples=300, deadline=None)
@given(TARGETS, TARGETS)
def test_whatever_grows_may_grow_and_no_url_is_too_odd(page: str, link: str) -> None:
    found, target = parse(page), parse(link)
    assert isinstance(found, CrawlUrl)
    assert isinstance(target, CrawlUrl)
    of = shape(found.href)
    if deepens(of, target.href) or varies(of, target.href):
        assert may_grow(of, target.href)
