"""Points in time as a user writes them."""

from __future__ import annotations

import re
import time
from datetime import datetime

from schemas.errors import ConfigError

_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def since_ms(text: str, now_ms: int | None = None) -> int:
    """Milliseconds since the epoch of "2h" (ago) or an ISO 8601 time. Raises ConfigError.

    A time without a zone is local.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if ago := _AGO.fullmatch(text.strip()):
        return now - int(ago[1]) * _UNIT_S[ago[2]] * 1000
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(f"{text!r} is no time: write 30m, 2h, 7d or 2026-11-30T09:00") from error
