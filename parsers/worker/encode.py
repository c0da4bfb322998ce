"""Records and link batches to messages that fit their topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from parsers.worker.wire import Message
from schemas.codec import encode
from schemas.topics import MAX_MESSAGE_BYTES, RECORDS, URLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.records import Record, UrlBatch

_LIMIT: Final = MAX_MESSAGE_BYTES - 65_536
"""Leaves room for what Kafka and clients add."""


def encode_record(record: Record) -> Message:
    """The message of a record.

    The parts are capped one by one; where they are too much together (four-byte characters
    throughout, say), the largest go: then the record says `record_capped`.
    """
    value = encode("record", record)
    while len(value) > _LIMIT:
        _shrink(record)
        value = encode("record", record)
    return Message(RECORDS, record["url_id"], value)


def _shrink(record: Record) -> None:
    if "record_capped" not in record["issues"]:
        record["issues"] = sorted([*record["issues"], "record_capped"])
        record["truncated"] = True
    if len(record["text"]) > 200_000:
        record["text"] = record["text"][: len(record["text"]) // 2]
    elif record["outlinks"] or record["assets"]:
        record["outlinks"], record["assets"] = [], []
    elif len(record["text"]) + len(record["main_text"]) > 0:
        record["text"] = record["main_text"] = ""
    else:
        record["json_ld"] = record["microdata"] = "[]"
        record["rdfa"] = record["opengraph"] = record["microformats"] = "[]"
        record["extracted"] = "{}"
        record["entries"], record["headers"] = [], []


def encode_batches(batches: Iterable[UrlBatch]) -> list[Message]:
    """The messages of link batches."""
    return [Message(URLS, batch["host"].encode(), encode("url-batch", batch)) for batch in batches]
