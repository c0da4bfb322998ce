"""How work is begun when not at once: after the next commit.

That is so for guarded messages, which are recorded first and of which the worst suspects are begun
one at a time (the rules are in `streams.delivery.ledger`), and for all when the lease has run out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from streams.delivery.ledger import ALONE_AFTER_DEATHS, OffsetLedger
from streams.delivery.stage import Delivery

log = structlog.get_logger(__name__)

Ticket = list["asyncio.Future[bool]"]
"""Beginnings that wait for one commit."""


class Beginnings:
    """The beginnings of one process, over all its partitions.

    Args:
        commit_soon: asks for a commit.
    """

    def __init__(self, commit_soon: Callable[[], None]) -> None:
        self._commit_soon = commit_soon
        self._waiting: Ticket = []
        self._alone = asyncio.Lock()
        self._on_trial: Delivery | None = None

    async def begin(
        self,
        delivery: Delivery,
        ledger: OffsetLedger,
        working: Callable[[], bool],
        leased: Callable[[], bool],
    ) -> bool:
        """Return once the work may begin; False when it may not.

        Args:
            delivery: the message.
            ledger: of its partition.
            working: whether the partition still is ours and not being given back.
            leased: whether nobody else can own it. A commit may be answered too late for that.
        """
        if ledger.deaths(delivery.offset) >= ALONE_AFTER_DEATHS:
            await self._alone.acquire()
            if not working():
                self._alone.release()
                return False
            self._on_trial = delivery
            log.warning(
                "a message may have killed its worker; it is tried alone",
                topic=delivery.source.topic,
                partition=delivery.source.partition,
                offset=delivery.offset,
                deaths=ledger.deaths(delivery.offset),
            )
        if ledger.guarded(delivery.offset):
            ledger.begin(delivery.offset)
        try:
            while await self._next_commit():
                if leased():
                    return True
        except asyncio.CancelledError:
            self.ended(delivery)
            raise
        return False

    async def _next_commit(self) -> bool:
        """Wait for a commit that begins from now on; False when the partitions go first."""
        recorded: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(recorded)
        self._commit_soon()
        return await recorded

    def ended(self, delivery: Delivery) -> None:
        """Let the next suspect have its turn."""
        if self._on_trial is delivery:
            self._on_trial = None
            self._alone.release()

    def to_record(self) -> Ticket:
        """What the commit that is being made will record."""
        ticket, self._waiting = self._waiting, []
        return ticket

    def recorded(self, ticket: Ticket) -> None:
        """The commit was made."""
        for beginning in ticket:
            if not beginning.done():
                beginning.set_result(True)

    def not_recorded(self, ticket: Ticket) -> None:
        """The commit failed; the next one will do."""
        self._waiting += ticket

    def refuse(self) -> None:
        """Whatever waits is not begun: the partitions are given back."""
        for beginning in self.to_record():
            if not beginning.done():
                beginning.set_result(False)
        if self._on_trial is not None:
            self.ended(self._on_trial)
