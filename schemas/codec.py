"""Records to bytes and back: Avro single-object encoding.

A message is `C3 01`, the 8-byte little-endian CRC-64-AVRO fingerprint of the writer's schema, and
the Avro body. Every version of every schema ships with the package as
`schemas/avsc/{name}.{version}.avsc`; writers use the newest, readers accept all. fastavro does
the work; the contract tests hold its bytes equal to those of Apache's own `avro`.
"""

from __future__ import annotations

import io
import json
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from schemas.errors import DecodeError, UnknownSchemaError

MAGIC: Final = b"\xc3\x01"
HEADER_BYTES: Final = 10
NAMES: Final = (
    "url-batch",
    "fetch-request",
    "fetch-result",
    "record",
    "dead-letter",
    "crawl-spec",
    "progress",
)


class SchemaVersion(NamedTuple):
    """One schema file: its name, version, JSON form, parsed form and wire header."""

    name: str
    version: int
    raw: dict[str, Any]
    parsed: Any
    header: bytes


@cache
def versions(name: str) -> tuple[SchemaVersion, ...]:
    """All versions of a schema, oldest first."""
    found = []
    for entry in resources.files("schemas").joinpath("avsc").iterdir():
        stem, _, number = entry.name.removesuffix(".avsc").rpartition(".")
        if stem == name and entry.name.endswith(".avsc"):
            raw = json.loads(entry.read_text(encoding="utf-8"))
            crc = fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO")
            header = MAGIC + bytes.fromhex(crc)
            parsed = fastavro.parse_schema(json.loads(json.dumps(raw)))
            found.append(SchemaVersion(name, int(number), raw, parsed, header))
    if not found:
        raise KeyError(name)
    return tuple(sorted(found, key=lambda version: version.version))


@cache
def _by_header() -> dict[bytes, SchemaVersion]:
    return {version.header: version for name in NAMES for version in versions(name)}


@cache
def _newest(name: str) -> SchemaVersion:
    return versions(name)[-1]


def encode(name: str, record: Any) -> bytes:
    """The bytes of a record under the newest version of schema `name`.

    Raises ValueError, TypeError or KeyError when the record does not fit: a bug of the writer.
    """
    newest = _newest(name)
    out = io.BytesIO()
    out.write(newest.header)
    fastavro.schemaless_writer(out, newest.parsed, record)
    return out.getvalue()


def decode(name: str, data: bytes) -> Any:
    """The record in bytes written under any version of schema `name`.

    Fields that the writer did not know have their defaults. Raises UnknownSchemaError for a
    fingerprint that is not ours and DecodeError for everything else that is not such a record.
    """
    newest = _newest(name)
    header = bytes(data[:HEADER_BYTES])
    if header == newest.header:
        writer, reader = newest.parsed, None
    else:
        version = _by_header().get(header)
        if version is None:
            if header[:2] == MAGIC and len(header) == HEADER_BYTES:
                raise UnknownSchemaError(f"no schema with fingerprint {header[2:].hex()}")
            raise DecodeError(f"not an Avro single object: starts with {header[:4].hex() or '-'}")
        if version.name != name:
            raise DecodeError(f"a {version.name} where a {name} was expected")
        writer, reader = version.parsed, newest.parsed
    body = io.BytesIO(data)
    body.seek(HEADER_BYTES)
    try:
        record = fastavro.schemaless_reader(body, writer, reader)
    except Exception as error:  # fastavro raises whatever the bytes lead it to
        raise DecodeError(f"broken {name}: {type(error).__name__}: {error}"[:300]) from error
    if body.read(1):
        raise DecodeError(f"bytes after the end of a {name}")
    return record


def schema_of(data: bytes) -> str | None:
    """Name of the schema that the bytes were written under, or None."""
    version = _by_header().get(bytes(data[:HEADER_BYTES]))
    return None if version is None else version.name
