from __future__ import annotations

import copy
import io
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas import codec, records
from schemas.errors import DecodeError
from tests.contract import release_schemas
from tests.contract.schema_checks import (
    Raw,
    breaks,
    content_digest,
    fields_of,
    official,
    official_bytes,
    official_record,
)
from tests.contract.schema_checks import records as records_of

VERSIONS = [version for name in codec.NAMES for version in codec.versions(name)]
NAMED = pytest.mark.parametrize(
    "version", VERSIONS, ids=[f"{version.name}.{version.version}" for version in VERSIONS]
)
QUICK = settings(
    max_examples=8, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
SHAPES = {
    "url-batch": records.UrlBatch,
    "fetch-request": records.FetchRequest,
    "fetch-result": records.FetchResult,
    "record": records.Record,
    "dead-letter": records.DeadLetter,
    "crawl-spec": records.CrawlSpecRecord,
    "progress": records.Progress,
}


# ---- two libraries, one encoding


@NAMED
@QUICK
@given(data=st.data())
def test_bytes_are_those_of_apaches_library(
    version: codec.SchemaVersion, data: st.DataObject
) -> None:
    record = data.draw(records_of(version.raw))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, version.parsed, record)
    assert out.getvalue() == official_bytes(version.raw, record)
    assert official_record(version.raw, out.getvalue()) == record
    message = version.header + out.getvalue()
    decoded = codec.decode(version.name, message)
    assert {key: decoded[key] for key in record if key in decoded} == record
    if version == codec.versions(version.name)[-1]:
        assert codec.encode(version.name, record) == message
        assert decoded == record
    with pytest.raises(DecodeError):
        codec.decode(version.name, message[:-1])
    with pytest.raises(DecodeError):
        codec.decode(version.name, message + b"\x00")


@NAMED
def test_fingerprints_are_those_of_apaches_library(version: codec.SchemaVersion) -> None:
    assert version.header == codec.MAGIC + official(version.raw).fingerprint("CRC-64-AVRO")


def test_a_fingerprint_from_the_avro_specification() -> None:
    # The specification's own example: the CRC of "null" in little-endian order.
    crc = fastavro.schema.fingerprint('"null"', "CRC-64-AVRO")
    assert crc == official({"type": "null"}).fingerprint("CRC-64-AVRO").hex()
    assert int.from_bytes(bytes.fromhex(crc), "little") == 0x63DD24E7CC258F8A


# ---- compatibility


@NAMED
def test_every_version_is_fully_compatible_with_all_earlier_ones(
    version: codec.SchemaVersion,
) -> None:
    for earlier in codec.versions(version.name)[: version.version]:
        assert breaks(earlier.raw, version.raw) == []


def _edited(edit: Callable[[list[Raw]], object]) -> tuple[Raw, Raw]:
    raw = codec.versions("fetch-request")[0].raw
    newer = copy.deepcopy(raw)
    edit(newer["fields"])
    return raw, newer


def _field(fields: list[Raw], name: str) -> Raw:
    return next(field for field in fields if field["name"] == name)


@pytest.mark.parametrize(
    ("edit", "direction"),
    [
        pytest.param(
            lambda fields: fields.append({"name": "new", "type": "string"}),
            "backward",
            id="a new field without default",
        ),
        pytest.param(
            lambda fields: fields.remove(_field(fields, "url")),
            "forward",
            id="a field without default removed",
        ),
        pytest.param(
            lambda fields: _field(fields, "depth").update(type="string"),
            "backward",
            id="another type",
        ),
        pytest.param(
            lambda fields: _field(fields, "depth").update(type="long"), "forward", id="a wider type"
        ),
        pytest.param(
            lambda fields: _field(fields, "url").update(name="href"), "backward", id="another name"
        ),
        pytest.param(
            lambda fields: _field(fields, "url_id")["type"].update(size=20),
            "backward",
            id="another size",
        ),
        pytest.param(
            lambda fields: _field(fields, "url").update(type=["null", "string"]),
            "forward",
            id="null where there was none",
        ),
    ],
)
def test_an_incompatible_change_is_seen(
    edit: Callable[[list[Raw]], object], direction: str
) -> None:
    found = breaks(*_edited(edit))
    assert any(reason.startswith(direction) for reason in found)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda _: None, id="nothing"),
        pytest.param(
            lambda fields: fields.append({"name": "new", "type": "string", "default": ""}),
            id="a new field with default",
        ),
        pytest.param(
            lambda fields: fields.remove(_field(fields, "etag")), id="a field with default removed"
        ),
        pytest.param(lambda fields: fields.reverse(), id="another order"),
        pytest.param(lambda fields: _field(fields, "url").update(doc="x"), id="another doc"),
    ],
)
def test_a_compatible_change_is_let_through(edit: Callable[[list[Raw]], object]) -> None:
    assert breaks(*_edited(edit)) == []


# ---- released versions


def test_released_versions_are_as_they_were_released() -> None:
    now, before = release_schemas.current(), release_schemas.released()
    edited = sorted(key for key in before if before[key] != now.get(key))
    assert edited == [], f"see {release_schemas.__name__}: a released version is never edited"


