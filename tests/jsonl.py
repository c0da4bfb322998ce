"""JSON lines that another process is writing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def written_rows(path: Path) -> list[dict[str, Any]]:
    """The rows written so far: a line counts when its end is there, a missing file has none."""
    text = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in text.split(b"\n")[:-1]]
