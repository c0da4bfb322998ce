from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.admission import (
    MAX_QUERY_CHARS,
    MAX_SEGMENT_REPEATS,
    MAX_SEGMENTS,
    Rules,
    calendar_shape,
    compile_rules,
    in_scope,
    is_trap,
    refuse_batch,
    refuse_url,
    registrable_domain,
    scope_after_redirect,
)
from schemas.crawl import CrawlSpec, parse_spec
from schemas.reasons import Reason
from schemas.url import CrawlUrl, parse
from tests.cases import given as rows

QUICK = settings(max_examples=25, deadline=None, database=None)


def rules(**spec: Any) -> Rules:
    return compile_rules(parse_spec({"crawl": "c", **spec}))


def batch(spec: Rules, **changes: Any) -> Reason | None:
    usual: dict[str, Any] = {
        "host": "a.example",
        "depth": 1,
        "scope_host": "a.example",
        "pages": 0,
    }
    return refuse_batch(spec, **{**usual, **changes})


# ---- scope


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("a.example", "a.example"),
        ("www.a.example", "a.example"),
        ("x.y.a.example", "a.example"),
        ("shop.a.co.uk", "a.co.uk"),
        ("co.uk", "co.uk"),
        ("u.github.io", "u.github.io"),
        ("x.u.github.io", "u.github.io"),
        ("wiki.team.corp", "team.corp"),
        ("www.xn--bcher-kva.com", "xn--bcher-kva.com"),
        ("y.x.xn--p1ai", "x.xn--p1ai"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]", "[::1]"),
        ("[2001:db8::1]", "[2001:db8::1]"),
    ],
)
def test_registrable_domain(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


@pytest.mark.parametrize(
    ("scope", "host", "inside"),
    [
        ("host", "www.a.example", True),
        ("host", "a.example", False),
        ("host", "x.www.a.example", False),
        ("domain", "a.example", True),
        ("domain", "b.a.example", True),
        ("domain", "b.example", False),
        ("domain", "xa.example", False),
        ("any", "b.example", True),
        ("any", "[::1]", True),
    ],
)
def test_scope(scope: str, host: str, *, inside: bool) -> None:
    assert in_scope(rules(scope=scope).spec, host, "www.a.example") is inside
    expected = None if inside else Reason.OUT_OF_SCOPE
    assert batch(rules(scope=scope), host=host, scope_host="www.a.example") is expected


def test_strangers_under_a_shared_suffix_and_addresses_are_apart() -> None:
    spec = rules(scope="domain").spec
    assert not in_scope(spec, "v.github.io", "u.github.io")
    assert not in_scope(spec, "b.co.uk", "a.co.uk")
    assert not in_scope(spec, "10.0.0.2", "10.0.0.1")
    assert not in_scope(spec, "[2001:db8::2]", "[2001:db8::1]")


@pytest.mark.parametrize(
    ("depth", "host", "target", "scope_host", "expected"),
    [
        pytest.param(0, "a.example", "www.a.example", "a.example", "www.a.example", id="www"),
        pytest.param(0, "www.a.example", "a.example", "www.a.example", "a.example", id="no www"),
        pytest.param(0, "a.example", "a.example", "a.example", "a.example", id="same host"),
        pytest.param(0, "a.example", "b.example", "a.example", "a.example", id="another domain"),
        pytest.param(1, "a.example", "www.a.example", "a.example", "a.example", id="not a seed"),
        pytest.param(0, "u.github.io", "v.github.io", "u.github.io", "u.github.io", id="stranger"),
        pytest.param(0, "10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1", id="addresses"),
    ],
)
def test_scope_after_redirect(
    depth: int, host: str, target: str, scope_host: str, expected: str
) -> None:
    found = scope_after_redirect(depth=depth, host=host, target_host=target, scope_host=scope_host)
    assert found == expected


def test_a_seed_moved_to_www_crawls_www_and_one_moved_away_is_out_of_scope() -> None:
    spec = rules(scope="host")
    moved = scope_after_redirect(
        depth=0, host="a.example", target_host="www.a.example", scope_host="a.example"
    )
    assert batch(spec, host="www.a.example", depth=0, scope_host=moved) is None
    away = scope_after_redirect(
        depth=0, host="a.example", target_host="b.example", scope_host="a.example"
    )
    assert batch(spec, host="b.example", depth=0, scope_host=away) is Reason.OUT_OF_SCOPE


# ---- depth, budget, state


def test_no_limits_by_default() -> None:
    assert batch(rules(), depth=10**6, pages=10**9) is None


@pytest.mark.parametrize(
    ("limit", "depth", "expected"),
    [(0, 0, None), (0, 1, Reason.TOO_DEEP), (2, 2, None), (2, 3, Reason.TOO_DEEP)],
)
def test_depth(limit: int, depth: int, expected: Reason | None) -> None:
    assert batch(rules(max_depth=limit), depth=depth) is expected


@pytest.mark.parametrize(
    ("limit", "pages", "expected"),
    [(1, 0, None), (10, 9, None), (10, 10, Reason.BUDGET_SPENT), (10, 11, Reason.BUDGET_SPENT)],
)
def test_budget(limit: int, pages: int, expected: Reason | None) -> None:
    assert batch(rules(max_pages=limit), pages=pages, depth=0) is expected


def test_a_stopped_crawl_admits_nothing_and_says_so_first() -> None:
    stopped = rules(state="stopped", max_pages=1, max_depth=0)
    assert batch(stopped, pages=5, depth=9, host="b.example") is Reason.CRAWL_STOPPED
    spent = rules(max_pages=1, max_depth=0)
    assert batch(spent, pages=5, depth=9, host="b.example") is Reason.BUDGET_SPENT
    assert batch(rules(max_depth=0), depth=9, host="b.example") is Reason.TOO_DEEP


# ---- patterns


@pytest.mark.parametrize(
    ("spec", "path", "expected"),
    [
        ({}, "/x", None),
        ({"include": ["/docs/"]}, "/docs/a", None),
        ({"include": ["/docs/"]}, "/x", Reason.EXCLUDED),
        ({"include": ["/docs/", "/wiki/"]}, "/wiki/a", None),
        ({"include": ["^/docs"]}, "/docs/a", Reason.EXCLUDED),
        ({"include": [r"^http://a\.example/docs"]}, "/docs/a", None),
        ({"exclude": [r"\.pdf$"]}, "/a.pdf", Reason.EXCLUDED),
        ({"exclude": [r"\.pdf$"]}, "/a.pdf?x", None),
        ({"exclude": ["print=1"]}, "/a?print=1", Reason.EXCLUDED),
        ({"include": ["/docs/"], "exclude": ["old"]}, "/docs/old", Reason.EXCLUDED),
        ({"include": ["/docs/"], "exclude": ["old"]}, "/docs/new", None),
    ],
)
def test_patterns(spec: dict[str, Any], path: str, expected: Reason | None) -> None:
    href = f"http://a.example{path}"
    assert refuse_url(rules(**spec), href, 1) is expected
    assert refuse_url(rules(**spec), href, 0) is None


def test_a_seed_is_never_a_trap() -> None:
    href = "http://a.example/" + "a/" * 60
    assert refuse_url(rules(), href, 1) is Reason.TRAP
    assert refuse_url(rules(), href, 0) is None


def test_ignored_parameters_are_compiled_in_lower_case() -> None:
    compiled = rules(ignore_params=["SID", "View"])
    assert {"sid", "view", "utm_source", "phpsessid"} <= compiled.ignore_params
    assert "sid" not in rules().ignore_params


# ---- traps


@pytest.mark.parametrize("href", rows("inf-04", "good_urls"))
def test_inf_04_good(href: str) -> None:
    assert not is_trap(href)
    assert refuse_url(rules(), href, 1) is None


BAD = [
    rows("inf-04", "bad_urls_generator")[0],
    rows("inf-04", "bad_urls_generator")[1].split(" ", 1)[0] + "x" * 9_000,
]


@pytest.mark.parametrize("href", BAD, ids=["segments", "query"])
def test_inf_04_bad(href: str) -> None:
    assert is_trap(href)
    found = parse(href)
    if isinstance(found, CrawlUrl):
        assert refuse_url(rules(), found.href, 1) is Reason.TRAP
    else:
        assert found.reason is Reason.URL_TOO_LONG


@pytest.mark.parametrize(
    ("path", "trap"),
    [
        ("/", False),
        ("/" + "/".join(f"s{n}" for n in range(MAX_SEGMENTS)), False),
        ("/" + "/".join(f"s{n}" for n in range(MAX_SEGMENTS + 1)), True),
        ("/" + "a/" * MAX_SEGMENT_REPEATS, False),
        ("/" + "a/" * (MAX_SEGMENT_REPEATS + 1), True),
        ("/" + "about/contact/" * (MAX_SEGMENT_REPEATS + 1) + "x.html", True),
        ("/" + "/".join(c for n in range(6) for c in (f"s{n}", "img")), True),
        ("/x/" + "page/2/" * 6, True),
        ("/objects/0/0/0/0/0/0/0/7", False),
        ("/" + "0/" * (MAX_SEGMENTS + 1), True),
        ("/2024/01/01/2024-01-01/01/01", False),
        ("/a/b/a/b/a/b/c/c", False),
        ("/" + "/" * 200, False),
        ("/?" + "x" * MAX_QUERY_CHARS, False),
        ("/?" + "x" * (MAX_QUERY_CHARS + 1), True),
        ("/?u=" + "/a" * 60, False),
    ],
)
def test_traps(path: str, *, trap: bool) -> None:
    assert is_trap(f"http://a.example{path}") is trap
    assert is_trap(f"https://[::1]:8080{path}") is trap


@QUICK
@given(st.lists(st.sampled_from(["a", "b", "0", "", "x.html", "?", "%20"]), max_size=60))
def test_is_trap_is_total_and_short_paths_are_no_traps(parts: list[str]) -> None:
    found = parse("http://a.example/" + "/".join(parts))
    assert isinstance(found, CrawlUrl)
    if len(parts) <= MAX_SEGMENT_REPEATS:
        assert not is_trap(found.href)


# ---- calendars


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/cal?m=2024-05", "/cal?m=0"),
        ("/cal?m=7749-12", "/cal?m=0"),
        ("/cal?date=2024-05-31&view=day", "/cal?date=0&view=day"),
        ("/cal?view=day&DATE=2024/5/3", "/cal?view=day&DATE=0"),
        ("/?m=202405", "/?m=0"),
        ("/?d=20240531", "/?d=0"),
        ("/c?year=2024&month=5&day=3", "/c?year=0&month=0&day=0"),
        ("/c?month=5&year=2024&id=9", "/c?month=0&year=0&id=9"),
        ("/c?week=31", "/c?week=0"),
        ("/c?m=5&y=2024", "/c?m=0&y=0"),
        ("/c?y=2024&m=5&d=1", "/c?y=0&m=0&d=0"),
        ("/c?from=2024-01-01&to=2024-01-31", "/c?from=0&to=0"),
        ("/c;day=3", "/c;day=0"),
        ("/calendar/2024", "/calendar/0"),
        ("/calendar/2024/05", "/calendar/0"),
        ("/calendar/2024/05/31/", "/calendar/0/"),
        ("/events/2024-05?x=1", "/events/0?x=1"),
        ("/Events/2024-05-31/week", "/Events/0/week"),
    ],
)
def test_calendar_shapes(path: str, shape: str) -> None:
    assert calendar_shape(f"http://a.example{path}") == f"http://a.example{shape}"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/2024/05/31/a-story",
        "/blog/2024/05/31/",
        "/archive/2024/05/31/",
        "/events/2024/12345",
        "/events/12345",
        "/events/2024/05/31/98765",
        "/calendar/2024/05/31/event-17",
        "/calendar",
        "/mycalendar/2024/05",
        "/viewtopic?t=12&start=50",
        "/list?from=100&to=200",
        "/tiles?x=512&y=1024&z=3",
        "/p?m=3",
        "/p?d=12&id=3",
        "/p?date=12abc",
        "/p?id=2024-05-31",
        "/p?today=5",
        "/p?birthday=5",
        "/p?day=3rd",
        "/p?year=all",
        "/p?m=202413",
        "/p?start=123456",
    ],
)
def test_ordinary_urls_have_no_calendar_shape(path: str) -> None:
    assert calendar_shape(f"http://a.example{path}") is None


