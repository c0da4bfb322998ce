"""HTML documents: the door to selectolax (lexbor), together with `parsers.documents.scan`.

Nothing of lexbor leaves the two modules but opaque nodes, which only `Document` can read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from parsers.documents.scan import scan, text_within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.documents.page import Page

Node = LexborNode
_EMPTY: Final = LexborHTMLParser("<p></p>")


class Document:
    """A parsed page.

    Args:
        markup: text, or bytes that are well-formed UTF-8.
    """

    __slots__ = ("_tree",)

    def __init__(self, markup: str | bytes) -> None:
        self._tree = LexborHTMLParser(markup)

    def scan(self, *, links: bool = True, anchors: bool = True) -> Page:
        """Everything that a record and a crawl want of a page.

        Args:
            links: collect links and assets.
            anchors: with the text of each anchor; else it is empty.
        """
        return scan(self._tree, links=links, anchors=anchors)

    def select(self, css: str, within: Node | None = None) -> list[Node]:
        """Nodes that a selector matches, in order, each once. Raises ValueError on bad syntax."""
        nodes = _select(self._tree if within is None else within, css)
        if "," in css:  # lexbor reports a node once for each part of a list that it matches
            nodes = list({node.mem_id: node for node in nodes}.values())
        return nodes

    @staticmethod
    def attribute(node: Node, name: str) -> str | None:
        """Value of an attribute; the empty string when it has none; None when it is absent."""
        return node.attrs.sget(name, None)

    @staticmethod
    def attributes(node: Node) -> dict[str, str]:
        """All attributes of a node."""
        return {name: value or "" for name, value in node.attributes.items()}

    @staticmethod
    def text(node: Node) -> str:
        """Text inside a node as it stands in the tree."""
        return node.text()

    @staticmethod
    def text_within(node: Node, room: int) -> tuple[str, int]:
        """See `parsers.documents.scan.text_within`."""
        return text_within(node, room)

    @staticmethod
    def html(node: Node) -> str:
        """Markup of a node, itself included."""
        return node.html or ""

    @staticmethod
    def tag(node: Node) -> str:
        """Element name in lower case."""
        return node.tag or ""

    @staticmethod
    def ancestors(node: Node) -> Iterator[Node]:
        """The elements around a node, innermost first."""
        at = node.parent
        while at is not None and at.is_element_node:
            yield at
            at = at.parent

    @staticmethod
    def key(node: Node) -> int:
        """Identity of a node within its document."""
        return node.mem_id


def check_selector(css: str) -> str | None:
    """What is wrong with a CSS selector, or None."""
    try:
        _select(_EMPTY, css)
    except ValueError as error:
        return str(error)
    return None


def _select(tree: LexborHTMLParser | LexborNode, css: str) -> list[Node]:
    try:
        return tree.css(css)
    except SelectolaxError as error:
        raise ValueError(f"bad CSS selector {css!r}") from error
