"""Deterministic prose. The same key gives the same text on every machine and Python version."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeVar

T = TypeVar("T")

_SUBJECTS: Final = (
    "The ringing team",
    "A visiting class",
    "The morning count",
    "The tide gauge",
    "Our oldest volunteer",
    "The western colony",
    "A pair near the slipway",
    "The survey boat",
    "The night logger",
    "Every second transect",
    "The shingle bank",
    "The lagoon warden",
)
_VERBS: Final = (
    "recorded",
    "missed",
    "confirmed",
    "passed close to",
    "was watched from",
    "returned to",
    "reported",
    "crossed",
    "kept clear of",
    "settled beside",
)
_OBJECTS: Final = (
    "the low water line",
    "eleven marked adults",
    "the old lighthouse steps",
    "more eelgrass than in any earlier spring",
    "the eastern breakwater",
    "a second brood",
    "the sandbar at Gull Stones",
    "the new boardwalk",
    "two instruments under repair",
    "the quiet side of the estuary",
    "an early passage of waders",
    "the kelp off Marker Nine",
)
_ENDINGS: Final = (
    "before the wind turned north",
    "in spite of the fog",
    "for the third week in a row",
    "while the ferry was still in sight",
    "at half tide",
    "just after first light",
    "as the 1998 notebooks describe",
    "without any disturbance",
    "during the open day",
    "and the readings agree",
    "between two squalls",
    "so the path stays closed until June",
)
_OPENERS: Final = (
    "",
    "",
    "",
    "On Tuesday, ",
    "As expected, ",
    "By contrast, ",
    "Later in the season, ",
    "According to the log, ",
)


def pick(key: str, choices: Sequence[T]) -> T:
    """One of the choices, decided by the key alone."""
    return choices[number(key, len(choices))]


def number(key: str, below: int) -> int:
    """A number from 0 up to, not including, `below`, decided by the key alone."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % below


def sentence(key: str) -> str:
    """One sentence."""
    opener_at, subject_at, verb_at, target_at, ending_at = blake2b(
        key.encode(), digest_size=5
    ).digest()
    opener = _OPENERS[opener_at % len(_OPENERS)]
    subject = _SUBJECTS[subject_at % len(_SUBJECTS)]
    if opener:
        subject = subject[0].lower() + subject[1:]
    verb, target = _VERBS[verb_at % len(_VERBS)], _OBJECTS[target_at % len(_OBJECTS)]
    return f"{opener}{subject} {verb} {target} {_ENDINGS[ending_at % len(_ENDINGS)]}."


def paragraph(key: str) -> str:
    """Three to six sentences."""
    return " ".join(sentence(f"{key}/{n}") for n in range(3 + number(f"{key}/n", 4)))


def paragraphs(key: str, count: int) -> list[str]:
    """Several paragraphs."""
    return [paragraph(f"{key}/{n}") for n in range(count)]


def slug(title: str) -> str:
    """A title as a path segment."""
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())
