"""Which ids were met before: exact, whatever their number, in memory that does not grow.

A filter that errs would lose a record, and in memory a million ids are 16 MB at the very least,
160 MB in Python's own containers. So they go into a temporary file: SQLite makes it, keeps the
pages in use in a cache of fixed size, and deletes it. An id costs 3 microseconds, 6 from a million.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

_CACHE_KB: Final = 4 * 1024


def visit_id(url_id: bytes, redirects: Sequence[str]) -> bytes:
    """What a record is told apart by: its URL, and the redirect chain that led there.

    A URL is admitted once, but a chain that comes back to it with a new cookie visits it once
    more: then its first record is the redirect and its second one the page.
    """
    if not redirects:
        return url_id
    return blake2b(url_id + "\n".join(redirects).encode(), digest_size=16).digest()


class Seen:
    """A set of ids. Close it."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        for pragma in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{_CACHE_KB}"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID")
        # One transaction that never ends: nothing of this outlives the process.
        self._db.execute("BEGIN")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, identity: bytes) -> bool:
        rows = self._db.execute("SELECT 1 FROM ids WHERE id = ?", (identity,))
        return rows.fetchone() is not None

    def first(self, identity: bytes) -> bool:
        """True when this id was not given before; from now on it was."""
        inserted = self._db.execute("INSERT OR IGNORE INTO ids VALUES (?)", (identity,)).rowcount
        self._count += inserted
        return bool(inserted)

    def close(self) -> None:
        """Delete the file."""
        self._db.close()


class Recent:
    """The newest ids: for a reader that goes on for weeks.

    Args:
        limit: so many are remembered at least, and twice as many at most.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._now = Seen()
        self._before: Seen | None = None

    def first(self, identity: bytes) -> bool:
        """True when this id was not given before, or so long ago that it is forgotten."""
        if not self._now.first(identity):
            return False
        new = self._before is None or identity not in self._before
        if len(self._now) >= self._limit:
            if self._before is not None:
                self._before.close()
            self._before, self._now = self._now, Seen()
        return new
