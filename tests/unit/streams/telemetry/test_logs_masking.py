"""No secret reaches a log line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.settings import load
from streams.telemetry.logs import mask, secrets_of


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://user:pw@a.example/x", "https://***@a.example/x"),
        ("https://token@a.example/x", "https://***@a.example/x"),
        ("kafka://u:p@h:1,kafka://u:p@i:1", "kafka://***@h:1,kafka://***@i:1"),
        ("/p?access_token=abc&page=2", "/p?access_token=***&page=2"),
        ("/p?page=2&X-Amz-Signature=0f#frag", "/p?page=2&X-Amz-Signature=***#frag"),
        ("/p?key=AIza0&q=1", "/p?key=***&q=1"),
        ("/p?API-Key=1;apikey=2", "/p?API-Key=***;apikey=***"),
        ("'/p?password=hunter2'", "'/p?password=***'"),
        ('{"url": "/p?sid=1", "n": 2}', '{"url": "/p?sid=***", "n": 2}'),
        ("/p?PHPSESSION_ID=1", "/p?PHPSESSION_ID=***"),
    ],
)
def test_credentials_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "https://a.example/?q=token&keyword=x&monkey=1&author=me&page=2",
        "https://a.example/user@host",
        "mail someone@a.example about https://a.example/",
        "key=value outside of a query",
        "/p?token=",
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    assert mask(text) == text


def test_secrets_of_settings_are_masked_in_both_spellings() -> None:
    loaded = load({"KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": 'hun"ter'})
    secrets = secrets_of(loaded)
    assert mask('plain hun"ter', secrets) == "plain ***"
    assert mask('{"x": "hun\\"ter"}', secrets) == '{"x": "***"}'


def test_without_secrets_there_is_nothing_to_mask() -> None:
    assert secrets_of(load({})) == ()


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_masking_is_idempotent(text: str) -> None:
    once = mask(text)
    assert mask(once) == once


@settings(max_examples=50, deadline=None)
@given(
    st.text(alphabet=st.characters(categories=["L", "N"]), min_size=4),
    st.text(),
    st.text(),
)
def test_no_secret_survives(secret: str, before: str, after: str) -> None:
    assert secret not in mask(before + secret + after, (secret,)).replace("***", "\0")
