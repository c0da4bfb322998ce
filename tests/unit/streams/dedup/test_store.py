from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from schemas.errors import ConfigError, InvariantError, TransientInfraError
from streams.dedup.folder import Folder
from streams.dedup.store import BLOOM_BITS_PER_KEY, BoundedOptions, Memory, SeenStore

MIB = 1024 * 1024


def store_of(path: Path, memory: Memory | None = None) -> SeenStore:
    conf = SimpleNamespace(table_key_index_size=100, tabledir=path)
    app: Any = SimpleNamespace(conf=conf)
    table: Any = SimpleNamespace(changelog_topic=SimpleNamespace(topics=["log"]))
    path.mkdir(parents=True, exist_ok=True)
    return SeenStore(
        "rocksdb://",
        app,
        table,
        table_name="seen",
        key_type=bytes,
        value_type=bytes,
        options={"driver": "rocksdict"},
        memory=memory or Memory(32 * MIB),
        partitions=4,
    )


def tp(partition: int) -> TP:
    return TP("log", partition)


def test_rows_and_their_offset_are_one_write_that_survives_without_a_close(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.write(1, [(b"a", b"1"), (b"b", b"2")], 7)
    store.write(1, [(b"a", None)], 8)
    store.retain(set())
    again = store_of(tmp_path)
    assert list(again.lookup(1, [b"a", b"b"])) == [None, b"2"]
    assert again.persisted_offset(tp(1)) == 8
    assert again.persisted_offset(tp(2)) is None


def _pair(text: str) -> tuple[str, str, str]:
    return text.partition("=")


@pytest.mark.parametrize("opening", ["first", "again"])
def test_options_take_effect_also_when_a_database_is_opened_again(
    tmp_path: Path, opening: str
) -> None:
    memory = Memory(32 * MIB)
    store = store_of(tmp_path, memory)
    store.write(0, [(os.urandom(16), b"x" * 12) for _ in range(20_000)], 1)
    if opening == "again":
        store.retain(set())
    db = store._db_for_partition(0)
    db.flush()
    assert db.property_int_value("rocksdb.block-cache-capacity") == 32 * MIB
    properties = db.property_value("rocksdb.aggregated-table-properties") or ""
    found = {name.strip(): value for name, _, value in map(_pair, properties.split(";"))}
    bits = 8 * int(found["filter block size"]) / int(found["# entries"])
    assert bits == pytest.approx(BLOOM_BITS_PER_KEY, rel=0.1)
    latest = max(store.partition_path(0).glob("OPTIONS-*")).read_text()
    assert "write_buffer_size=2097152" in latest
    assert "compression=kNoCompression" in latest
    assert "cache_index_and_filter_blocks=true" in latest


def test_ignored_options_stop_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(tmp_path)
    options = store.rocksdb_options
    assert isinstance(options, BoundedOptions)
    other = BoundedOptions(Memory(16 * MIB), 4)
    monkeypatch.setattr(options, "as_options", other.as_options)
    with pytest.raises(InvariantError, match="memory options"):
        store.lookup(0, [b"k"])


def test_memory_is_bounded_over_all_partitions(tmp_path: Path) -> None:
    memory = Memory(16 * MIB)
    store = store_of(tmp_path, memory)
    rng = os.urandom
    for _ in range(3):
        for partition in range(4):
            store.write(partition, [(rng(16), b"x" * 12) for _ in range(6_000)], 1)
    assert 0 < memory.used_bytes <= 16 * MIB
    deadline = time.monotonic() + 10
    while memory.write_buffers.get_usage() > 4 * MIB and time.monotonic() < deadline:
        time.sleep(0.01)
    assert memory.write_buffers.get_usage() <= 4 * MIB, "still above once flushed"
    assert store.estimated_keys == pytest.approx(72_000, rel=0.05)


def test_closing_releases_the_lock_at_once(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.write(0, [(b"a", b"1")], 1)
    other = store_of(tmp_path)
    with pytest.raises(Exception, match=r"(?i)lock"):
        other.lookup(0, [b"a"])
    store.revoke_partitions(store.table, {tp(0)})
    assert list(other.lookup(0, [b"a"])) == [b"1"]


def test_a_write_that_fails_is_an_infrastructure_fault(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.lookup(0, [b"a"])
    store._db_for_partition(0).close()
    with pytest.raises(TransientInfraError):
        store.write(0, [(b"a", b"1")], 1)


def test_wipe_begins_anew(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.write(0, [(b"a", b"1")], 1)
    store.verified.add(0)
    store.wipe(0)
    assert list(store.lookup(0, [b"a"])) == [None]
    assert store.persisted_offset(tp(0)) is None
    assert store.verified == set()


def test_two_workers_get_two_folders_and_a_restarted_one_its_own(tmp_path: Path) -> None:
    first = Folder.take(tmp_path, None)
    second = Folder.take(tmp_path, None)
    assert [first.path.name, second.path.name] == ["1", "2"]
    first.release()
    assert Folder.take(tmp_path, None).path == first.path
    second.release()


def test_a_named_folder_is_held_by_one(tmp_path: Path) -> None:
    held = Folder.take(tmp_path, "pod-0")
    with pytest.raises(ConfigError, match="held by another"):
        Folder.take(tmp_path, "pod-0")
    held.release()
    Folder.take(tmp_path, "pod-0").release()
