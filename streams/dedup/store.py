"""The table `seen`: Faust's RocksDB store with its memory bounded and its handles closed.

One RocksDB a partition, in `{folder}/{app id}-data/v1/tables/seen-{partition}.db`. All partitions
of a worker share one block cache; index and filter blocks live in it, and memtables are charged
to it. So `CRAWL_DEDUP_MEMORY_MB` bounds the memory of them all, however many partitions the
worker owns and however many keys they hold.

The database of a partition is the image of a prefix of its changelog: rows are written together
with the changelog offset they reach (`write`), and only after both the changelog and the URLs'
fetch requests were acknowledged. So a row means that its URL was requested, and the persisted
offset says exactly what is missing.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import faust
import rocksdict
import structlog
from faust.stores import rocksdb
from faust.types import TP

from schemas.errors import InvariantError, TransientInfraError

log = structlog.get_logger(__name__)

BLOOM_BITS_PER_KEY: Final = 10
IDENTITY_KEY: Final = b"__seen\0identity"
"""Row whose value names the changelog that a database was built from."""
_MAX_WRITE_BUFFER_BYTES: Final = 8 * 1024 * 1024
_MIN_WRITE_BUFFER_BYTES: Final = 256 * 1024
_MIN_OPEN_FILES: Final = 64


class Memory:
    """What all databases of one worker share."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.cache = rocksdict.Cache(budget_bytes)
        self.write_buffers = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
            buffer_size=budget_bytes // 4, allow_stall=False, cache=self.cache
        )

    @property
    def used_bytes(self) -> int:
        """Memory in use by blocks, indexes, filters and memtables."""
        return int(self.cache.get_usage())


