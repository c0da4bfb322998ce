"""What was used last is kept, and the rest forgotten."""

from __future__ import annotations

from parsers.links.lru import Recent, RecentIds


def test_recent_keeps_what_is_used() -> None:
    recent: Recent[int, int] = Recent(20)
    for at in range(100):
        recent.put(at, -at)
        assert recent.get(at) == -at
        recent.get(0)
    assert recent.get(0) == 0
    assert recent.get(50) is None
    assert len(recent) <= 20


def test_recent_ids_keep_what_is_used() -> None:
    ids = RecentIds(20)
    for at in range(100):
        ids.add(str(at).encode())
        assert str(at).encode() in ids
        assert at == 0 or b"0" in ids
    assert b"50" not in ids
    assert len(ids) <= 20
