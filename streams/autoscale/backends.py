"""Where workers run: what the autoscaler asks of it, and the places without an API of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from schemas.errors import TransientInfraError


class Backend(Protocol):
    """A place that runs a number of workers of each role."""

    async def workers(self, role: str) -> int | None:
        """The size that is wanted now, whether or not all have started; None: unknown.

        Raises TransientInfraError when the place does not answer.
        """
        ...

    async def scale(self, role: str, workers: int) -> None:
        """Ask for a size. Returns when it is accepted, not when it is reached.

        Raises TransientInfraError when it cannot be asked for; the next decision asks again.
        """
        ...

    async def close(self) -> None:
        """Release connections. The workers go on."""
        ...


class Local:
    """Processes of this machine, run by a supervisor in the same event loop.

    Args:
        counts: workers wanted, by role.
        scale: changes that number at once.
    """

    def __init__(
        self, counts: Callable[[], Mapping[str, int]], scale: Callable[[str, int], None]
    ) -> None:
        self._counts = counts
        self._scale = scale

    async def workers(self, role: str) -> int | None:
        """See `Backend.workers`."""
        return self._counts().get(role)

    async def scale(self, role: str, workers: int) -> None:
        """See `Backend.scale`."""
        self._scale(role, workers)

    async def close(self) -> None:
        """See `Backend.close`."""


class Observed:
    """Workers that something else runs: counted by their membership of the group, never scaled."""

    def __init__(self, members: Callable[[str], int | None]) -> None:
        self._members = members

    async def workers(self, role: str) -> int | None:
        """Members of the role's group; None before it was looked at."""
        return self._members(role)

    async def scale(self, role: str, workers: int) -> None:
        """Always raises TransientInfraError: there is nothing to ask."""
        raise TransientInfraError(f"{role}: {workers} workers are wanted, but no back end is set")

    async def close(self) -> None:
        """See `Backend.close`."""
