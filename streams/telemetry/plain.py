"""Text from the web on its way to a terminal, where some characters are commands."""

from __future__ import annotations

import re
from typing import Final

_COMMANDS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""C0 and C1 controls (of which terminals take cursor, title and clipboard commands), line ends,
and what turns the direction of the text around it."""


def plain(text: str) -> str:
    r"""The text with such characters as escapes (`\x1b`, `\u202e`): seen, not obeyed."""
    return _COMMANDS.sub(lambda found: repr(found[0])[1:-1], text)
