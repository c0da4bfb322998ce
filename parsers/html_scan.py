"""One walk over a page's tree that collects everything at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from parsers.html_page import (
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


def scan(tree: LexborHTMLParser, *, links: bool, text: bool) -> Page:
    """See `parsers.html.Document.scan`. May take scripts and styles out of the tree."""
    page = Page()
    root = tree.root
    if root is not None:
        _Scan(page, links=links, text=text).run(root, tree)
    return page


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

    def run(self, root: Node, tree: LexborHTMLParser) -> None:  # noqa: C901 - see below
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
            elif _RARE[action](self, node):
                skip = True
        if pieces:
            lines.flush(pre=pre)
        if self._mixed:
            tree.strip_tags(["script", "style"])
        self._finish()
        self._page.text = lines.text()
        self._page.text_capped = lines.capped

    def frame(self, node: Node) -> bool:
        attrs = node.attributes
        source = attrs.get("src")
        if source and self._links:
            anchor = collapse(attrs.get("title") or "")[:MAX_ANCHOR_CHARS]
            self._add(node.tag or "", source, "", anchor)
        return node.first_child is not None

    def title(self, node: Node) -> bool:
        page, parent = self._page, node.parent
        if not page.title and (parent is None or parent.tag_id != _SVG):
            page.title = collapse(node.text())[:MAX_TITLE_CHARS]
        return node.first_child is not None

    def base(self, node: Node) -> bool:
        attrs = node.attributes
        if self._page.base is None and "href" in attrs:
            self._page.base = attrs["href"] or ""
        return False

    def html(self, node: Node) -> bool:
        attrs = node.attributes
        if not self._page.lang:
            self._page.lang = (attrs.get("lang") or attrs.get("xml:lang") or "").strip()[:100]
        return False

    def raw(self, node: Node) -> bool:
        self._note_mixed(node)
        return node.first_child is not None

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

    def area(self, node: Node) -> bool:
        attrs = node.attributes
        if self._links and "href" in attrs:
            alt = collapse(attrs.get("alt") or "")[:MAX_ANCHOR_CHARS]
            self._add("area", attrs["href"] or "", attrs.get("rel") or "", alt)
        return False

    def meta(self, node: Node) -> bool:
        attrs = node.attributes
        content = attrs.get("content")
        if content is None:
            return False
        name = attrs.get("name") or attrs.get("property") or attrs.get("itemprop") or ""
        equiv = attrs.get("http-equiv") or ""
        if name or equiv:
            self._page.metas.append(Meta(name.strip().lower(), equiv.strip().lower(), content))
        return False

    def link(self, node: Node) -> bool:
        attrs = node.attributes
        rel = (attrs.get("rel") or "").lower()
        tokens = rel.split()
        href = attrs.get("href")
        wanted = not _LINK_RELS.isdisjoint(tokens) and "stylesheet" not in tokens
        if self._links and wanted and href:
            title = attrs.get("title") or attrs.get("hreflang") or ""
            self._add("link", href, rel, collapse(title)[:MAX_ANCHOR_CHARS])
        return False

    def media(self, node: Node) -> bool:
        assets = self._page.assets
        if self._links and len(assets) < MAX_RAW_ASSETS:
            attrs = node.attributes
            for name in _MEDIA_ATTRIBUTES[node.tag_id]:
                value = attrs.get(name)
                if value:
                    assets.append(SrcSet(value) if name == "srcset" else value)
        return False

    def script(self, node: Node) -> bool:
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


_RARE: Final[dict[int, Callable[[_Scan, Node], bool]]] = {
    _META: _Scan.meta,
    _LINK: _Scan.link,
    _MEDIA: _Scan.media,
    _FRAME: _Scan.frame,
    _TITLE: _Scan.title,
    _SCRIPT: _Scan.script,
    _BASE: _Scan.base,
    _HTML: _Scan.html,
    _AREA: _Scan.area,
    _RAW: _Scan.raw,
}
"""What happens at the rarer elements; true when the text node that follows is no text."""
