"""One walk over a page's tree that collects everything at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from parsers.documents.page import (
    MAX_ANCHOR_CHARS,
    MAX_HEADING_CHARS,
    MAX_HEADINGS,
    MAX_RAW_ASSETS,
    MAX_RAW_LINKS,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    Heading,
    Meta,
    Page,
    SrcSet,
    collapse,
)

Node = LexborNode


def scan(tree: LexborHTMLParser, *, links: bool, anchors: bool) -> Page:
    """See `parsers.documents.html.Document.scan`."""
    page = Page()
    root = tree.root
    if root is not None:
        _Scan(page, links=links, anchors=anchors).run(root)
    return page


def text_within(root: Node, room: int) -> tuple[str, int]:
    """The text inside a node, without scripts and styles; white space where a line ends.

    Args:
        root: whose text it is.
        room: nodes to look at.

    Returns:
        The text, and how many nodes it took; `room` when that was not enough.
    """
    pieces: list[str] = []
    above: list[Node] = []
    seen, node = 0, root.first_child
    while node is not None and seen < room:
        seen += 1
        tag, child = node.tag_id, None
        if tag == _TEXT:
            pieces.append(node.text_content or "")
        else:
            kind = _KINDS.get(tag, _INLINE)
            if kind in _LINE_ENDS:
                pieces.append(" ")
            if kind not in _UNSEEN:
                child = node.first_child
        if child is not None:
            above.append(node)
            node = child
            continue
        following = node.next
        while following is None and above:
            node = above.pop()
            if _KINDS.get(node.tag_id, _INLINE) in _LINE_ENDS:
                pieces.append(" ")
            following = node.next
        node = following
    return collapse("".join(pieces)), seen


# What the scan does at an element, by lexbor's numeric tag id (learned at import: the numbers are
# lexbor's own and move between its versions). Up to _HEADING: blocks, which begin and end a line.
_INLINE, _BLOCK, _PRE, _HEADING, _ANCHOR, _BREAK = 0, 1, 2, 3, 4, 5
_META, _LINK, _MEDIA, _FRAME, _TITLE, _SCRIPT, _BASE, _HTML, _AREA, _RAW = range(6, 16)

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
_OPAQUE: Final = frozenset((_FRAME, _TITLE, _SCRIPT, _RAW))
"""Kinds whose own text is none of the page's; in SVG they may hold elements, which are."""
_UNSEEN: Final = frozenset((_SCRIPT, _RAW))
_LINE_ENDS: Final = frozenset((_BLOCK, _PRE, _HEADING, _BREAK))
_LINK_RELS: Final = frozenset(("next", "prev", "alternate", "canonical"))


def _text_id() -> int:
    body = LexborHTMLParser("x").body
    child = None if body is None else body.first_child
    assert child is not None
    return child.tag_id


_TEXT: Final = _text_id()


