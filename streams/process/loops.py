"""uvloop where there is one: the event loops of our processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes a loop for `asyncio.Runner`; None: its own way."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def use_uvloop() -> None:
    """Have loops that others make (Faust's, and those of its threads) made by uvloop too."""
    try:
        import uvloop
    except ImportError:
        return
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
