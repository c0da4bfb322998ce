from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import codec
from schemas.errors import DecodeError, UnknownSchemaError
from schemas.records import UrlBatch
from streams.dedup.seeds import read, seed_batch, seed_payload


def urls(value: bytes) -> list[tuple[str, str, int]]:
    return [
        (batch["crawl"], link["url"], link["priority"])
        for batch in read(value)
        for link in batch["links"]
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(b"https://a.example/", [("default", "https://a.example/", 0)], id="text"),
        pytest.param(
            b"https://a.example/\r\n\n  https://b.example/x \n",
            [("default", "https://a.example/", 0), ("default", "https://b.example/x", 0)],
            id="lines",
        ),
        pytest.param(
            "\ufeffhttps://a.example/ü".encode(), [("default", "https://a.example/ü", 0)], id="bom"
        ),
        pytest.param(b'"https://a.example/"', [("default", "https://a.example/", 0)], id="string"),
        pytest.param(
            b'{"url": "https://a.example/", "crawl": "c1", "priority": 5}',
            [("c1", "https://a.example/", 5)],
            id="object",
        ),
        pytest.param(
            b'{"url": "https://a.example/", "urls": ["https://b.example/"]}',
            [("default", "https://a.example/", 0), ("default", "https://b.example/", 0)],
            id="both",
        ),
        pytest.param(
            b'["https://a.example/", {"url": "https://b.example/", "crawl": "c2"}]',
            [("default", "https://a.example/", 0), ("c2", "https://b.example/", 0)],
            id="array",
        ),
    ],
)
def test_accepted_forms(value: bytes, expected: list[tuple[str, str, int]]) -> None:
    assert urls(value) == expected


def test_plain_seeds_are_depth_0_of_their_own_host() -> None:
    [batch] = read(b"https://a.example/")
    assert (batch["via"], batch["depth"], batch["host"], batch["scope_host"]) == ("seed", 0, "", "")


def test_avro_is_read_as_it_stands() -> None:
    batch: UrlBatch = seed_batch("c", [])
    assert read(codec.encode("url-batch", batch)) == [batch]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" \n\t",
        b"\xff\xfe",
        b"\xc3\x01",
        b"\xc3\x01" + codec.encode("url-batch", seed_batch("c", []))[2:] + b"x",
        codec.encode("url-batch", {**seed_batch("c", []), "depth": -1}),
        b"{",
        b"[]",
        b"{}",
        b"[1]",
        b'{"url": 1}',
        b'{"urls": "https://a.example/"}',
        b'{"url": "https://a.example/", "crawl": ""}',
        b'{"url": "https://a.example/", "crawl": "\\ud800"}',
        b'{"url": "https://a.example/", "priority": true}',
        b'{"url": "https://a.example/", "priority": 99999999999}',
        b'{"url": "https://a.example/", "depht": 1}',
        b"[" * 100_000,
    ],
)
def test_undecodable(value: bytes) -> None:
    with pytest.raises(DecodeError):
        read(value)


def test_newer_schema_is_told_apart_from_garbage() -> None:
    with pytest.raises(UnknownSchemaError):
        read(b"\xc3\x01" + bytes(8) + b"body")


@given(st.binary(max_size=200))
def test_any_bytes_are_batches_or_a_typed_error(value: bytes) -> None:
    try:
        batches = read(value)
    except (DecodeError, UnknownSchemaError):
        return
    assert all(batch["links"] for batch in batches)


@given(
    st.sampled_from(["default", "c1"]),
    st.lists(st.text(alphabet=st.characters(exclude_categories=()), max_size=30), min_size=1),
)
def test_payload_of_a_dead_letter_reads_back(crawl: str, seeds: list[str]) -> None:
    payload = seed_payload(crawl, seeds)
    if payload.startswith(b"{"):
        assert json.loads(payload) == {"crawl": crawl, "urls": seeds}
        assert urls(payload) == [(crawl, seed, 0) for seed in seeds]
    else:
        assert [payload.decode()] == seeds
