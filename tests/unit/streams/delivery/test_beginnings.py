"""How guarded messages are begun: recorded first, the worst one at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from streams.delivery.beginnings import Beginnings
from streams.delivery.ledger import CommitMetadata, OffsetLedger, Suspect
from streams.delivery.stage import Delivery
from streams.kafka.messages import Source

SOURCE = Source("fetch-requests", 0)


def delivery(offset: int) -> Delivery:
    door: Any = None
    return Delivery(SOURCE, offset, None, None, 0, 1, door)


class Bench:
    """One partition after the death of its owner, with offsets 0 to 4 delivered."""

    def __init__(self, *suspects: Suspect) -> None:
        self.ledger = OffsetLedger(0, CommitMetadata(ahead=5, suspects=frozenset(suspects)))
        for offset in range(5):
            self.ledger.deliver(offset)
        self.asked = 0
        self.beginnings = Beginnings(self._ask)
        self.working = True
        self.leased = True
        self.deliveries = [delivery(offset) for offset in range(5)]

    def _ask(self) -> None:
        self.asked += 1

    async def begin(self, offset: int) -> asyncio.Task[bool]:
        task = asyncio.ensure_future(
            self.beginnings.begin(
                self.deliveries[offset], self.ledger, lambda: self.working, lambda: self.leased
            )
        )
        await asyncio.sleep(0)
        return task

    async def commit(self, *, good: bool = True) -> frozenset[Suspect]:
        """Make a commit; the suspects that it told of."""
        told = self.ledger.metadata(clean=False).suspects
        ticket = self.beginnings.to_record()
        (self.beginnings.recorded if good else self.beginnings.not_recorded)(ticket)
        for _ in range(4):
            await asyncio.sleep(0)
        return told


async def test_a_guarded_message_is_begun_when_the_metadata_says_so() -> None:
    bench = Bench()
    begun = await bench.begin(3)
    assert bench.asked == 1
    assert await bench.commit(good=False) == {Suspect(3, 0, begun=True)}
    assert not begun.done()
    await bench.commit()
    assert await begun is True


async def test_a_commit_answered_after_the_lease_does_not_begin_anything() -> None:
    bench = Bench()
    bench.leased = False
    begun = await bench.begin(3)
    await bench.commit()
    assert not begun.done()
    assert bench.asked == 2
    bench.leased = True
    await bench.commit()
    assert await begun is True


async def test_what_waits_is_refused_when_the_partitions_are_given_back() -> None:
    bench = Bench(Suspect(1, 2, begun=False), Suspect(2, 2, begun=False))
    waiting = [await bench.begin(offset) for offset in (0, 1, 2)]
    bench.working = False
    bench.beginnings.refuse()
    assert await asyncio.gather(*waiting) == [False, False, False]


async def test_suspects_of_two_deaths_are_tried_one_at_a_time_beside_the_others() -> None:
    bench = Bench(Suspect(1, 1, begun=True), Suspect(2, 2, begun=False), Suspect(3, 0, begun=True))
    first, second = await bench.begin(1), await bench.begin(2)
    once, other = await bench.begin(3), await bench.begin(4)
    told = await bench.commit()
    assert {one.offset for one in told if one.begun} == {1, 3, 4}
    assert (await first, await once, await other) == (True, True, True)
    assert not second.done()
    bench.ledger.complete(1)
    bench.beginnings.ended(bench.deliveries[1])
    await asyncio.sleep(0)
    await bench.commit()
    assert await second is True


async def test_a_trial_that_is_put_back_makes_way_and_can_be_begun_again() -> None:
    """A fetch that must first read the host's rules is begun twice."""
    bench = Bench(Suspect(1, 2, begun=False), Suspect(2, 2, begun=False))
    first, second = await bench.begin(1), await bench.begin(2)
    await bench.commit()
    assert await first is True
    bench.ledger.put_back(1)
    bench.beginnings.ended(bench.deliveries[1])
    assert Suspect(1, 2, begun=False) in await bench.commit()
    again = await bench.begin(1)
    await bench.commit()
    assert await second is True
    bench.ledger.complete(2)
    bench.beginnings.ended(bench.deliveries[2])
    await asyncio.sleep(0)
    await bench.commit()
    assert await again is True


async def test_a_cancelled_trial_makes_way_for_the_next() -> None:
    bench = Bench(Suspect(1, 2, begun=False), Suspect(2, 2, begun=False))
    first, second = await bench.begin(1), await bench.begin(2)
    first.cancel()
    await asyncio.sleep(0)
    await bench.commit()
    await bench.commit()
    assert await second is True