def test_the_pages_of_an_endless_calendar_share_one_shape() -> None:
    shapes = {
        calendar_shape(f"http://a.example/cal?m={year}-{month:02}")
        for year in range(2024, 9999, 7)
        for month in range(1, 13)
    }
    assert shapes == {"http://a.example/cal?m=0"}


def test_numbers_that_are_no_date_keep_pages_apart() -> None:
    shapes = {calendar_shape(f"http://a.example/e?date=2024-05-31&id={n}") for n in range(100)}
    assert len(shapes) == 100


@QUICK
@given(
    st.lists(
        st.sampled_from(
            [*("date=", "m=", "&", ";", "/events/", "/", "2024", "-", "05", "0", "x"), "year=", "?"]
        ),
        max_size=12,
    ),
    st.text(string.digits, min_size=1, max_size=4),
)
def test_a_shape_is_stable(parts: list[str], number: str) -> None:
    found = parse(f"http://a.example/{''.join(parts)}{number}")
    assert isinstance(found, CrawlUrl)
    shape = calendar_shape(found.href)
    if shape is not None:
        assert (calendar_shape(shape) or shape) == shape


def test_the_default_crawl_spec_compiles() -> None:
    compiled = compile_rules(CrawlSpec(crawl="default"))
    assert compiled.include == ()
    assert compiled.exclude == ()
    assert compiled.spec.crawl == "default"