class _Scan:
    """One walk over the tree, filling a `Page`.

    Visible text is gathered in pieces. Where a line ends, its last piece is a line feed, so that
    the texts of anchors and headings, which are runs of pieces, have white space there.
    """

    __slots__ = ("_anchors", "_headings", "_lines", "_links", "_page", "_pieces")

    def __init__(self, page: Page, *, links: bool, anchors: bool) -> None:
        self._page = page
        self._links = links
        self._anchors = anchors
        self._pieces: list[str] = []
        self._lines: list[tuple[int, int, bool]] = []
        """Begin and end in `_pieces`, and whether white space counts."""
        self._headings: list[tuple[int, int, int]] = []
        """Level, begin and end in `_pieces`."""

    def run(self, root: Node) -> None:  # noqa: C901, PLR0915 - see below
        """Walk. The loop is long and flat because it runs once for every node of every page."""
        pieces, kinds = self._pieces, _KINDS
        above: list[Node] = []
        ends: list[int] = []
        anchors: list[tuple[int, int]] = []
        """Of the anchors around: number of the link, and where its text begins in `pieces`."""
        headings: list[int] = []
        outer: list[bool] = []
        begin, pre = 0, False
        """The present line: where it begins in `pieces`, and whether its white space counts."""
        node: Node | None = root
        while node is not None:
            tag = node.tag_id
            child, end = None, _INLINE
            if tag == _TEXT:
                text = node.text_content
                if text and (pre or begin != len(pieces) or not text.isspace()):
                    pieces.append(text)
            else:
                kind = kinds.get(tag, _INLINE)
                if kind == _INLINE:
                    child = node.first_child
                elif kind <= _HEADING:
                    if begin != len(pieces):
                        begin = self._end_line(begin, pre=pre)
                    child = node.first_child
                    if child is not None:
                        end = kind
                        outer.append(pre)
                        pre = kind == _PRE
                        if kind == _HEADING:
                            headings.append(len(self._headings))
                            self._headings.append((_LEVELS[tag], begin, begin))
                elif kind == _ANCHOR:
                    child = node.first_child
                    if self._links:
                        number = self._anchor(node)
                        if number >= 0 and self._anchors:
                            if child is None:
                                self._name(number, [], node)
                            else:
                                end = _ANCHOR
                                anchors.append((number, len(pieces)))
                elif kind == _BREAK:
                    if begin != len(pieces):
                        begin = self._end_line(begin, pre=pre)
                else:
                    rare = _RARE.get(kind)
                    if rare is not None:
                        rare(self, node)
                    child = node.first_child
                    if kind in _OPAQUE:
                        while child is not None and child.tag_id == _TEXT:
                            child = child.next
            if child is not None:
                above.append(node)
                ends.append(end)
                node = child
                continue
            following = node.next
            while following is None and above:
                node = above.pop()
                end = ends.pop()
                if end == _ANCHOR:
                    number, start = anchors.pop()
                    self._name(number, pieces[start:], node)
                elif end:
                    if begin != len(pieces):
                        begin = self._end_line(begin, pre=pre)
                    pre = outer.pop()
                    if end == _HEADING:
                        number = headings.pop()
                        level, start, _ = self._headings[number]
                        self._headings[number] = (level, start, begin)
                following = node.next
            node = following
        if begin != len(pieces):
            self._end_line(begin, pre=pre)
        self._join()

    def _end_line(self, begin: int, *, pre: bool) -> int:
        """Where the next line begins."""
        pieces = self._pieces
        pieces.append("\n")
        end = len(pieces)
        self._lines.append((begin, end, pre))
        return end

    def _join(self) -> None:
        page, pieces = self._page, self._pieces
        lines: list[str] = []
        room = MAX_TEXT_CHARS
        for begin, end, pre in self._lines:
            text = "".join(pieces[begin:end])
            line = text.strip("\r\n").rstrip() if pre else collapse(text)
            if line:
                if len(line) > room:
                    page.text_capped = True
                    if room > 0:
                        lines.append(line[:room])
                    break
                lines.append(line)
                room -= len(line) + 1
        page.text = "\n".join(lines)
        for level, begin, end in self._headings[:MAX_HEADINGS]:
            text = collapse("".join(pieces[begin:end]))[:MAX_HEADING_CHARS]
            if text:
                page.headings.append(Heading(level, text))

    def _name(self, number: int, pieces: list[str], node: Node) -> None:
        """Complete a link with its text."""
        text = collapse("".join(pieces)) or _other_text(node)
        element, href, rel, _ = self._page.links[number]
        self._page.links[number] = (element, href, rel, text[:MAX_ANCHOR_CHARS])

    def frame(self, node: Node) -> None:
        attrs = node.attributes
        source = attrs.get("src")
        if source and self._links:
            anchor = collapse(attrs.get("title") or "")[:MAX_ANCHOR_CHARS]
            self._add(node.tag or "", source, "", anchor)

    def title(self, node: Node) -> None:
        page, parent = self._page, node.parent
        if not page.title and (parent is None or parent.tag_id != _SVG):
            page.title = collapse(node.text())[:MAX_TITLE_CHARS]

    def base(self, node: Node) -> None:
        attrs = node.attributes
        if self._page.base is None and "href" in attrs:
            self._page.base = attrs["href"] or ""

    def html(self, node: Node) -> None:
        attrs = node.attributes
        if not self._page.lang:
            self._page.lang = (attrs.get("lang") or attrs.get("xml:lang") or "").strip()[:100]

    def _add(self, element: str, href: str, rel: str, anchor: str) -> int:
        """The number of the link; -1 when there are too many."""
        links = self._page.links
        if len(links) >= MAX_RAW_LINKS:
            self._page.more_links += 1
            return -1
        links.append((element, href, collapse(rel.lower()) if rel else "", anchor))
        return len(links) - 1

    def _anchor(self, node: Node) -> int:
        """The number of the link of an anchor; -1 when it has none."""
        attrs = node.attributes
        if "href" in attrs:
            href = attrs["href"]
        elif "xlink:href" in attrs:
            href = attrs["xlink:href"]
        else:
            return -1
        return self._add("a", href or "", attrs.get("rel") or "", "")

    def area(self, node: Node) -> None:
        attrs = node.attributes
        if self._links and "href" in attrs:
            alt = collapse(attrs.get("alt") or "")[:MAX_ANCHOR_CHARS]
            self._add("area", attrs["href"] or "", attrs.get("rel") or "", alt)

    def meta(self, node: Node) -> None:
        attrs = node.attributes
        content = attrs.get("content")
        if content is None:
            return
        metas = self._page.metas
        name = (attrs.get("name") or "").strip().lower()
        equiv = (attrs.get("http-equiv") or "").strip().lower()
        if name or equiv:
            metas.append(Meta(name, equiv, content))
        for key in ("property", "itemprop"):
            names = attrs.get(key)
            if names:
                metas.extend(Meta(one, "", content) for one in names.lower().split() if one != name)

    def link(self, node: Node) -> None:
        attrs = node.attributes
        rel = (attrs.get("rel") or "").lower()
        tokens = rel.split()
        href = attrs.get("href")
        wanted = not _LINK_RELS.isdisjoint(tokens) and "stylesheet" not in tokens
        if self._links and wanted and href:
            title = attrs.get("title") or attrs.get("hreflang") or ""
            self._add("link", href, rel, collapse(title)[:MAX_ANCHOR_CHARS])

    def media(self, node: Node) -> None:
        assets = self._page.assets
        if self._links and len(assets) < MAX_RAW_ASSETS:
            attrs = node.attributes
            for name in _MEDIA_ATTRIBUTES[node.tag_id]:
                value = attrs.get(name)
                if value:
                    assets.append(SrcSet(value) if name == "srcset" else value)

    def script(self, node: Node) -> None:
        if node.first_child is None:
            return
        if (node.attributes.get("type") or "").partition(";")[
            0
        ].strip().lower() == "application/ld+json":
            self._page.json_ld.append(node.text())


def _other_text(node: Node) -> str:
    """What names a link that has no text: its title, or the alternative text of its image."""
    attrs = node.attributes
    text = attrs.get("title") or attrs.get("aria-label") or ""
    if not text:
        image = node.css_first("img[alt]")
        text = "" if image is None else image.attributes.get("alt") or ""
    return collapse(text)


_RARE: Final[dict[int, Callable[[_Scan, Node], None]]] = {
    _META: _Scan.meta,
    _LINK: _Scan.link,
    _MEDIA: _Scan.media,
    _FRAME: _Scan.frame,
    _TITLE: _Scan.title,
    _SCRIPT: _Scan.script,
    _BASE: _Scan.base,
    _HTML: _Scan.html,
    _AREA: _Scan.area,
}
"""What happens at the rarer elements."""
