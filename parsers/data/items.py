"""What readers of items in markup share: where a node belongs, and how much may be taken of a page.

A value counts each time that an item repeats it, so a page cannot make much out of little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.documents.html import Document, Node

MAX_NODES: Final = 20_000
"""Elements that carry attributes of the syntax."""
MAX_DEPTH: Final = 50
"""Items inside items."""
MAX_VALUE_CHARS: Final = 100_000
_MAX_CHARS: Final = 800_000
_MAX_TEXT_NODES: Final = 300_000
_VALUE_CHARS: Final = 8
"""What a value takes besides its text."""

Json = dict[str, Any]
Place = TypeVar("Place")

URL_ATTRIBUTES: Final = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    **dict.fromkeys(("a", "area", "link"), "href"),
    "object": "data",
}
"""Elements whose value is a URL, and the attribute that holds it."""


class Budget:
    """What is left to take of one page.

    Args:
        document: the page.
        absolute: makes a reference absolute; the empty string when it is no URL.
    """

    def __init__(self, document: Document, absolute: Callable[[str], str]) -> None:
        self._document = document
        self._absolute = absolute
        self._chars = _MAX_CHARS
        self._nodes = _MAX_TEXT_NODES
        self.capped = False
        """True when something was left out."""

    def take(self, chars: int = 0) -> bool:
        """Take a value of so many characters; False when there is no room for it."""
        self._chars -= chars + _VALUE_CHARS
        if self._chars < 0:
            self.capped = True
        return self._chars >= 0

    def fit(self, value: str) -> str:
        """A value as it stands, without white space around it."""
        if len(value) > MAX_VALUE_CHARS:
            self.capped = True
        return value[:MAX_VALUE_CHARS].strip()

    def url(self, value: str) -> str:
        """A reference made absolute; empty when it is none, or too long to be kept whole."""
        if len(value) > MAX_VALUE_CHARS:
            self.capped = True
            return ""
        return self._absolute(value)

    def text(self, node: Node) -> str:
        """The text inside a node."""
        text, seen = self._document.text_within(node, self._nodes)
        self._nodes -= seen
        if self._nodes <= 0:
            self.capped = True
        return self.fit(text)


class Surroundings(Generic[Place]):
    """The place that each node is in: that of the nearest element around it that has one.

    Nodes are asked for and given places in the order of the document. Each element is walked
    through once, so deep pages cost no more than flat ones.
    """

    def __init__(self, document: Document, outside: Place) -> None:
        self._document = document
        self._outside = outside
        self._places: dict[int, Place] = {}

    def of(self, node: Node) -> Place:
        """The place around a node."""
        places, key = self._places, self._document.key
        passed: list[int] = []
        found = self._outside
        for around in self._document.ancestors(node):
            at = key(around)
            if at in places:
                found = places[at]
                break
            passed.append(at)
        for at in passed:
            places[at] = found
        return found

    def put(self, node: Node, place: Place) -> None:
        """What is inside of a node is in this place."""
        self._places[self._document.key(node)] = place
