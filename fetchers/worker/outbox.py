"""Outcomes that need no fetch, delivered together: deferrals and dead letters come in bursts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streams.delivery.stage import Delivery, Outputs
    from streams.kafka.messages import Out

MAX_BATCH: Final = 500

Done = Callable[[], None]


class Outbox:
    """Delivers messages, then completes what they are the outcome of."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._waiting: list[
            tuple[Delivery, tuple[Out, ...], Mapping[str, Mapping[str, int]], Done]
        ] = []
        self._flusher: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(
        self,
        delivery: Delivery,
        messages: tuple[Out, ...],
        counts: Mapping[str, Mapping[str, int]],
        done: Done,
    ) -> None:
        """Have an outcome delivered and completed; `done` is called after that."""
        self._waiting.append((delivery, messages, counts, done))
        if self._flusher is None:
            self._flusher = asyncio.ensure_future(self._flush())

    async def drained(self) -> None:
        """Return when everything put so far is delivered."""
        while self._flusher is not None:
            await asyncio.shield(self._flusher)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                messages = [
                    message
                    for delivery, outs, _, _ in batch
                    if not delivery.stale
                    for message in outs
                ]
                if messages:
                    await self._outputs.deliver(messages)
                for delivery, _, counts, done in batch:
                    delivery.complete(counts)
                    done()
        finally:
            self._flusher = None
