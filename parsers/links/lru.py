"""Bounded memories that cost one dictionary look-up."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A map that keeps at least the `size` / 2 keys used last and at most `size`.

    Two generations: when the young one is full it becomes the old one, which is dropped. A key
    found in the old one moves over. That is most of an LRU's worth without its links.
    """

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """The value, or None."""
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Remember a value."""
        young = self._young
        if len(young) >= self._half:
            self._old = young
            self._young = young = {}
        young[key] = value


class RecentIds:
    """A set of ids under the same rule."""

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._young | self._old)

    def __contains__(self, identity: object) -> bool:
        if identity in self._young:
            return True
        if identity in self._old and isinstance(identity, bytes):
            self.add(identity)
            return True
        return False

    def add(self, identity: bytes) -> None:
        """Remember an id."""
        if len(self._young) >= self._half:
            self._old = self._young
            self._young = set()
        self._young.add(identity)
