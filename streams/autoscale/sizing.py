"""What an operator asks of an autoscaler, whatever runs the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from schemas.errors import ConfigError
from streams.autoscale.model import Rules
from streams.autoscale.roles import ROLES
from streams.telemetry.targets import DRAIN_TARGET_S

DEFAULT_SIZES: Final = ("fetcher=1:20", "parser=1:20")
INTERVAL_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What any autoscaler is asked for. `sizes` are texts like `fetcher=1:20`."""

    sizes: Sequence[str] = DEFAULT_SIZES
    drain_s: float = DRAIN_TARGET_S
    down_window_s: float = 300.0
    interval_s: float = INTERVAL_S

    def rules(self) -> dict[str, Rules]:
        """Rules by role. Raises ConfigError naming every text that is wrong."""
        rules: dict[str, Rules] = {}
        problems: list[str] = []
        for text in self.sizes:
            role, _, limits = text.partition("=")
            least, _, most = limits.partition(":")
            if role not in ROLES:
                problems.append(f"{text}: the roles are {', '.join(ROLES)}")
                continue
            try:
                rules[role] = Rules(
                    min_workers=int(least),
                    max_workers=int(most),
                    drain_target_s=self.drain_s,
                    down_window_s=self.down_window_s,
                    up_window_s=self.interval_s,
                    cooldown_s=max(self.interval_s, 20.0),
                    stale_after_s=4 * self.interval_s,
                    assumed_rate=ROLES[role].assumed_rate,
                )
            except ValueError as error:
                problems.append(f"{text}: {error}")
        if problems:
            raise ConfigError("sizes, ROLE=LEAST:MOST:\n  " + "\n  ".join(problems))
        return rules
