"""What parsing a fetch result gives."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.records import UrlBatch

if TYPE_CHECKING:
    from schemas.reasons import Reason
    from schemas.records import Record


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a fetch result did not become a record."""

    reason: Reason
    detail: str


@dataclass(slots=True)
class Parsed:
    """A record and what goes with it.

    `batches` are the link messages not handed out before; `sent` are the URL ids of all link
    messages, to be remembered once delivered.
    """

    record: Record
    batches: list[UrlBatch]
    counts: dict[str, int]
    sent: list[bytes] = field(default_factory=list)


Steps = Generator[list[UrlBatch], None, Parsed | Failure]
