"""Small things about asyncio's tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first(step: Coroutine[Any, Any, None], event: asyncio.Event) -> bool:
    """Run a step, or cancel it when the event comes first. True when the step ended by itself."""
    task = asyncio.ensure_future(step)
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        if not task.done():
            await end(task)
    if task.cancelled():
        return False
    task.result()
    return True


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and wait for their ends, whatever these are."""
    running = {task for task in tasks if task is not None and not task.done()}
    cancel(*running)
    if running:
        await asyncio.wait(running)


def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, those that are there."""
    for task in tasks:
        if task is not None:
            task.cancel()