def test_every_version_is_recorded_as_released() -> None:
    missing = sorted(release_schemas.current().keys() - release_schemas.released().keys())
    assert missing == [], "run python tests/contract/release_schemas.py"


def test_the_record_of_releases_sees_edits_and_ignores_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_schemas, "FILE", tmp_path / "released.json")
    assert release_schemas.main([]) == 0
    assert release_schemas.released() == release_schemas.current()
    now = release_schemas.current()
    old = copy.deepcopy(now)
    old["record.1"]["content"] = "0" * 32
    del old["progress.1"]
    (tmp_path / "released.json").write_text(json.dumps(old))
    assert release_schemas.main([]) == 1
    assert "record.1" in capsys.readouterr().out
    assert release_schemas.released() == old
    assert release_schemas.main(["--rewrite"]) == 0
    assert release_schemas.released() == now

    raw, documented = _edited(lambda fields: _field(fields, "url").update(doc="x"))
    assert content_digest(raw) == content_digest(documented)
    raw, defaulted = _edited(lambda fields: _field(fields, "etag").update(default="x"))
    assert content_digest(raw) != content_digest(defaulted)


# ---- what the files say


@NAMED
def test_names_and_docs(version: codec.SchemaVersion) -> None:
    raw = version.raw
    assert raw["namespace"] == "crawlstream"
    assert raw["doc"]
    expected = "".join(part.title() for part in version.name.split("-"))
    assert raw["name"] == expected
    for path, field in fields_of(raw):
        doc = field.get("doc", "")
        assert doc.strip(), f"{path} has no doc"
        nullable = isinstance(field["type"], list) and "null" in field["type"]
        assert ("null:" in doc) is nullable, f"{path}: what does null mean?"
        if nullable:
            assert field["type"][0] == "null", f"{path}: null first, so that it can be the default"
            assert field.get("default", "") is None, f"{path}: null is the default"
        if path.endswith("_at"):
            assert field["type"] in ("long", ["null", "long"])
            assert "milliseconds since the epoch, UTC" in doc, f"{path}: unit?"
        if path.endswith("_ms"):
            assert "milliseconds" in doc, f"{path}: unit?"


def _matches(node: Any, hint: Any, path: str) -> list[str]:
    """Where a schema and the type of its decoded form differ."""
    if isinstance(node, list):
        branches = [branch for branch in node if branch != "null"]
        assert len(branches) == 1
        wanted = [arm for arm in get_args(hint) if arm is not types.NoneType]
        if get_origin(hint) not in (Union, types.UnionType) or len(wanted) != 1:
            return [f"{path}: {hint} for {node}"]
        return _matches(branches[0], wanted[0], path)
    kind = node["type"] if isinstance(node, dict) else node
    if kind == "record":
        hints = get_type_hints(hint)
        fields = {field["name"]: field["type"] for field in node["fields"]}
        found = [f"{path}.{name}: only in one" for name in fields.keys() ^ hints.keys()]
        for name in fields.keys() & hints.keys():
            found += _matches(fields[name], hints[name], f"{path}.{name}")
        return found
    if kind == "array":
        if get_origin(hint) is not list:
            return [f"{path}: {hint} for an array"]
        return _matches(node["items"], get_args(hint)[0], path)
    if kind == "map":
        if get_origin(hint) is not dict or get_args(hint)[0] is not str:
            return [f"{path}: {hint} for a map"]
        return _matches(node["values"], get_args(hint)[1], path)
    simple = {"string": str, "bytes": bytes, "fixed": bytes, "boolean": bool, "double": float}
    expected = simple.get(kind, int if kind in ("int", "long") else None)
    return [] if hint is expected else [f"{path}: {hint} for {kind}"]


@pytest.mark.parametrize("name", codec.NAMES)
def test_types_and_schemas_agree(name: str) -> None:
    assert _matches(codec.versions(name)[-1].raw, SHAPES[name], name) == []


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (lambda fields: fields.append({"name": "new", "type": "string"}), ".new"),
        (lambda fields: fields.remove(_field(fields, "etag")), ".etag"),
        (lambda fields: _field(fields, "etag").update(type="bytes"), ".etag"),
        (lambda fields: _field(fields, "lastmod_at").update(type="long"), ".lastmod_at"),
        (lambda fields: _field(fields, "redirects").update(type="string"), ".redirects"),
    ],
)
def test_a_disagreement_is_seen(edit: Callable[[list[Raw]], object], place: str) -> None:
    _, newer = _edited(edit)
    (found,) = _matches(newer, records.FetchRequest, "")
    assert found.startswith(f"{place}: ")


def test_shared_fields_are_defined_alike() -> None:
    by_schema = [
        dict(fields_of(codec.versions(name)[-1].raw))
        for name in ("fetch-request", "fetch-result", "record")
    ]
    shared = get_type_hints(records._Url)
    assert shared
    for name in shared:
        first, *others = [fields[f".{name}"] for fields in by_schema]
        assert others == [first, first]
