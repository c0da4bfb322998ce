"""Microdata (HTML, section 5): items, their properties, and what they refer to by `itemref`.

Where pages go beyond the standard, so does the reader: an item with `itemprop` but no item around
it counts as an item of its own; `content` on any element stands for its text; and white space is
that of a reader, not of the markup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parsers.data.items import MAX_DEPTH, MAX_NODES, URL_ATTRIBUTES, Budget, Json, Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parsers.documents.html import Document, Node


@dataclass(slots=True, eq=False)
class _Group:
    """Properties whose nearest item or target of an `itemref` is the same, in order."""

    content: list[_Property | _Group] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Item:
    types: list[str]
    identity: str
    group: _Group
    refs: list[str]


@dataclass(slots=True, eq=False)
class _Property:
    order: int
    names: list[str]
    value: _Item | str


def microdata(document: Document, absolute: Callable[[str], str]) -> tuple[list[Json], bool]:
    """The items of a page that are no property of another: type, id, properties.

    Args:
        document: the page.
        absolute: makes a reference absolute; the empty string when it is no URL.

    Returns:
        The items, and whether some of the page was left out.
    """
    reader = _Reader(document, Budget(document, absolute))
    return reader.read(), reader.budget.capped


class _Reader:
    def __init__(self, document: Document, budget: Budget) -> None:
        self._document = document
        self.budget = budget
        self._around: Surroundings[_Group | None] = Surroundings(document, None)
        self._targets: dict[str, _Group | None] = {}
        """Groups by the id that an `itemref` names; None: not met."""
        self._top: list[_Item] = []

    def read(self) -> list[Json]:
        for order, (node, attributes) in enumerate(self._nodes()):
            self._place(order, node, attributes)
        found = []
        for item in self._top:
            built = self._build(item, ())
            if built is None:
                break
            found.append(built)
        return found

    def _nodes(self) -> Sequence[tuple[Node, Mapping[str, str]]]:
        """The elements that matter, targets of `itemref` among them, in order."""
        document = self._document
        css = "[itemscope],[itemprop]"
        refs = {
            ref
            for node in document.select("[itemref]")[:MAX_NODES]
            for ref in (document.attribute(node, "itemref") or "").split()
        }
        if refs:
            self._targets = dict.fromkeys(refs)
            css += ",[id]"
        found = []
        for node in document.select(css):
            attributes = document.attributes(node)
            if "itemscope" in attributes or "itemprop" in attributes or attributes["id"] in refs:
                found.append((node, attributes))
                if len(found) >= MAX_NODES:
                    self.budget.capped = True
                    break
        return found

    def _place(self, order: int, node: Node, attributes: Mapping[str, str]) -> None:
        """Put an element's property and item where they belong."""
        around = self._around.of(node)
        is_item = "itemscope" in attributes
        identity = attributes.get("id", "")
        if identity in self._targets and self._targets[identity] is None:  # the first of that id
            target = self._targets[identity] = _Group()
            if around is not None:
                around.content.append(target)
            around = target
            self._around.put(node, target)
        item = self._item(attributes) if is_item else None
        if item is not None:
            self._around.put(node, item.group)
        names = list(dict.fromkeys(attributes.get("itemprop", "").split()))
        if names and around is not None:
            value = item or self._value(node, attributes)
            around.content.append(_Property(order, names, value))
        elif item is not None:
            self._top.append(item)

    def _item(self, attributes: Mapping[str, str]) -> _Item:
        written = attributes.get("itemid", "").strip()
        return _Item(
            types=list(dict.fromkeys(attributes.get("itemtype", "").split())),
            identity=self.budget.url(written) if written else "",
            group=_Group(),
            refs=attributes.get("itemref", "").split(),
        )

    def _value(self, node: Node, attributes: Mapping[str, str]) -> str:
        tag, budget = self._document.tag(node), self.budget
        content = attributes.get("content")
        url = attributes.get(URL_ATTRIBUTES.get(tag, ""))
        if url is not None:
            return budget.url(url)
        if tag in ("data", "meter") and "value" in attributes:
            return budget.fit(attributes["value"])
        if tag == "time" and "datetime" in attributes:
            return budget.fit(attributes["datetime"])
        if content is not None:
            return budget.fit(content)
        if tag in URL_ATTRIBUTES or tag in ("meta", "data", "meter"):
            return ""
        return budget.text(node)

    def _build(self, item: _Item, within: tuple[_Item, ...]) -> Json | None:
        """An item as JSON; None when there is no room for it."""
        if not self.budget.take(sum(map(len, item.types)) + len(item.identity)):
            return None
        properties: dict[str, list[Json | str]] = {}
        built: Json = {"type": item.types, "properties": properties}
        if item.identity:
            built["id"] = item.identity
        within = (*within, item)
        for one in self._properties(item):
            value: Json | str | None = None
            if isinstance(one.value, str):
                value = one.value
            elif len(within) >= MAX_DEPTH:
                self.budget.capped = True
            elif one.value not in within:  # else it is a property of itself
                value = self._build(one.value, within)
            if value is None:
                continue
            size = len(value) if isinstance(value, str) else 0
            if not self.budget.take(sum(size + len(name) for name in one.names)):
                break
            for name in one.names:
                properties.setdefault(name, []).append(value)
        return built

    def _properties(self, item: _Item) -> list[_Property]:
        """The properties of an item in the order of the page, each once."""
        groups = [item.group]
        groups.extend(found for ref in item.refs if (found := self._targets.get(ref)) is not None)
        seen = set(map(id, groups))
        properties: dict[int, _Property] = {}
        while groups:
            for one in groups.pop().content:
                if isinstance(one, _Property):
                    properties[one.order] = one
                elif id(one) not in seen:
                    seen.add(id(one))
                    groups.append(one)
        return [properties[order] for order in sorted(properties)]
