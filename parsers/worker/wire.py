"""What a parser process and its parse processes say to each other, and how it is framed.

A frame is a header (payload length, kind, document number) and the payload. Both ends run the
same code from the same installation, so nothing here is versioned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

from schemas.codec import HEADER_BYTES, schema_of
from schemas.topics import RECORDS, URLS

HEADER: Final = Struct("<IBQ")
CURSOR: Final = Struct("<Q")
"""Number of the document in hand, in memory that both processes see; 0: none."""

_MESSAGE: Final = Struct("<BHI")
_META: Final = Struct("<I")
_TOPICS: Final = (RECORDS, URLS)


class Message(NamedTuple):
    """A message to produce, as `streams.delivery.stage.Out`.

    Parse processes do without that module: loading it would double the time that they take to
    start.
    """

    topic: str
    key: bytes
    value: bytes


class Kind(IntEnum):
    """Kinds of frames."""

    # to a parse process
    SPEC = 1
    """A crawl's spec, new or changed: JSON."""
    DOCUMENT = 2
    """A message of topic `fetch-results` as it is."""
    DELIVERED = 3
    """The links of these documents are in Kafka: their numbers."""
    # from a parse process
    READY = 10
    """It has started."""
    PART = 11
    """Link messages of a document still in work; empty: it makes progress."""
    DONE = 12
    """A document's last messages and its facts."""
    FAILED = 13
    """Why a document gave no record: JSON with `reason` and `detail`."""
    LATER = 14
    """The blob store did not answer: try the document again."""


class Frame(NamedTuple):
    """One frame; `number` is the document's."""

    kind: Kind
    number: int
    payload: bytes


class Frames:
    """Frames out of a byte stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that the bytes complete."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= HEADER.size:
            size, kind, number = HEADER.unpack_from(buffer, at)
            end = at + HEADER.size + size
            if len(buffer) < end:
                break
            yield Frame(Kind(kind), number, bytes(buffer[at + HEADER.size : end]))
            at = end
        del buffer[:at]


def frame(kind: Kind, number: int = 0, payload: bytes = b"") -> bytes:
    """The bytes of a frame."""
    return HEADER.pack(len(payload), kind, number) + payload


def pack_messages(facts: Any, messages: Sequence[Message]) -> bytes:
    """Facts (JSON) and messages of a document."""
    meta = json.dumps(facts, separators=(",", ":")).encode()
    parts = [_META.pack(len(meta)), meta]
    for topic, key, value in messages:
        parts.append(_MESSAGE.pack(_TOPICS.index(topic), len(key), len(value)))
        parts.append(key)
        parts.append(value)
    return b"".join(parts)


def unpack_messages(payload: bytes) -> tuple[Any, list[Message]]:
    """The inverse."""
    (size,) = _META.unpack_from(payload)
    at = _META.size + size
    facts = json.loads(payload[_META.size : at])
    messages = []
    while at < len(payload):
        topic, key_size, value_size = _MESSAGE.unpack_from(payload, at)
        at += _MESSAGE.size
        key = payload[at : at + key_size]
        at += key_size
        messages.append(Message(_TOPICS[topic], key, payload[at : at + value_size]))
        at += value_size
    return facts, messages


def crawl_of(message: bytes | None) -> str | None:
    """The crawl id in a message of topic `fetch-results`, or None when it is no such message.

    It is the first field of every version of the schema, which a test holds: so the message need
    not be decoded to know whose rules it needs.
    """
    if message is None or schema_of(message) != "fetch-result":
        return None
    size = shift = 0
    at = HEADER_BYTES
    for at in range(HEADER_BYTES, min(len(message), HEADER_BYTES + 3)):
        byte = message[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    text = message[at + 1 : at + 1 + (size >> 1)]
    try:
        return text.decode() if text and len(text) << 1 == size else None
    except UnicodeDecodeError:
        return None
