"""RDFa Lite 1.1 (`vocab`, `typeof`, `property`, `resource`, `prefix`), and `about`, as items.

An item has the shape of a microdata item: the types are absolute, a property of the vocabulary
that the item's first type is of goes by its short name, and any other by its full one. What is
said of the page itself in `meta` elements is left to the record's `meta` and `opengraph`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from parsers.data.items import MAX_DEPTH, MAX_NODES, Budget, Json, Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.documents.html import Document, Node

_PREFIXES: Final = MappingProxyType(
    {
        "article": "http://ogp.me/ns/article#",
        "book": "http://ogp.me/ns/book#",
        "cc": "http://creativecommons.org/ns#",
        "csvw": "http://www.w3.org/ns/csvw#",
        "ctag": "http://commontag.org/ns#",
        "dc": "http://purl.org/dc/terms/",
        "dc11": "http://purl.org/dc/elements/1.1/",
        "dcat": "http://www.w3.org/ns/dcat#",
        "dcterms": "http://purl.org/dc/terms/",
        "fb": "http://ogp.me/ns/fb#",
        "foaf": "http://xmlns.com/foaf/0.1/",
        "gr": "http://purl.org/goodrelations/v1#",
        "ical": "http://www.w3.org/2002/12/cal/icaltzd#",
        "music": "http://ogp.me/ns/music#",
        "og": "http://ogp.me/ns#",
        "org": "http://www.w3.org/ns/org#",
        "owl": "http://www.w3.org/2002/07/owl#",
        "profile": "http://ogp.me/ns/profile#",
        "prov": "http://www.w3.org/ns/prov#",
        "qb": "http://purl.org/linked-data/cube#",
        "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
        "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
        "rev": "http://purl.org/stuff/rev#",
        "schema": "http://schema.org/",
        "sioc": "http://rdfs.org/sioc/ns#",
        "skos": "http://www.w3.org/2004/02/skos/core#",
        "v": "http://rdf.data-vocabulary.org/#",
        "vcard": "http://www.w3.org/2006/vcard/ns#",
        "video": "http://ogp.me/ns/video#",
        "void": "http://rdfs.org/ns/void#",
        "xsd": "http://www.w3.org/2001/XMLSchema#",
    }
)
"""The initial context (RDFa core, section 9) as far as pages use it, and OpenGraph's."""
_CSS: Final = "[property],[typeof],[vocab],[prefix],[resource],[about]"


@dataclass(slots=True, eq=False)
class _Subject:
    """What something is said of; `identity` is empty when it has no name."""

    identity: str = ""
    types: list[str] = field(default_factory=list)
    said: list[tuple[str, str | _Subject]] = field(default_factory=list)
    inner: bool = False
    """Whether it is the value of a property."""


class _Context(NamedTuple):
    """What holds inside of an element."""

    subject: _Subject
    vocab: str
    prefixes: Mapping[str, str]


def rdfa(document: Document, base: str, absolute: Callable[[str], str]) -> tuple[list[Json], bool]:
    """The items of a page that are no property of another: type, id, properties.

    Args:
        document: the page.
        base: its base URL, the name of what is said of the page itself.
        absolute: makes a reference absolute; the empty string when it is no URL.

    Returns:
        The items, and whether some of the page was left out.
    """
    reader = _Reader(document, base, Budget(document, absolute))
    return reader.read(), reader.budget.capped