class BoundedOptions(rocksdb.RocksDBOptions):
    """Options of one partition's database; Faust's own allow 2 GiB of cache for each."""

    def __init__(self, memory: Memory, partitions: int) -> None:
        super().__init__(use_rocksdict=True, bloom_filter_size=BLOOM_BITS_PER_KEY)
        self.memory = memory
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = 1 << 20 if soft == resource.RLIM_INFINITY else soft
        share = memory.write_buffers.get_buffer_size() // partitions
        self.buffer_bytes = min(max(share, _MIN_WRITE_BUFFER_BYTES), _MAX_WRITE_BUFFER_BYTES)
        self.open_files = max(_MIN_OPEN_FILES, files // 2 // partitions)

    def as_options(self) -> rocksdict.Options:
        """All that differs from RocksDB's defaults."""
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(self.memory.cache)
        table.set_cache_index_and_filter_blocks(v=True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(v=True)
        table.set_bloom_filter(BLOOM_BITS_PER_KEY, block_based=False)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(create_if_missing=True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_manager(self.memory.write_buffers)
        options.set_write_buffer_size(self.buffer_bytes)
        options.set_max_write_buffer_number(2)
        # Most lookups of new keys end here: 0.8 us instead of 3.
        options.set_memtable_prefix_bloom_ratio(0.1)
        options.set_memtable_whole_key_filtering(True)
        options.set_max_open_files(self.open_files)
        # Random ids do not compress; trying costs CPU.
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.set_max_background_jobs(2)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(1 << 20)
        return options

    def open(self, path: Any, *, read_only: bool = False) -> rocksdict.Rdict:
        """Open or create a database, and check that the options took effect.

        Unknown options are ignored without a word by the binding, so what matters is read back.
        """
        del read_only
        path.parent.mkdir(parents=True, exist_ok=True)
        options = self.as_options()
        # An existing database takes the options of its column family from its own files, which
        # know nothing of caches, unless they are given here.
        db = rocksdict.Rdict(str(path), options=options, column_families={"default": options})
        capacity = db.property_int_value("rocksdb.block-cache-capacity")
        if capacity != self.memory.budget_bytes or not self.memory.write_buffers.enabled():
            db.close()
            raise InvariantError(f"RocksDB ignored its memory options: cache of {capacity} bytes")
        return db


class SeenStore(rocksdb.Store):
    """Faust's store, opened with bounded options, written in batches, really closed."""

    mundane_level = "debug"

    memory: Memory

    def __init__(self, *args: Any, memory: Memory, partitions: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.memory = memory
        self.rocksdb_options = BoundedOptions(memory, partitions)
        self.verified: set[int] = set()
        """Open databases known to belong to the changelog there is."""

    @property
    def used_bytes(self) -> int:
        """Memory in use by all databases."""
        return self.memory.used_bytes

    @property
    def estimated_keys(self) -> int:
        """RocksDB's estimate of the number of rows over all partitions held."""
        return sum(
            int(db.property_int_value("rocksdb.estimate-num-keys") or 0)
            for db in self._dbs.values()
        )

    def holds(self, partition: int) -> bool:
        """Whether this worker has the partition's database open."""
        return partition in self._dbs

    def lookup(self, partition: int, keys: list[bytes]) -> Sequence[bytes | None]:
        """Values of keys, in order; None where absent."""
        return cast("list[bytes | None]", self._db_for_partition(partition).get(keys))

    def write(
        self, partition: int, rows: Iterable[tuple[bytes, bytes | None]], offset: int | None
    ) -> None:
        """Apply rows, and the changelog offset that they reach, in one atomic write.

        Raises TransientInfraError when the disk does not take them (full, say).
        """
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in rows:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        if offset is not None:
            batch.put(self.offset_key, b"%d" % offset)
        try:
            self._db_for_partition(partition).write(batch)
        except Exception as error:  # the binding raises bare exceptions
            raise TransientInfraError(f"dedup table, partition {partition}: {error}") from error

    def identity(self, partition: int) -> bytes | None:
        """Name of the changelog that the database was built from; None: not known."""
        return cast("bytes | None", self._db_for_partition(partition).get(IDENTITY_KEY))

    def wipe(self, partition: int) -> None:
        """Delete the partition's database and begin an empty one."""
        self._close(partition)
        shutil.rmtree(self.partition_path(partition), ignore_errors=True)
        self._db_for_partition(partition)

    def revoke_partitions(self, table: Any, tps: set[TP]) -> None:
        """Close databases at once; Faust leaves that, and the lock, to the garbage collector."""
        for tp in tps:
            if tp.topic in table.changelog_topic.topics:
                self._close(tp.partition)

    def retain(self, partitions: set[int]) -> None:
        """Close the databases of all other partitions."""
        for partition in set(self._dbs) - partitions:
            self._close(partition)

    async def stop(self) -> None:
        """Close everything."""
        self.retain(set())

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """Nothing yet: recovery opens and closes databases, outside the rebalance callback."""

    def _close(self, partition: int) -> None:
        self.verified.discard(partition)
        db = self._dbs.pop(partition, None)
        if db is not None:
            db.close()


class SeenTable(faust.Table):  # type: ignore[type-arg]
    """The Faust table `seen`, over `SeenStore`."""

    mundane_level = "debug"

    def __init__(self, *args: Any, memory: Memory, **kwargs: Any) -> None:
        self._memory = memory
        super().__init__(*args, **kwargs)

    def _new_store(self) -> SeenStore:
        return SeenStore(
            "rocksdb://",
            self.app,
            self,
            table_name=self.name,
            key_type=self.key_type,
            value_type=self.value_type,
            key_serializer="raw",
            value_serializer="raw",
            options={"driver": "rocksdict"},
            memory=self._memory,
            partitions=self.partitions or 1,
        )

    @property
    def store(self) -> SeenStore:
        """The table's data, as the store it is."""
        return cast("SeenStore", self.data)

    def info(self) -> Mapping[str, Any]:
        """Faust clones tables from this."""
        return {**super().info(), "memory": self._memory}

    async def on_start(self) -> None:
        """Start the store. The changelog topic was declared by `crawl topics create`."""
        await self.add_runtime_dependency(self.data)
