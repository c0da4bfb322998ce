from __future__ import annotations

import io
from typing import Any

import fastavro
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.errors import DecodeError
from schemas.records import UrlBatch
from streams.dedup import fastread
from streams.dedup.fastread import read_batch
from streams.dedup.seeds import seed_batch

text = st.text(max_size=20)
long = st.integers(-(2**63), 2**63 - 1)
link = st.fixed_dictionaries(
    {
        "url": text | st.sampled_from(["a" * 63, "a" * 64, "a" * 8_191, "a" * 8_192]),
        "url_id": st.none() | st.binary(min_size=16, max_size=16),
        "priority": st.integers(-(2**31), 2**31 - 1),
        "lastmod_at": st.none() | long,
    }
)
batches = st.fixed_dictionaries(
    {
        "crawl": text,
        "host": text,
        "via": text,
        "depth": st.integers(-(2**31), 2**31 - 1),
        "scope_host": text,
        "referrer": text,
        "redirects": st.lists(text, max_size=3),
        "seeded_at": long,
        "discovered_at": long,
        "sketch": st.none() | st.binary(min_size=20, max_size=20),
        "links": st.lists(link, max_size=3),
    }
)


def test_the_newest_schema_has_the_layout_that_is_read() -> None:
    fastread.check_layout()


@settings(max_examples=60, deadline=None)
@given(batches)
def test_equals_the_codec(batch: UrlBatch) -> None:
    assert read_batch(codec.encode("url-batch", batch)) == batch


def test_a_batch_of_the_first_version_is_read_without_a_sketch() -> None:
    first = codec.versions("url-batch")[0]
    batch = {**seed_batch("c", []), "referrer": "http://a.example/"}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, first.parsed, batch)
    assert read_batch(first.header + body.getvalue()) == {**batch, "sketch": None}


def outcome(read: Any, data: bytes) -> Any:
    try:
        return read(data)
    except DecodeError as error:
        return type(error)


WHOLE = codec.encode(
    "url-batch",
    {
        **seed_batch("c", [{"url": "u", "url_id": bytes(16), "priority": 1, "lastmod_at": 5}]),
        "sketch": b"a sketch of the page",
    },
)


@settings(max_examples=150, deadline=None)
@given(st.integers(10, len(WHOLE)), st.binary(max_size=4), st.integers(0, 4))
@example(len(WHOLE), b"x", 0)
@example(len(WHOLE) - 1, b"", 1)
def test_damaged_bytes_have_the_codecs_outcome(at: int, new: bytes, cut: int) -> None:
    data = WHOLE[:at] + new + WHOLE[at + cut :]
    assert outcome(read_batch, data) == outcome(lambda raw: codec.decode("url-batch", raw), data)


def test_arrays_in_blocks_with_sizes_are_left_to_the_codec() -> None:
    plain = codec.encode("url-batch", {**seed_batch("c", []), "redirects": ["a"]})
    # One block of one item: count 1 (0x02). The same with a size: count -1 (0x01), 2 bytes.
    sized = plain.replace(b"\x02\x02a\x00", b"\x01\x04\x02a\x00")
    assert sized != plain
    assert read_batch(sized)["redirects"] == ["a"]
