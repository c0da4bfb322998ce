"""A record as people and programs outside read it: a JSON line, or a short line of text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from streams.telemetry.plain import plain

_JSON_FIELDS: Final = (
    *("json_ld", "microdata", "rdfa", "opengraph", "microformats"),
    "extracted",
)
_EMPTY: Final = frozenset({"[]", "{}"})


def to_json(record: Mapping[str, Any], fields: Sequence[str] = ()) -> dict[str, Any]:
    """A decoded record as JSON has it.

    Bytes (ids, hashes) become lower-case hexadecimal. Fields that hold JSON text (`_JSON_FIELDS`)
    become what they hold, or stay text when they do not parse, or hold what a file cannot: half a
    surrogate pair, a number that is none.
    Instants stay integer milliseconds since the epoch.

    Args:
        record: as decoded from its topic.
        fields: names to keep, in this order; empty: all.
    """
    names = fields or tuple(record)
    return {name: _json_value(name, record[name]) for name in names}


def line(record: Mapping[str, Any]) -> bytes:
    """What `to_json` makes of a whole record, as one line of UTF-8 without spaces, with its end.

    The text of the fields that hold JSON is taken over as it is.
    """
    row = dict(record)
    for name in _JSON_FIELDS:
        text = row.get(name)
        if isinstance(text, str):
            row[name] = _embedded(text)
    return orjson.dumps(row, default=_hexadecimal, option=orjson.OPT_APPEND_NEWLINE)


def brief(record: Mapping[str, Any]) -> str:
    """A record in one short line, for people."""
    what = record["title"] or record["location"] or record["content_type"]
    return plain(f"{record['status']} {record['kind']:<8} {record['url']}  {what[:80]}".rstrip())


def unknown_fields(fields: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names that no record has."""
    return sorted(set(fields) - set(known))


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if name in _JSON_FIELDS and isinstance(value, str):
        try:
            held = _DECODER.decode(value)
            # Half a surrogate pair, or a number beyond all: neither UTF-8 nor JSON has them.
            _ENCODER.encode(held).encode()
        except (ValueError, RecursionError):
            return value
        return held
    return value


def _embedded(text: str) -> Any:
    """JSON text as a part of a line: itself, read over again, or the text that it is."""
    if text in _EMPTY:
        return orjson.Fragment(text)
    try:
        orjson.loads(text)
        if "\n" not in text and "\r" not in text:
            return orjson.Fragment(text)
    except ValueError:  # it is stricter than the standard library's
        pass
    try:
        return orjson.Fragment(_ENCODER.encode(_DECODER.decode(text)).encode())
    except (ValueError, RecursionError):
        return text


def _hexadecimal(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"a record holds no {type(value).__name__}")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
