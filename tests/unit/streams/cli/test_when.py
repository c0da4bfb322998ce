"""Points in time as a user writes them."""

from __future__ import annotations

import pytest

from schemas.errors import ConfigError
from streams.cli._when import since_ms

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOW - 90_000),
        ("2h", NOW - 7_200_000),
        (" 7 d ", NOW - 604_800_000),
        ("2023-11-14T22:13:20+00:00", NOW),
        ("2023-11-14T22:13:20Z", NOW),
    ],
)
def test_points_in_time(text: str, expected: int) -> None:
    assert since_ms(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "5", "2h ago", "-1h", "2026-13-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match="is no time"):
        since_ms(text, NOW)
