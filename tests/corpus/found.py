"""What the installed packages hold that is written as the Web writes it.

Their licences allow reading them in place; nothing of them is copied here. They differ from
machine to machine only with the lock file.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import warnings
from functools import cache
from pathlib import Path
from typing import Final

SITE: Final = Path(sysconfig.get_path("purelib"))
_URL = re.compile(rb"https?:[^\s\"'<>`]+", re.IGNORECASE)
_MARKUP = re.compile(r"<(?:a|area|base|iframe|link|img|meta|form)\s[^>]*=|<html\b", re.IGNORECASE)
_HINT = re.compile(rb"<(?:a|area|base|iframe|link|img|meta|form|html)\b", re.IGNORECASE)


@cache
def urls() -> tuple[str, ...]:
    """Everything that looks like a URL in sources and package descriptions, with what sticks to it.

    About ten thousand, in a fixed order.
    """
    found: set[bytes] = set()
    for pattern in ("*.py", "METADATA"):
        for path in SITE.rglob(pattern):
            found.update(_URL.findall(path.read_bytes()))
    return tuple(sorted(text.decode("utf-8", "replace") for text in found))


@cache
def markup() -> tuple[str, ...]:
    """HTML in string constants and package descriptions: pages, templates, pieces, regexes too."""
    found: set[str] = set()
    for path in SITE.rglob("*.py"):
        source = path.read_bytes()
        if _HINT.search(source):
            found.update(text for text in _constants(source) if _MARKUP.search(text))
    for path in SITE.rglob("METADATA"):
        text = path.read_text(encoding="utf-8", errors="replace")
        if _MARKUP.search(text):
            found.add(text)
    found.update(path.read_text(encoding="utf-8") for path in SITE.rglob("*.html"))
    return tuple(sorted(found))


def _constants(source: bytes) -> list[str]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others' sources do is not ours to judge
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node.value, bytes):
                found.append(node.value.decode("latin-1"))
    return found
