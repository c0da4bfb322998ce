"""How often Python looks for reference cycles in a worker."""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = 20_000
"""Containers made, less those freed, between two looks at the young ones; Python's own is 700."""


def relax() -> None:
    """Look for cycles less often, and never again among what exists now.

    A page makes thousands of small containers that all die by reference count. With Python's own
    threshold, looking for cycles among them is a tenth of the CPU of parsing. Call it once, after
    the imports.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
