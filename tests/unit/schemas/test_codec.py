from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.errors import ContractError, DecodeError, UnknownSchemaError

QUICK = settings(max_examples=25, deadline=None, database=None)
PROGRESS: dict[str, Any] = {
    "stage": "parser",
    "topic": "fetch-results",
    "partition": 3,
    "crawl": "c",
    "offset": 2**40,
    "at": 1_700_000_000_000,
    "counters": {"pages": 2},
}


def test_the_header_is_magic_and_fingerprint() -> None:
    data = codec.encode("progress", PROGRESS)
    assert data[:2] == b"\xc3\x01" == codec.MAGIC
    assert data[: codec.HEADER_BYTES] == codec.versions("progress")[-1].header
    assert codec.decode("progress", data) == PROGRESS
    assert codec.schema_of(data) == "progress"


def test_every_schema_file_belongs_to_a_name_and_counts_from_1() -> None:
    headers = set()
    for name in codec.NAMES:
        found = codec.versions(name)
        assert [version.version for version in found] == list(range(1, len(found) + 1))
        headers |= {version.header for version in found}
    assert len(headers) == sum(len(codec.versions(name)) for name in codec.NAMES)


def test_no_such_schema() -> None:
    with pytest.raises(KeyError):
        codec.versions("nonsense")


@pytest.mark.parametrize("name", codec.NAMES)
@QUICK
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_contract_error_or_a_record(name: str, data: bytes) -> None:
    with pytest.raises(DecodeError):
        codec.decode(name, data)
    body = codec.versions(name)[-1].header + data
    try:
        record = codec.decode(name, body)
    except DecodeError:
        return
    assert isinstance(record, dict)


@QUICK
@given(st.binary(min_size=8, max_size=8), st.binary(max_size=20))
def test_an_unknown_fingerprint(fingerprint: bytes, rest: bytes) -> None:
    with pytest.raises(UnknownSchemaError, match=fingerprint.hex()):
        codec.decode("record", codec.MAGIC + fingerprint + rest)
    assert codec.schema_of(codec.MAGIC + fingerprint + rest) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc3",
        codec.MAGIC,
        codec.MAGIC + b"1234567",
        b"https://a.example/",
        b"{}",
        b"\x00" * 40,
    ],
)
def test_bytes_that_are_no_single_object(data: bytes) -> None:
    with pytest.raises(DecodeError, match="not an Avro single object"):
        codec.decode("url-batch", data)
    assert codec.schema_of(data) is None


def test_every_cut_is_a_decode_error() -> None:
    data = codec.encode("progress", PROGRESS)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            codec.decode("progress", data[:end])


@pytest.mark.parametrize("tail", [b"\x00", b"x" * 100])
def test_bytes_after_the_end(tail: bytes) -> None:
    with pytest.raises(DecodeError, match="after the end"):
        codec.decode("progress", codec.encode("progress", PROGRESS) + tail)


@QUICK
@given(st.integers(codec.HEADER_BYTES, 60), st.integers(0, 255))
def test_a_flipped_octet_is_at_worst_a_decode_error(at: int, octet: int) -> None:
    data = bytearray(codec.encode("progress", PROGRESS))
    data[at % len(data)] = octet
    try:
        codec.decode("progress", bytes(data))
    except ContractError:
        return
    assert (
        at % len(data) >= codec.HEADER_BYTES
        or bytes(data[:10]) == codec.versions("progress")[-1].header
    )


def test_another_schema_than_expected_is_named() -> None:
    with pytest.raises(DecodeError, match="a progress where a record was expected"):
        codec.decode("record", codec.encode("progress", PROGRESS))


def test_huge_lengths_and_counts_cost_nothing() -> None:
    header = codec.versions("progress")[-1].header
    for number in (2**62, -(2**62), 2**31, -1):
        zigzag = (number << 1) ^ (number >> 63)
        varint = bytearray()
        while zigzag > 0x7F:
            varint.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        varint.append(zigzag)
        as_string = header + bytes(varint) + b"abc"
        as_map = header + b"\x02a\x02b\x02\x02c\x02\x02" + bytes(varint) + b"\x02d"
        for data in (as_string, as_map):
            with pytest.raises(DecodeError):
                codec.decode("progress", data)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {**PROGRESS, "stage": 5},
        {**PROGRESS, "stage": None},
        {**PROGRESS, "partition": "x"},
        {**PROGRESS, "counters": {"pages": "x"}},
        {**PROGRESS, "stage": "\ud800"},
        {key: value for key, value in PROGRESS.items() if key != "offset"},
    ],
)
def test_a_record_that_does_not_fit_is_the_writers_bug(broken: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        codec.encode("progress", broken)


# ---- a second version: what the machinery does once there is one


@contextmanager
def second_version(raw: dict[str, Any]) -> Iterator[codec.SchemaVersion]:
    first = codec.versions("progress")[0]
    crc = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(raw), "CRC-64-AVRO")
    parsed = fastavro.parse_schema(json.loads(json.dumps(raw)))
    second = codec.SchemaVersion("progress", 2, raw, parsed, codec.MAGIC + bytes.fromhex(crc))
    patch = pytest.MonkeyPatch()
    caches = (codec._by_header, codec._newest)
    original = codec.versions
    patch.setattr(
        codec, "versions", lambda name: (first, second) if name == "progress" else original(name)
    )
    for cached in caches:
        cached.cache_clear()
    try:
        yield second
    finally:
        patch.undo()
        for cached in caches:
            cached.cache_clear()


def with_field(field: dict[str, Any]) -> dict[str, Any]:
    raw = copy.deepcopy(codec.versions("progress")[0].raw)
    raw["fields"].append(field)
    return raw


def test_readers_accept_every_older_version_and_fill_in_defaults() -> None:
    old = codec.encode("progress", PROGRESS)
    added = {"name": "host", "type": "string", "default": "-", "doc": "x"}
    with second_version(with_field(added)) as second:
        assert codec.decode("progress", old) == {**PROGRESS, "host": "-"}
        new = codec.encode("progress", {**PROGRESS, "host": "h"})
        assert new[: codec.HEADER_BYTES] == second.header
        assert codec.decode("progress", new) == {**PROGRESS, "host": "h"}
        assert codec.schema_of(old) == codec.schema_of(new) == "progress"
        with pytest.raises(DecodeError):
            codec.decode("progress", old[:-1])
        with pytest.raises(DecodeError, match="after the end"):
            codec.decode("progress", old + b"\x00")
    with pytest.raises(UnknownSchemaError):
        codec.decode("progress", new)
