"""Text without boilerplate.

The only importer of trafilatura, which costs far more than the rest of parsing together and is
loaded only for crawls that ask for it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

MAX_MARKUP_CHARS: Final = 2_000_000
"""Longer pages have no main text: extraction takes minutes on them."""
MAX_MAIN_CHARS: Final = 400_000


@cache
def _extract() -> Any:
    import trafilatura

    return trafilatura.extract


def main_text(markup: str, url: str) -> tuple[str, bool]:
    """The main text of a page, empty when there is none; False when the attempt failed."""
    if len(markup) > MAX_MARKUP_CHARS:
        return "", False
    try:
        found = _extract()(markup, url=url, include_comments=False, include_tables=True, fast=True)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - heuristics of others; the page is worth keeping without
        return "", False
    return (found or "")[:MAX_MAIN_CHARS], True
