"""The pure rules one by one: pace, breaker, retries, concurrency, waits, cookies, outcomes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from fetchers.policy import breaker, politeness
from fetchers.policy.concurrency import LEAST, Sample, adapt
from fetchers.policy.cookies import CookieJar, parse_cookie
from fetchers.policy.outcome import (
    Redirect,
    accepts,
    judge_redirect,
    judge_status,
    media_type,
    resolve_location,
)
from fetchers.policy.retry import after_failure, longest_wait_s, scale_of, tier_for
from fetchers.policy.retry_after import http_date, wait_s
from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
from schemas.reasons import REASONS, Reason
from schemas.topics import RETRY_TIERS_S
from schemas.url import CrawlUrl, path_of
from tests.cases import case, given
from tests.unit.fetchers.fakes import request_for

HOSTLY = sorted(breaker.COUNTED)


# Pace.


@pytest.mark.parametrize(("line", "expected"), given("rob-22"))
def test_rob_22_crawl_delay(line: str, expected: float) -> None:
    from fetchers.policy.robots import parse

    bounds = case("rob-22")["input"]
    said = parse(f"User-agent: *\n{line}\n".encode(), "acmebot").crawl_delay_s
    assert politeness.base_delay(bounds["floor_s"], said, bounds["cap_s"]) == expected


def test_a_setting_above_the_cap_stays() -> None:
    assert politeness.base_delay(90.0, 10.0, 60.0) == 90.0
    assert politeness.base_delay(90.0, 1000.0, 60.0) == 90.0


@forall(st.floats(0, 100), st.floats(0, 0.999), st.floats(0, 1000))
def test_jitter_never_shortens_the_delay(delay_s: float, jitter: float, now: float) -> None:
    pace = politeness.started(politeness.FRESH, delay_s, now, jitter)
    assert now + delay_s <= pace.next_at <= now + delay_s * 1.05 + 1e-6


def test_the_delay_counts_from_when_the_request_went_out() -> None:
    pace = politeness.started(politeness.FRESH, 1.0, 100.0, 0.0)
    pace = politeness.finished(
        pace, sent_at=100.4, now=100.5, adaptive_factor=1, parallel=1, adapt=True
    )
    assert pace.next_at == 101.4


@pytest.mark.parametrize(
    ("took_s", "factor", "parallel", "rest_s"),
    [
        (5.0, 1.0, 1, 5.0),
        (5.0, 2.0, 1, 10.0),
        (5.0, 1.0, 5, 1.0),
        (500.0, 1.0, 1, 30.0),
        (5, 0, 1, 0),
    ],
)
def test_a_slow_host_gets_rest(took_s: float, factor: float, parallel: int, rest_s: float) -> None:
    pace = politeness.finished(
        politeness.started(politeness.FRESH, 1.0, 0.0, 0.0),
        sent_at=0.0, now=took_s, adaptive_factor=factor, parallel=parallel, adapt=True,
    )  # fmt: skip
    assert pace.next_at == max(1.0, took_s + rest_s)


def test_no_delay_means_no_rest() -> None:
    pace = politeness.finished(
        politeness.FRESH, sent_at=0.0, now=9.0, adaptive_factor=1, parallel=1, adapt=False
    )
    assert pace.next_at == 9.0


def test_push_back_doubles_and_success_recovers() -> None:
    pace = politeness.FRESH
    pauses, penalties = [], []
    for _ in range(4):
        pace = politeness.pushed_back(pace, delay_s=1.0, retry_after_s=None, now=0.0, jitter=0.0)
        pauses.append(pace.blocked_until)
        penalties.append(pace.penalty_s)
    assert pauses == [30.0, 60.0, 120.0, 240.0]
    assert penalties == [1.0, 2.0, 4.0, 8.0]
    for _ in range(10):
        pace = politeness.welcomed(pace)
    assert (pace.penalty_s, pace.strikes) == (0.0, 0)


def test_retry_after_is_kept_but_never_below_the_delay() -> None:
    pace = politeness.pushed_back(
        politeness.FRESH, delay_s=2.0, retry_after_s=0.0, now=10.0, jitter=0.0
    )
    assert pace.next_at == 12.0
    pace = politeness.pushed_back(
        politeness.FRESH, delay_s=2.0, retry_after_s=120.0, now=10.0, jitter=0.0
    )
    assert pace.next_at == 130.0


def test_an_earlier_pause_is_not_shortened() -> None:
    long = politeness.FRESH._replace(next_at=1000.0)
    assert politeness.pushed_back(
        long, delay_s=1.0, retry_after_s=1.0, now=0.0, jitter=0.0
    ).next_at == 1000.0  # fmt: skip


def test_ownership_change() -> None:
    assert politeness.first_seen(50.0, 2.0).next_at == 52.0
    busy = politeness.FRESH._replace(next_at=60.0)
    assert politeness.reassigned(busy, 50.0, 2.0).next_at == 60.0
    assert politeness.reassigned(politeness.FRESH, 50.0, 2.0).next_at == 52.0


# Breaker.


def _fail(state: breaker.Breaker, now: float, reason: Reason = Reason.CONNECT) -> breaker.Breaker:
    return breaker.failed(state, reason, now=now, jitter=0.0)


def test_breaker_opens_after_failures_in_a_row_only() -> None:
    state = breaker.CLOSED
    for _ in range(4):
        state = _fail(state, 0.0)
    assert breaker.state(state, 0.0) == "closed"
    assert breaker.state(_fail(state, 0.0), 1.0) == "open"
    state = breaker.answered(state)
    assert breaker.state(_fail(state, 0.0), 1.0) == "closed"


def test_breaker_half_opens_and_doubles() -> None:
    state = breaker.CLOSED
    for _ in range(5):
        state = _fail(state, 0.0)
    assert state.until == 60.0
    assert breaker.state(state, 59.9) == "open"
    assert breaker.state(state, 60.0) == "half_open"
    state = _fail(state, 60.0)
    assert state.until == 180.0
    assert breaker.answered(state) == breaker.CLOSED


def test_late_failures_do_not_prolong_an_opening() -> None:
    state = breaker.CLOSED
    for _ in range(9):
        state = _fail(state, 0.0)
    assert (state.until, state.openings) == (60.0, 1)


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in breaker.COUNTED])
def test_other_reasons_do_not_count(reason: Reason) -> None:
    state = breaker.CLOSED
    for _ in range(20):
        state = _fail(state, 0.0, reason)
    assert state == breaker.CLOSED


@pytest.mark.parametrize("reason", HOSTLY)
def test_counted_reasons_are_about_hosts(reason: Reason) -> None:
    assert REASONS[reason].scope == "host"


def test_openings_are_capped() -> None:
    state = breaker.CLOSED
    now = 0.0
    for _ in range(60):
        state = _fail(state, now)
        now = max(now, state.until)
    assert state.until - now <= breaker.MAX_OPEN_S


# Retries.


def test_backoff_doubles_into_longer_tiers() -> None:
    waits = [
        after_failure(Reason.CONNECT, attempt, tiers_s=RETRY_TIERS_S, jitter=0.0)
        for attempt in range(1, 6)
    ]
    assert waits == [(0, 30.0), (1, 60.0), (1, 120.0), (2, 240.0), None]


@pytest.mark.parametrize("reason", list(Reason))
def test_the_table_bounds_attempts(reason: Reason) -> None:
    row = REASONS[reason]
    attempt = 1
    while after_failure(reason, attempt, tiers_s=RETRY_TIERS_S, jitter=0.5):
        attempt += 1
    assert attempt == (row.max_attempts if row.retriable else 1)


@forall(
    st.sampled_from([r for r in Reason if REASONS[r].retriable]),
    st.integers(1, 20),
    st.floats(0, 0.999),
    st.floats(0, 100_000),
)
def test_retries_are_never_early(
    reason: Reason, attempt: int, jitter: float, at_least: float
) -> None:
    retry = after_failure(
        reason, attempt, tiers_s=RETRY_TIERS_S, jitter=jitter, at_least_s=at_least
    )
    if retry is not None:
        assert retry.wait_s >= at_least
        assert 0 <= retry.tier < len(RETRY_TIERS_S)
        if retry.tier < len(RETRY_TIERS_S) - 1:
            assert retry.wait_s <= longest_wait_s(retry.tier, RETRY_TIERS_S)
        assert retry.wait_s <= max(at_least, RETRY_TIERS_S[-1]) * 1.2


def test_tiers_scale_all_waits() -> None:
    tiers = (1.0, 2.0, 4.0, 8.0, 16.0)
    assert scale_of(tiers) == 1 / 30
    assert after_failure(Reason.CONNECT, 1, tiers_s=tiers, jitter=0.0) == (0, 1.0)
    assert tier_for(3.0, tiers) == 2
    assert tier_for(99.0, tiers) == 4


# Concurrency.


CALM = Sample(finished=100, timeouts=0, lag_s=0.0, memory=0.0, busy=True)


@pytest.mark.parametrize(
    ("sample", "limit"),
    [
        (CALM, 72),
        (CALM._replace(busy=False), 64),
        (CALM._replace(timeouts=60), 44),
        (CALM._replace(finished=10, timeouts=10, busy=False), 64),
        (CALM._replace(lag_s=0.5), 44),
        (CALM._replace(memory=0.95), 44),
    ],
)
def test_concurrency(sample: Sample, limit: int) -> None:
    assert adapt(64, sample, ceiling=128) == limit


def test_concurrency_stays_between_its_bounds() -> None:
    low = high = 64
    for _ in range(50):
        low = adapt(low, CALM._replace(lag_s=1.0), ceiling=64)
        high = adapt(high, CALM, ceiling=64)
    assert (low, high) == (LEAST, 64)
    assert adapt(2, CALM._replace(lag_s=1.0), ceiling=2) == 2


# Retry-After.


@pytest.mark.parametrize(("value", "expected"), given("rty-01"))
def test_rty_01(value: str, expected: float) -> None:
    bounds = case("rty-01")["input"]
    now = http_date(bounds["now"])
    assert now is not None
    wait = wait_s(value, date=None, now=now, cap_s=bounds["cap_s"])
    assert (bounds["default_s"] if wait is None else wait) == expected


def test_clk_03_a_date_is_measured_against_the_server_s_own() -> None:
    given_ = case("clk-03")["input"]
    headers = given_["response_headers"]
    now = http_date(given_["our_clock"])
    assert now is not None
    wait = wait_s(headers["Retry-After"], date=headers["Date"], now=now)
    assert wait == case("clk-03")["expected"]["wait_s"]


@pytest.mark.parametrize("date", ["Thu, 01 Jan 1970 00:00:00 GMT", "junk", "", None])
def test_a_date_that_cannot_be_is_not_used(date: str | None) -> None:
    now = http_date("Wed, 21 Oct 2015 07:28:00 GMT")
    assert now is not None
    assert wait_s("Wed, 21 Oct 2015 07:29:00 GMT", date=date, now=now) == 60


@forall(st.text(max_size=40))
def test_no_value_raises(value: str) -> None:
    wait = wait_s(value, date=value, now=1.0)
    assert wait is None or 0 <= wait <= 3600


# Cookies.


def test_cok_01_odd_names_and_values() -> None:
    jar = CookieJar()
    jar.store("http://a.example/", "a.example", case("cok-01")["input"]["set_cookie_headers"], 0.0)
    sent = jar.field("http://a.example/", "a.example", 1.0).split("; ")
    for wanted in ("lb{9F}=1", "cnt(s)y(q)=2", "_tok/link=3", 'g={"i":0,"j":1}', "z=26"):
        assert wanted in sent
    assert len(sent) == 5


@pytest.mark.parametrize(("host", "attribute", "expected"), given("cok-03"))
def test_cok_03_domains(host: str, attribute: str, expected: str) -> None:
    name, _, port = host.partition(":")
    url = f"https://{host}/"
    line = "s=1" if attribute == "(none)" else f"s=1; {attribute}"
    jar = CookieJar()
    jar.store(url, name, [line], 0.0)
    if expected == "rejected":
        assert jar.field(url, name, 1.0) == ""
    else:
        assert jar.field(url, name, 1.0) == "s=1"
        if port:
            assert jar.field(f"https://{name}/", name, 1.0) == "s=1"


@pytest.mark.parametrize(
    ("line", "url", "sent"),
    [
        ("s=1; Path=/a", "http://a.example/a/b", True),
        ("s=1; Path=/a", "http://a.example/ab", False),
        ("s=1; Secure", "http://a.example/", False),
        ("s=1; Max-Age=0", "http://a.example/", False),
        ("s=1; Max-Age=10", "http://a.example/", True),
        ("s=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT", "http://a.example/", False),
        ("s=1; Domain=a.example", "http://sub.a.example/", True),
        ("s=1", "http://sub.a.example/", False),
        ("s=1\x00", "http://a.example/", False),
    ],
)
def test_where_a_cookie_goes(line: str, url: str, sent: bool) -> None:
    now = 2_000_000_000.0
    jar = CookieJar()
    jar.store("http://a.example/", "a.example", [line], now)
    host = url.split("/")[2]
    assert (jar.field(url, host, now + 1) == "s=1") is sent


def test_a_later_cookie_replaces_an_earlier_one() -> None:
    jar = CookieJar()
    jar.store("http://a.example/", "a.example", ["s=1", "s=2"], 0.0)
    assert jar.field("http://a.example/", "a.example", 1.0) == "s=2"


def test_huge_cookies_are_not_kept() -> None:
    assert parse_cookie("a=" + "x" * 5_000, "http://a.example/", "a.example", 0.0) is None


def test_red_12_nothing_of_one_host_goes_to_another() -> None:
    jar = CookieJar()
    jar.store("https://a.example/", "a.example", ["s=1; Secure"], 0.0)
    sent = {}
    for row, _ in case("red-12")["input"]["rows"]:
        target = row.split(" -> ")[1]
        sent[target] = jar.field(target, target.split("/")[2].partition(":")[0], 1.0)
    assert sent["https://b.example/"] == ""
    assert sent["http://a.example/"] == ""
    assert sent["https://a.example/y"] == "s=1"


# Outcomes.


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("text/html", True),
        ("application/rss+xml", True),
        ("application/ld+json", True),
        ("application/pdf", True),
        ("image/png", False),
        ("video/mp4", False),
        ("application/zip", False),
        ("", True),
    ],
)
def test_default_accept_list(kind: str, wanted: bool) -> None:
    assert accepts(CrawlSpec(crawl="c").accept, kind) is wanted


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Text/HTML; charset=x", "text/html"),
        ("text/html,text/html", ""),
        ("junk", ""),
        ("", ""),
        (" application/xhtml+xml ;q", "application/xhtml+xml"),
    ],
)
def test_media_type(value: str, expected: str) -> None:
    assert media_type((("content-type", value),)) == expected


def test_statuses_and_bodies() -> None:
    html = (("content-type", "text/html"),)
    accept = CrawlSpec(crawl="c").accept
    assert judge_status(200, accept, html) is True
    assert judge_status(304, accept, html) is False
    assert judge_status(301, accept, (("location", "/x"),)) is False
    assert judge_status(301, accept, html) is True
    assert judge_status(404, accept, html) is Reason.HTTP_4XX
    assert judge_status(200, accept, (("content-type", "image/png"),)) is Reason.CONTENT_TYPE


def _location(raw: str) -> str:
    return raw.partition("Location: ")[2].partition("\r\n")[0]


@pytest.mark.parametrize(("raw", "expected"), given("red-01"))
def test_red_01_raw_bytes_are_encoded_as_they_are(raw: str, expected: str) -> None:
    target = resolve_location(_location(raw), case("red-01")["input"]["request"])
    assert isinstance(target, CrawlUrl)
    assert path_of(target.href) == expected


def test_red_13_an_empty_base_path() -> None:
    target = resolve_location("phone.html", "https://a.example/")
    assert target == CrawlUrl("https://a.example/phone.html", "a.example")


RULES = compile_rules(CrawlSpec(crawl="c"))


def _redirect(url: str, *locations: str, **changes: Any) -> Any:
    headers = tuple(("location", location) for location in locations)
    return judge_redirect(RULES, request_for(url, **changes), 302, headers)


def test_red_06_the_first_location_counts() -> None:
    redirect = _redirect("http://a.example/x", "/a1", "/a2")
    assert redirect.target.href == "http://a.example/a1"


@pytest.mark.parametrize(
    ("location", "depth", "followed", "same"),
    [
        ("/y", 1, True, False),
        ("https://a.example/x", 1, True, False),
        ("https://www.a.example/x", 1, False, False),
        ("https://www.a.example/x", 0, True, False),
        ("https://b.example/x", 0, False, False),
        ("http://a.example/x#frag", 1, False, True),
        ("http://A.EXAMPLE:80/x?utm_source=1", 1, False, True),
        ("//a.example/%78", 1, False, True),
    ],
)
def test_where_redirects_may_lead(location: str, depth: int, followed: bool, same: bool) -> None:
    redirect = _redirect("http://a.example/x", location, depth=depth)
    assert isinstance(redirect, Redirect)
    assert (redirect.followed, redirect.same) == (followed, same)


def test_a_seed_s_redirect_moves_the_scope() -> None:
    redirect = _redirect("http://a.example/", "https://www.a.example/", depth=0)
    assert redirect.scope_host == "www.a.example"


def test_no_location_is_no_redirect() -> None:
    assert _redirect("http://a.example/") is None
    assert _redirect("http://a.example/", "") is None
