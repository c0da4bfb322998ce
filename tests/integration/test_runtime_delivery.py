"""The consumer runtime on a real broker: order, restarts, drains, members, room."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from streams.delivery.ledger import decode_metadata
from streams.settings import Settings
from tests.integration.toys import Scene, scene

pytestmark = pytest.mark.integration


@pytest.fixture
def partitions() -> int:
    return 2


@pytest.fixture
async def toys(
    settings: Callable[..., Settings], tmp_path: Path, partitions: int
) -> AsyncIterator[Scene]:
    async with scene(settings(partitions=partitions), tmp_path) as made:
        yield made


async def test_all_is_done_once_in_any_order_and_committed_to_the_end(toys: Scene) -> None:
    ends = await toys.produce([{"id": n, "ms": (n * 37) % 90} for n in range(300)])
    worker = toys.worker()
    await toys.until_committed(ends)
    assert await worker.stop() == 0
    order = [row["id"] for row in toys.log("completed")]
    assert sorted(order) == list(range(300))
    assert order != sorted(order)
    assert await toys.outputs() == Counter(range(300))
    assert {p: row.offset for p, row in (await toys.committed()).items()} == ends


async def test_first_start_on_an_empty_group_skips_nothing(toys: Scene) -> None:
    ends = await toys.produce([{"id": n} for n in range(20)])
    toys.worker()
    await toys.until_committed(ends)
    ends = await toys.produce([{"id": n} for n in range(20, 30)])
    await toys.until_committed(ends)
    assert toys.times("completed") == Counter(range(30))


async def test_completed_beyond_the_prefix_is_not_redone_after_kill_9(toys: Scene) -> None:
    jobs = [{"id": 0, "hold": "go", "partition": 0}]
    jobs += [{"id": n, "partition": 0} for n in range(1, 60)]
    ends = await toys.produce(jobs)
    worker = toys.worker()
    await toys.until(lambda: len(toys.log("completed")) == 59)
    await asyncio.sleep(1.0)
    await worker.kill()
    row = (await toys.committed())[0]
    assert row.offset == 0
    assert len(decode_metadata(0, row.metadata).completed) == 59
    toys.flag("go")
    toys.worker("b")
    await toys.until_committed(ends)
    begun = toys.times("begun")
    assert begun.pop(0) == 2
    assert begun == Counter(range(1, 60))


async def test_sigterm_drains_and_nothing_is_redone(toys: Scene) -> None:
    ends = await toys.produce([{"id": n, "ms": 100 + n * 37 % 400} for n in range(400)])
    worker = toys.worker(room=20)
    await toys.until(lambda: len(toys.log("completed")) > 60)
    assert await worker.stop() == 0
    assert toys.log("revoke")[0]["unfinished"] > 0
    done = len(toys.log("completed"))
    assert done < 400
    for row in (await toys.committed()).values():
        assert decode_metadata(row.offset, row.metadata).clean
    toys.worker("b", room=200)
    await toys.until_committed(ends)
    assert toys.times("begun") == Counter(range(400))
    assert toys.times("completed") == Counter(range(400))


@pytest.mark.parametrize("partitions", [6])
async def test_members_that_come_and_go_share_the_work_and_nothing_is_redone(toys: Scene) -> None:
    jobs: list[dict[str, object]] = [{"id": n, "ms": 50 + n * 37 % 100} for n in range(600)]
    for number, job in enumerate(jobs[100:], 100):
        job["hold"] = "b" if number < 350 else "c"
    ends = await toys.produce(jobs)
    toys.worker("a", room=10, drain_timeout_s=30.0)
    for tag, members in (("b", "a"), ("c", "ab")):
        await toys.until(lambda: len(toys.log("completed")) >= 80)
        times = {member: len(toys.log("revoke", member)) for member in members}
        worker = toys.worker(tag, room=10, drain_timeout_s=30.0)
        for member, before in times.items():
            await toys.until_said("revoke", member, more_than=before)
        toys.flag(tag)
        await toys.until_said("completed", tag)
    assert await worker.stop() == 0
    await toys.until_committed(ends, 60)
    assert len(toys.log("completed", "b")) > 10
    assert toys.times("begun") == Counter(range(600))
    assert toys.times("completed") == Counter(range(600))
    assert await toys.outputs() == Counter(range(600))


async def test_held_partitions_keep_the_membership_and_room_is_respected(toys: Scene) -> None:
    ends = await toys.produce([{"id": n, "hold": "go"} for n in range(100)])
    toys.flag("full")
    toys.worker(room=7)
    await toys.until(lambda: bool(toys.log("assigned")))
    await asyncio.sleep(8.0)
    assert not toys.log("offered")
    assert len(toys.log("assigned")) == 1
    toys.unflag("full")
    await toys.until(lambda: len(toys.log("offered")) == 14)
    await asyncio.sleep(1.0)
    assert len(toys.log("offered")) == 14
    toys.flag("go")
    await toys.until_committed(ends)
    assert len(toys.log("assigned")) == 1
    assert toys.times("begun") == Counter(range(100))


async def test_kaf_01_work_longer_than_the_session_is_done_once_in_a_stable_group(
    toys: Scene,
) -> None:
    toys.worker("a")
    toys.worker("b")
    await toys.until(lambda: all(toys.shares(tag) == 1 for tag in "ab"))
    assigned = len(toys.log("assigned"))
    ends = await toys.produce([{"id": 0, "ms": 9_000}, *({"id": n} for n in range(1, 20))])
    await toys.until_committed(ends)
    assert toys.times("begun") == Counter(range(20))
    assert len(toys.log("assigned")) == assigned


async def test_kaf_09_work_cut_off_by_sigterm_is_left_to_the_next_owner(toys: Scene) -> None:
    ends = await toys.produce([{"id": 0, "hold": "go"}, {"id": 1}])
    worker = toys.worker(drain_timeout_s=1.0)
    await toys.until(lambda: len(toys.log("completed")) == 1)
    began = time.monotonic()
    assert await worker.stop() == 0
    assert time.monotonic() - began < 8
    assert "drain budget spent" in worker.output
    toys.flag("go")
    toys.worker("b")
    await toys.until_committed(ends)
    assert toys.times("begun") == Counter({0: 2, 1: 1})
    assert await toys.outputs() == Counter([0, 1])


async def test_sigterm_before_the_first_assignment_ends_at_once(toys: Scene) -> None:
    worker = toys.worker()
    await toys.until(lambda: bool(toys.log("started")))
    worker.signal(signal.SIGTERM)
    assert await worker.ended(10) == 0
