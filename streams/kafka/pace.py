"""How often to talk to Kafka: at once when little is going on, in larger groups under load."""

from __future__ import annotations

from typing import Final

SHORTEST_S: Final = 0.025
LONGEST_S: Final = 0.1
_SLACK_S: Final = 0.05
"""A busy broker answers no sooner."""


class Pace:
    """The least time from one request to the next, seconds.

    A request costs both sides about a millisecond however little it carries. So the pause grows
    while one request follows the other, and is short again after the first that does not.
    """

    __slots__ = ("_asked_at", "_pause_s")

    def __init__(self) -> None:
        self._pause_s = SHORTEST_S
        self._asked_at = float("-inf")

    def wait_s(self, now: float) -> float:
        """How long to wait before the next request; not positive: not at all."""
        return self._asked_at + self._pause_s - now

    def asked(self, now: float) -> None:
        """A request was made, or answered with messages: the pause begins."""
        follows = now - self._asked_at < 2 * self._pause_s + _SLACK_S
        self._pause_s = min(LONGEST_S, 2 * self._pause_s) if follows else SHORTEST_S
        self._asked_at = now
