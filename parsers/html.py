"""HTML to plain values, in one pass over the tree. The only importer of selectolax (lexbor).

Nothing of lexbor leaves this module but opaque nodes, which only `Document` can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

MAX_TEXT_CHARS: Final = 1_000_000
MAX_HEADINGS: Final = 200
MAX_HEADING_CHARS: Final = 1_000
MAX_ANCHOR_CHARS: Final = 300
MAX_TITLE_CHARS: Final = 2_000
MAX_RAW_LINKS: Final = 200_000
"""Link elements looked at in one page, duplicates included; the rest is only counted."""
MAX_RAW_ASSETS: Final = 5_000

Node = LexborNode


RawLink = tuple[str, str, str, str]
"""A link as written: element name, attribute value, rel in lower case, anchor text."""


class Meta(NamedTuple):
    """A meta element: lower-case name, property or itemprop, lower-case http-equiv, content."""

    name: str
    http_equiv: str
    content: str


class Heading(NamedTuple):
    """A heading, white space collapsed."""

    level: int
    text: str


class SrcSet(NamedTuple):
    """A srcset attribute, to be split by `parsers.links.srcset`."""

    value: str


@dataclass(slots=True)
class Page:
    """What one pass over a page finds, as written: no URL is resolved here."""

    lang: str = ""
    title: str = ""
    base: str | None = None
    text: str = ""
    metas: list[Meta] = field(default_factory=list)
    links: list[RawLink] = field(default_factory=list)
    assets: list[str | SrcSet] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    json_ld: list[str] = field(default_factory=list)
    more_links: int = 0
    """Link elements beyond `MAX_RAW_LINKS`."""
    text_capped: bool = False


class Document:
    """A parsed page.

    Args:
        markup: text, or bytes that are well-formed UTF-8.
    """

    __slots__ = ("_tree",)

    def __init__(self, markup: str | bytes) -> None:
        self._tree = LexborHTMLParser(markup)

    def scan(self, *, links: bool = True, text: bool = True) -> Page:
        """Everything that a record and a crawl want of a page.

        Args:
            links: collect links and assets.
            text: collect the visible text and the headings.
        """
        root = self._tree.root
        page = Page()
        if root is not None:
            _Scan(page, links=links, text=text).run(root, self._tree)
        return page

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


def collapse(text: str) -> str:
    """White space runs as one space, none at the ends."""
    return " ".join(text.split())


_EMPTY = LexborHTMLParser("<p></p>")

# What the scan does at an element, by lexbor's numeric tag id (learned at import: the numbers are
# lexbor's own and move between its versions).
_BLOCK, _PRE, _BREAK, _RAW, _ANCHOR, _HEADING = 1, 2, 3, 4, 5, 6
_META, _LINK, _MEDIA, _FRAME, _TITLE, _SCRIPT, _BASE, _HTML, _AREA = 7, 8, 9, 10, 11, 12, 13, 14, 15

_TAGS: Final = {
    _BLOCK: (
        "address article aside blockquote body caption center colgroup dd details dialog dir div dl"
        " dt fieldset figcaption figure footer form frameset head header hgroup legend li listing"
        " main menu nav ol optgroup option p search section summary table tbody td tfoot th thead"
        " tr ul"
    ),
    _PRE: "pre textarea xmp plaintext",
    _BREAK: "br hr",
    _RAW: "style noembed noframes",
    _ANCHOR: "a",
    _HEADING: "h1 h2 h3 h4 h5 h6",
    _META: "meta",
    _LINK: "link",
    _MEDIA: "img source video audio embed track object input",
    _FRAME: "iframe frame",
    _TITLE: "title",
    _SCRIPT: "script",
    _BASE: "base",
    _HTML: "html",
    _AREA: "area",
}


def _tag_id(name: str) -> int:
    return LexborHTMLParser("<p></p>").create_node(name).tag_id


_KINDS: Final = {_tag_id(name): kind for kind, names in _TAGS.items() for name in names.split()}
_ACTIONS: Final = {tag: kind for tag, kind in _KINDS.items() if kind not in (_BLOCK, _PRE)}
_LEVELS: Final = {_tag_id(f"h{level}"): level for level in range(1, 7)}
_SVG: Final = _tag_id("svg")
_MEDIA_ATTRIBUTES: Final = {
    _tag_id("img"): ("src", "srcset"),
    _tag_id("source"): ("src", "srcset"),
    _tag_id("video"): ("src", "poster"),
    _tag_id("audio"): ("src",),
    _tag_id("embed"): ("src",),
    _tag_id("track"): ("src",),
    _tag_id("object"): ("data",),
    _tag_id("input"): ("src",),
}
_BLOCK_IDS: Final = frozenset(
    tag for tag, kind in _KINDS.items() if kind in (_BLOCK, _PRE, _HEADING, _HTML, _FRAME)
)
_PRE_IDS: Final = frozenset(tag for tag, kind in _KINDS.items() if kind == _PRE)


def _text_id() -> int:
    body = LexborHTMLParser("x").body
    child = None if body is None else body.first_child
    assert child is not None
    return child.tag_id


_TEXT: Final = _text_id()
_LINK_RELS: Final = frozenset(("next", "prev", "alternate", "canonical"))


class _Lines:
    """Visible text: pieces of one block are joined, blocks are separated by newlines.

    The tree is walked without end tags, so a new block shows as a text node whose nearest block
    ancestor differs from that of the text before.
    """

    __slots__ = ("_lines", "_room", "capped", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._lines: list[str] = []
        self._room = MAX_TEXT_CHARS
        self.capped = False

    def flush(self, *, pre: bool) -> None:
        """End the line."""
        pieces = self.pieces
        text = pieces[0] if len(pieces) == 1 else "".join(pieces)
        pieces.clear()
        line = text.strip("\r\n").rstrip() if pre else " ".join(text.split())
        if not line:
            return
        if len(line) > self._room:
            line, self.capped = line[: self._room], True
        if line:
            self._lines.append(line)
            self._room -= len(line) + 1

    def text(self) -> str:
        return "\n".join(self._lines)


_STEPS: Final = 8


def _block_of(inline: Node, known: dict[int, Node]) -> Node:
    """The nearest block around an inline element; the root when there is none.

    Far climbs are remembered in `known`, so that deep nests of inline elements stay linear.
    """
    path = []
    at = inline
    steps = 0
    while at.tag_id not in _BLOCK_IDS:
        if steps > _STEPS:
            key = at.mem_id
            found = known.get(key)
            if found is not None:
                at = found
                break
            path.append(key)
        above = at.parent
        if above is None:
            break
        at = above
        steps += 1
    for key in path:
        known[key] = at
    return at


class _Scan:
    """One walk over the tree, filling a `Page`."""

    __slots__ = ("_found", "_headings", "_links", "_mixed", "_page", "_text")

    def __init__(self, page: Page, *, links: bool, text: bool) -> None:
        self._page = page
        self._links = links
        self._text = text
        self._found: list[tuple[str, str, str, str | Node]] = []
        """Links; the node instead of the anchor text where that is read at the end."""
        self._headings: list[tuple[int, Node]] = []
        self._mixed = False
        """A script or style stands inside text, so `Node.text` would contain it."""

    def run(self, root: Node, tree: LexborHTMLParser) -> None:
        """Walk. The loop is long and flat because it runs once for every node of every page."""
        lines = _Lines()
        pieces = lines.pieces
        known: dict[int, Node] = {}
        block, pre = 0, False
        skip = not self._text
        for node in root.traverse(include_text=True):
            tag = node.tag_id
            if tag == _TEXT:
                if skip:
                    skip = not self._text
                    continue
                text = node.text_content
                if not text:
                    continue
                if not text.isspace():
                    around = node.parent
                    if around is None:
                        continue
                    if around.tag_id not in _BLOCK_IDS:
                        around = _block_of(around, known)
                    key = around.mem_id
                    if key != block:
                        if pieces:
                            lines.flush(pre=pre)
                        block, pre = key, around.tag_id in _PRE_IDS
                pieces.append(text)
                continue
            action = _ACTIONS.get(tag)
            if action is None:
                continue
            if action == _ANCHOR:
                if self._links:
                    self._anchor(node)
            elif action == _BREAK:
                if pieces:
                    lines.flush(pre=pre)
            elif action == _HEADING:
                if self._text and len(self._headings) < MAX_HEADINGS:
                    self._headings.append((_LEVELS[tag], node))
            elif self._other(action, tag, node):
                skip = True
        if pieces:
            lines.flush(pre=pre)
        if self._mixed:
            tree.strip_tags(["script", "style"])
        self._finish()
        self._page.text = lines.text()
        self._page.text_capped = lines.capped

    def _other(self, action: int, tag: int, node: Node) -> bool:
        """Act at one of the rarer elements; True when the text node that follows is not text."""
        page = self._page
        if action == _META:
            self._meta(node)
        elif action == _MEDIA:
            if self._links and len(page.assets) < MAX_RAW_ASSETS:
                self._media(tag, node)
        elif action == _LINK:
            if self._links:
                self._link(node)
        elif action == _SCRIPT:
            return self._script(node)
        elif action == _RAW:
            self._note_mixed(node)
            return node.first_child is not None
        elif action == _FRAME:
            attrs = node.attributes
            source = attrs.get("src")
            if source and self._links:
                anchor = collapse(attrs.get("title") or "")[:MAX_ANCHOR_CHARS]
                self._add(node.tag or "", source, "", anchor)
            return node.first_child is not None
        elif action == _TITLE:
            parent = node.parent
            if not page.title and (parent is None or parent.tag_id != _SVG):
                page.title = collapse(node.text())[:MAX_TITLE_CHARS]
            return node.first_child is not None
        elif action == _AREA:
            if self._links:
                self._area(node)
        elif action == _BASE:
            if page.base is None:
                attrs = node.attributes
                page.base = (attrs["href"] or "") if "href" in attrs else None
        elif action == _HTML and not page.lang:
            attrs = node.attributes
            page.lang = (attrs.get("lang") or attrs.get("xml:lang") or "").strip()[:100]
        return False

    def _add(self, element: str, href: str, rel: str, anchor: str | Node) -> None:
        if len(self._found) < MAX_RAW_LINKS:
            self._found.append((element, href, collapse(rel.lower()) if rel else "", anchor))
        else:
            self._page.more_links += 1

    def _anchor(self, node: Node) -> None:
        attrs = node.attributes
        if "href" in attrs:
            href = attrs["href"]
        elif "xlink:href" in attrs:
            href = attrs["xlink:href"]
        else:
            return
        self._add("a", href or "", attrs.get("rel") or "", node)

    def _area(self, node: Node) -> None:
        attrs = node.attributes
        if "href" in attrs:
            alt = collapse(attrs.get("alt") or "")[:MAX_ANCHOR_CHARS]
            self._add("area", attrs["href"] or "", attrs.get("rel") or "", alt)

    def _meta(self, node: Node) -> None:
        attrs = node.attributes
        content = attrs.get("content")
        if content is None:
            return
        name = attrs.get("name") or attrs.get("property") or attrs.get("itemprop") or ""
        equiv = attrs.get("http-equiv") or ""
        if name or equiv:
            self._page.metas.append(Meta(name.strip().lower(), equiv.strip().lower(), content))

    def _link(self, node: Node) -> None:
        attrs = node.attributes
        rel = (attrs.get("rel") or "").lower()
        tokens = rel.split()
        if _LINK_RELS.isdisjoint(tokens) or "stylesheet" in tokens:
            return
        href = attrs.get("href")
        if href:
            title = attrs.get("title") or attrs.get("hreflang") or ""
            self._add("link", href, rel, collapse(title)[:MAX_ANCHOR_CHARS])

    def _media(self, tag: int, node: Node) -> None:
        attrs = node.attributes
        for name in _MEDIA_ATTRIBUTES[tag]:
            value = attrs.get(name)
            if value:
                self._page.assets.append(SrcSet(value) if name == "srcset" else value)

    def _script(self, node: Node) -> bool:
        if node.first_child is None:
            return False
        if (node.attributes.get("type") or "").partition(";")[
            0
        ].strip().lower() == "application/ld+json":
            self._page.json_ld.append(node.text())
        self._note_mixed(node)
        return True

    def _note_mixed(self, node: Node) -> None:
        parent = node.parent
        if parent is not None and parent.tag not in ("head", "body"):
            self._mixed = True

    def _finish(self) -> None:
        """Texts of anchors and headings, after what is no text has left the tree."""
        links = self._page.links
        for element, href, rel, anchor in self._found:
            if isinstance(anchor, str):
                text = anchor
            else:
                text = " ".join(anchor.text().split()) or _other_text(anchor)
                if len(text) > MAX_ANCHOR_CHARS:
                    text = text[:MAX_ANCHOR_CHARS]
            links.append((element, href, rel, text))
        for level, node in self._headings:
            text = collapse(node.text())[:MAX_HEADING_CHARS]
            if text:
                self._page.headings.append(Heading(level, text))


def _other_text(node: Node) -> str:
    """What names a link that has no text: its title, or the alternative text of its image."""
    attrs = node.attributes
    text = attrs.get("title") or attrs.get("aria-label") or ""
    if not text:
        image = node.css_first("img[alt]")
        text = "" if image is None else image.attributes.get("alt") or ""
    return collapse(text)
