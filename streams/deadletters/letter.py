"""Dead letters: a URL given up, or an unreadable message, as one message that always fits."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, Literal

from schemas.codec import encode
from schemas.reasons import REASONS, Reason
from schemas.topics import DEAD_LETTERS
from schemas.url import MAX_URL_CHARS
from streams.kafka.messages import Out, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.records import DeadLetter, FetchRequest, FetchResult

MAX_PAYLOAD_BYTES: Final = 1024 * 1024
"""Longest message that is repeated whole: with all other fields far below any topic's limit, and
large enough for every message of ours, since bodies inline are capped at less."""
HEAD_BYTES: Final = 4_096
"""How much of a longer message is kept."""
MAX_DETAIL_CHARS: Final = 1_000
_MAX_KEY_BYTES = 1_024
_MAX_WORD_CHARS = 256


def kind_of(reason: Reason) -> Literal["disregarded", "failed"]:
    """The kind of a dead letter, and the counter it belongs under (`{kind}.{reason}`).

    Reasons of kind `rejected` leave a dead letter only when the message that had them should not
    exist (a fetch request of an unknown crawl, say), so they count as failed.
    """
    return "disregarded" if REASONS[reason].kind == "disregarded" else "failed"


def dead_letter(
    delivery_source: Source,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    reason: Reason,
    stage: str,
    detail: str = "",
    request: FetchRequest | FetchResult | None = None,
    status: int = 0,
    attempts: int = 0,
    now_ms: int,
    payload_ref: str = "",
) -> Out:
    """The message for `dead-letters`. Never fails, whatever the bytes and texts are.

    A value beyond `MAX_PAYLOAD_BYTES` is cut to its first `HEAD_BYTES` and marked; its size and
    hash are those of the whole. Texts are cut to the lengths that the schema names.

    Args:
        delivery_source: origin topic (logical name) and partition.
        offset: of the message given up.
        key: its key as found; the dead letter has the same, so that a host stays together.
        value: the message as found; None (a tombstone) becomes an empty payload.
        reason: why.
        stage: dedup, fetcher or parser.
        detail: what the last failure said.
        request: the decoded message, when it could be decoded.
        status: HTTP status of the last response; 0: none.
        attempts: attempts made; 0: none.
        now_ms: when it was given up.
        payload_ref: key of the whole message in the blob store, when it was stored there.
    """
    payload = value or b""
    truncated = len(payload) > MAX_PAYLOAD_BYTES
    short_key = key if key is None or len(key) <= _MAX_KEY_BYTES else key[:_MAX_KEY_BYTES]
    known: Mapping[str, Any] = request or {}
    first_reason = str(known.get("first_reason", "")) or (reason.value if attempts else "")
    letter: DeadLetter = {
        "reason": reason.value,
        "kind": kind_of(reason),
        "stage": stage,
        "crawl": _cut(known.get("crawl", ""), _MAX_WORD_CHARS),
        "url_id": known.get("url_id"),
        "url": _cut(known.get("url", ""), MAX_URL_CHARS),
        "host": _cut(known.get("host", ""), _MAX_WORD_CHARS),
        "attempts": attempts,
        "first_reason": _cut(first_reason, _MAX_WORD_CHARS),
        "detail": _cut(detail, MAX_DETAIL_CHARS),
        "status": status,
        "first_attempt_at": known.get("first_attempt_at", 0),
        "dead_at": now_ms,
        "replays": known.get("replays", 0),
        "origin_topic": delivery_source.topic,
        "origin_partition": delivery_source.partition,
        "origin_offset": offset,
        "origin_key": short_key,
        "payload": payload[:HEAD_BYTES] if truncated else payload,
        "payload_truncated": truncated,
        "payload_bytes": len(payload),
        "payload_sha256": hashlib.sha256(payload).digest(),
        "payload_ref": payload_ref,
    }
    return Out(DEAD_LETTERS, short_key, encode("dead-letter", letter))


def _cut(text: object, limit: int) -> str:
    """At most `limit` characters that UTF-8 can carry."""
    return str(text)[:limit].encode("utf-8", "replace").decode("utf-8")