class _Reader:
    def __init__(self, document: Document, base: str, budget: Budget) -> None:
        self._document = document
        self.budget = budget
        self._page = _Subject(base)
        self._subjects: list[_Subject] = [self._page]
        self._named: dict[str, _Subject] = {base: self._page}
        self._around = Surroundings(document, _Context(self._page, "", _PREFIXES))

    def read(self) -> list[Json]:
        nodes = self._document.select(_CSS)
        self.budget.capped = len(nodes) > MAX_NODES
        for node in nodes[:MAX_NODES]:
            self._read(node, self._document.attributes(node))
        found = []
        for subject in self._subjects:
            if subject.inner or not (subject.types or subject.said):
                continue
            built = self._build(subject, ())
            if built is None:
                break
            found.append(built)
        return found

    def _read(self, node: Node, attributes: Mapping[str, str]) -> None:
        """One element (RDFa core, section 7.5, as far as Lite goes)."""
        around = self._around.of(node)
        around = _context(around, attributes)
        names = _terms(attributes.get("property", ""), around)
        types = _terms(attributes.get("typeof", ""), around)
        about = self._name(attributes, "about")
        value = self._name(attributes, "resource", "href", "src")
        literal = not attributes.keys().isdisjoint(("content", "datatype"))
        subject, typed = around.subject, None
        if about is not None:
            subject = self._subject(about)
        if names and not literal:
            if "typeof" in attributes:
                typed = subject if about is not None else self._subject(value)
        else:
            if about is None and value is not None:
                subject = self._subject(value)
            elif about is None and "typeof" in attributes:
                subject = self._subject(None)
            typed = subject if "typeof" in attributes else None
        if typed is not None:
            typed.types.extend(one for one in types if one not in typed.types)
        if names and not (subject is self._page and self._document.tag(node) in ("meta", "link")):
            self._say(subject, names, self._value(node, attributes, value, typed, about))
        inner = subject if typed is None or about is not None else typed
        self._around.put(node, _Context(inner, around.vocab, around.prefixes))

    def _say(self, subject: _Subject, names: list[str], value: str | _Subject) -> None:
        if isinstance(value, _Subject):
            value.inner = value is not subject
        subject.said.extend((name, value) for name in names)

    def _value(
        self,
        node: Node,
        attributes: Mapping[str, str],
        resource: str | None,
        typed: _Subject | None,
        about: str | None,
    ) -> str | _Subject:
        for name in ("content", "datetime"):
            if name in attributes:
                return self.budget.fit(attributes[name])
        if "datatype" not in attributes and self._document.tag(node) != "time":
            if typed is not None and about is None:
                return typed
            if resource is not None:
                return resource
        return self.budget.text(node)

    def _name(self, attributes: Mapping[str, str], *keys: str) -> str | None:
        """The first of these attributes that is there, as a URL."""
        written = next((attributes[key] for key in keys if key in attributes), None)
        if written is None or written.startswith(("_:", "[_:")):
            return written
        return self.budget.url(written)

    def _subject(self, identity: str | None) -> _Subject:
        """The subject of that name; a new one when there is no name."""
        found = None if not identity else self._named.get(identity)
        if found is None:
            hidden = not identity or identity.startswith(("_:", "[_:"))
            found = _Subject("" if hidden else str(identity))
            self._subjects.append(found)
            if identity:
                self._named[identity] = found
        return found

    def _build(self, subject: _Subject, within: tuple[_Subject, ...]) -> Json | None:
        """An item as JSON; None when there is no room for it."""
        if not self.budget.take(sum(map(len, subject.types)) + len(subject.identity)):
            return None
        properties: dict[str, list[Json | str]] = {}
        built: Json = {"type": subject.types, "properties": properties}
        if subject.identity:
            built["id"] = subject.identity
        within = (*within, subject)
        vocab = _vocabulary(subject.types[0]) if subject.types else ""
        for full, said in subject.said:
            value: Json | str | None = None
            if isinstance(said, str):
                value = said
            elif said in within:
                value = said.identity
            elif len(within) >= MAX_DEPTH:
                self.budget.capped = True
            else:
                value = self._build(said, within)
            if value is None:
                continue
            name = full.removeprefix(vocab) or full
            size = len(value) if isinstance(value, str) else 0
            if not self.budget.take(size + len(name)):
                break
            properties.setdefault(name, []).append(value)
        return built


def _context(around: _Context, attributes: Mapping[str, str]) -> _Context:
    vocab, prefixes = around.vocab, around.prefixes
    if "vocab" in attributes:
        vocab = attributes["vocab"].strip()
    if "prefix" in attributes:
        words = attributes["prefix"].split()
        declared = {
            name[:-1].lower(): url
            for name, url in zip(words[::2], words[1::2], strict=False)
            if name.endswith(":")
        }
        if declared:
            prefixes = {**prefixes, **declared}
    return _Context(around.subject, vocab, prefixes)


def _terms(written: str, context: _Context) -> list[str]:
    """Terms and prefixed names in full, each once; a term without a vocabulary as it is."""
    found = []
    for word in written.split():
        prefix, colon, rest = word.partition(":")
        if not colon:
            found.append(context.vocab + word)
        elif rest.startswith("//"):
            found.append(word)
        else:
            space = context.prefixes.get(prefix.lower())
            found.append(word if space is None else space + rest)
    return list(dict.fromkeys(found))


def _vocabulary(name: str) -> str:
    """What a full name begins with, up to the term."""
    return name[: max(name.rfind("/"), name.rfind("#")) + 1]
