"""What the contract asks of the Avro schemas, stated once for all of its tests."""

from __future__ import annotations

import hashlib
import io
import json
from functools import cache
from typing import Any

import avro.compatibility
import avro.io
import avro.schema
from hypothesis import strategies as st

Raw = dict[str, Any]


def official(raw: Raw) -> avro.schema.Schema:
    """A schema as Apache's own library parses it."""
    return _parsed(json.dumps(raw))


@cache
def _parsed(text: str) -> avro.schema.Schema:
    return avro.schema.parse(text)


def official_bytes(raw: Raw, record: Any) -> bytes:
    """The body of a record as Apache's own library writes it."""
    out = io.BytesIO()
    avro.io.DatumWriter(official(raw)).write(record, avro.io.BinaryEncoder(out))
    return out.getvalue()


def official_record(raw: Raw, body: bytes) -> Any:
    """A record as Apache's own library reads it; every octet must be used."""
    source = io.BytesIO(body)
    record = avro.io.DatumReader(official(raw)).read(avro.io.BinaryDecoder(source))
    assert not source.read(1)
    return record


def breaks(older: Raw, newer: Raw) -> list[str]:
    """Why two versions are not fully compatible; empty when they are.

    FULL: readers of the newer version read what the older wrote, and the other way round.
    """
    checker = avro.compatibility.ReaderWriterCompatibilityChecker
    found = []
    for reader, writer, which in ((newer, older, "backward"), (older, newer, "forward")):
        check = checker()  # type: ignore[no-untyped-call]  # avro leaves its constructor untyped
        result = check.get_compatibility(official(reader), official(writer))
        if result.compatibility is not avro.compatibility.SchemaCompatibilityType.compatible:
            messages = sorted(result.messages or {"no reason given"})
            found.append(f"{which}: {'; '.join(map(str, messages))}")
    return found


def content_digest(raw: Raw) -> str:
    """Digest of all that a schema says to machines: everything but `doc`."""
    text = json.dumps(_without_docs(raw), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _without_docs(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_docs(value) for key, value in node.items() if key != "doc"}
    if isinstance(node, list):
        return [_without_docs(item) for item in node]
    return node


_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=8),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
}


def records(node: Any) -> st.SearchStrategy[Any]:
    """Values of a schema."""
    if isinstance(node, list):
        return st.one_of([records(branch) for branch in node])
    if isinstance(node, str):
        return _PRIMITIVES[node]
    kind = node["type"]
    if kind == "record":
        return st.fixed_dictionaries(
            {field["name"]: records(field["type"]) for field in node["fields"]}
        )
    if kind == "array":
        return st.lists(records(node["items"]), max_size=2)
    if kind == "map":
        return st.dictionaries(_PRIMITIVES["string"], records(node["values"]), max_size=2)
    if kind == "fixed":
        return st.binary(min_size=node["size"], max_size=node["size"])
    return records(kind)


def fields_of(node: Any, path: str = "") -> list[tuple[str, Raw]]:
    """All fields of a schema with their dotted paths, nested records included."""
    if isinstance(node, list):
        return [found for branch in node for found in fields_of(branch, path)]
    if not isinstance(node, dict):
        return []
    found: list[tuple[str, Raw]] = []
    for field in node.get("fields", ()):
        name = f"{path}.{field['name']}"
        found.append((name, field))
        found += fields_of(field["type"], name)
    for key in ("type", "items", "values"):
        if not isinstance(node.get(key), str):
            found += fields_of(node.get(key), path)
    return found
