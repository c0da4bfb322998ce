"""The case list's URLs and hosts (url-, idna-, inf-03, ssr-03)."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from schemas.reasons import Reason
from schemas.url import IGNORED_PARAMS, normal_form, path_of
from tests.cases import case, given, ids
from tests.unit.schemas.urls import assert_dedup, fetched, host_of, normal, refused


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
