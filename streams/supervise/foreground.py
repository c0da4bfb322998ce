"""A supervisor as a process's whole job."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from schemas.errors import CrawlError
from streams.autoscale.sizing import Sizing
from streams.settings import Settings
from streams.supervise.children import Role
from streams.supervise.state import SupervisorError
from streams.supervise.supervisor import Supervisor

log = structlog.get_logger(__name__)


def run(
    settings: Settings,
    counts: Mapping[Role, int],
    on_ready: Callable[[Supervisor], None] = lambda _: None,
    sizing: Sizing | None = None,
) -> int:
    """Supervise until SIGTERM or SIGINT: 0. 1 when a worker is given up or none gets ready.

    Args:
        settings: for the workers.
        counts: workers of each role to begin with.
        on_ready: called once, when all have joined their groups.
        sizing: how an autoscaler changes their number from then on; None: not at all.
    """
    return asyncio.run(_run(settings, counts, on_ready, sizing))


async def _run(
    settings: Settings,
    counts: Mapping[Role, int],
    on_ready: Callable[[Supervisor], None],
    sizing: Sizing | None,
) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        async with Supervisor(settings, counts) as supervisor:
            if await _until(stopped, supervisor.ready()):
                return 0
            on_ready(supervisor)
            if await _until(stopped, _watch(supervisor, settings, sizing, stopped)):
                return 0
            raise SupervisorError(supervisor.failure)
    except CrawlError as error:
        log.critical(str(error))
        return 1


async def _watch(
    supervisor: Supervisor, settings: Settings, sizing: Sizing | None, stopped: asyncio.Event
) -> None:
    """Wait until a worker is given up, scaling meanwhile."""
    if sizing is None:
        await supervisor.failed()
        return
    from streams.autoscale.run import beside

    async with asyncio.TaskGroup() as group:
        scaling = group.create_task(beside(supervisor, settings, sizing, stopped))
        await supervisor.failed()
        scaling.cancel()


async def _until(stopped: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Wait for the work or the signal, whichever is first; True when it was the signal."""
    task = asyncio.create_task(work)
    signalled = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((task, signalled), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return stopped.is_set()
    finally:
        task.cancel()
        signalled.cancel()
        await asyncio.gather(task, signalled, return_exceptions=True)
