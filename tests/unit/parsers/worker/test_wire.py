from __future__ import annotations

import json

import fastavro
import pytest

from parsers.worker import wire
from parsers.worker.encode import encode_record
from schemas.codec import decode, encode, versions
from schemas.topics import MAX_MESSAGE_BYTES, RECORDS, URLS
from tests.unit.parsers.parsing import fetch_result, parsed


def test_frames_survive_any_cutting() -> None:
    sent = [
        wire.Frame(wire.Kind.DOCUMENT, 7, b"x" * 300),
        wire.Frame(wire.Kind.READY, 0, b""),
        wire.Frame(wire.Kind.DONE, 1 << 40, bytes(range(256))),
    ]
    stream = b"".join(wire.frame(*one) for one in sent)
    for size in (1, 2, 13, 14, 100, len(stream)):
        frames = wire.Frames()
        got = [
            one for at in range(0, len(stream), size) for one in frames.feed(stream[at : at + size])
        ]
        assert got == sent


def test_messages_survive() -> None:
    messages = [wire.Message(RECORDS, b"k" * 16, b"v"), wire.Message(URLS, b"", b"")]
    facts = {"counts": {"records": 1}, "kind": "html"}
    assert wire.unpack_messages(wire.pack_messages(facts, messages)) == (facts, messages)


@pytest.mark.parametrize("crawl", ["c", "default", "x" * 64, "ä" * 100])
def test_the_crawl_of_a_message_is_found_without_decoding(crawl: str) -> None:
    assert wire.crawl_of(encode("fetch-result", fetch_result(b"x", crawl=crawl))) == crawl


def test_messages_that_are_no_results_have_no_crawl() -> None:
    message = encode("fetch-result", fetch_result(b"x"))
    assert wire.crawl_of(None) is None
    assert wire.crawl_of(b"") is None
    assert wire.crawl_of(message[:10]) is None
    assert wire.crawl_of(message[:11]) is None
    assert wire.crawl_of(message[:10] + b"\xff\xff\xff\xff\xff") is None
    assert wire.crawl_of(encode("record", parsed(b"x").record)) is None


def test_the_crawl_is_the_first_field_in_every_version() -> None:
    for version in versions("fetch-result"):
        assert version.raw["fields"][0] == {
            "name": "crawl",
            "type": "string",
            "doc": version.raw["fields"][0]["doc"],
        }
        assert fastavro.parse_schema(version.raw)


def test_a_record_always_fits_its_topic() -> None:
    record = parsed(b"x").record
    record["text"] = "\U0001f600" * 1_000_000
    record["main_text"] = "\U0001f600" * 400_000
    record["outlinks"] = [
        {"url": f"http://a.example/{at}" + "é" * 900, "anchor": "", "rel": "", "element": "a"}
        for at in range(900)
    ]
    value = encode_record(record).value
    assert len(value) < MAX_MESSAGE_BYTES
    read = decode("record", value)
    assert read["issues"] == ["record_capped"]
    assert read["truncated"]
    assert read["text"]


def test_facts_are_json() -> None:
    packed = wire.pack_messages({"a": "é"}, [])
    assert json.loads(packed[4:]) == {"a": "é"}
