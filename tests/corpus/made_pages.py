"""Pages of our own whose links are written in every way that pages have; seeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

_HREFS: Final = (
    *("/1", "2", "../3", "?a=1&b=2", "?a=1&copy=2"),
    *("?a=1&amp;b=2", "?a&reg;=3", "?x=1&lt=4&sect=5"),
    *("#top", "", " /4 ", "\n/5\n", "/6\n/7", "javascript:x()", "mailto:x@a.example", "data:,x"),
    *("blob:https://a.example/1", "http://b.example/8"),
    *("//b.example/9", "/caf&eacute;", "/caf\u00e9"),
    *("/a&#x2F;b", "&#104;ttp://c.example/", "tel:1"),
    *("/x y", "HTTP://A.EXAMPLE/10", "\\11", "/&nbsp;12"),
)  # fmt: skip
_RELS: Final = ("", "", "", "nofollow", "NOFOLLOW ugc", "next", "noopener noreferrer", "tag")
_LINK_RELS: Final = ("next", "prev", "alternate", "canonical", "stylesheet", "alternate stylesheet",
                     "icon", "Canonical", "preload", "dns-prefetch", "amphtml")  # fmt: skip
BASES: Final = ("", "", "", "<base href=/b/>", "<base target=x>", "<base href='http://b.example/c/d'>",
                 "<base href='data:,x'>", "<base href=''>", "<base href='e'><base href='/f/'>",
                 "<base href=' /g/ '>", "<base href='http://[x'>", "<base href='javascript:x'>",
                 "<base href='?q'>", "<base href='//c.example'>",
                 "<base href='mailto:x'>")  # fmt: skip


def _quoted(value: str, random: Random) -> str:
    if value and not set(value) & set(" \n\"'=<>`\\") and random.random() < 0.3:
        return value
    return random.choice(("'{}'", '"{}"')).format(value)


def _anchor(random: Random) -> str:
    href = _quoted(random.choice(_HREFS), random)
    rel = random.choice(_RELS)
    name = random.choice(("href", "href", "HREF", "href "))
    more = random.choice(("", "", " onclick='go()'", " hreflang=de", " download", " ping=/ping"))
    tag = random.choice(("a", "a", "a", "A", "area"))
    end = "" if tag == "area" else random.choice(("</a>", "</a>", ""))
    inside = random.choice(("x", "<b>x</b>", "<img src=i.png alt=y>", ""))
    rel = f" rel={rel!r}" if rel else ""
    return f"<{tag} {name}={href}{rel}{more}>{inside if end else ''}{end}"


def _piece(random: Random) -> str:
    anchor = _anchor(random)
    return random.choice((
        anchor, anchor, anchor,
        f"<p>{anchor}</p>",
        f"<noscript>{anchor}</noscript>",
        f"<svg><a xlink:href={_quoted(random.choice(_HREFS), random)}><text>s</text></a></svg>",
        f"<svg><a href={_quoted(random.choice(_HREFS), random)}><circle/></a></svg>",
        f"<math><mtext>{anchor}</mtext></math>",
        f"<table>{anchor}<tr><td>{anchor}</table>",
        f"<select><option>o</select>{anchor}",
        f"<textarea>{anchor}</textarea>",
        f'<script>document.write("{anchor.replace(chr(34), chr(39))}")</script>',
        f"<!-- {anchor} -->",
        f"<iframe src={_quoted(random.choice(_HREFS), random)}>{anchor}</iframe>",
        f"<map name=m>{anchor}</map>",
        "<form action=/form method=get><input name=q><button formaction=/go>g</button></form>",
        "<blockquote cite=/cite>q</blockquote><q cite=/cite2>q</q><body background=/bg.png>",
        f"<link rel='{random.choice(_LINK_RELS)}' href={_quoted(random.choice(_HREFS), random)}>",
        "<a name=n>no link</a><a>none</a>",
        f"<div hidden>{anchor}</div><details>{anchor}</details>",
        f"<object data=/o.swf>{anchor}</object><video src=/v.mp4>{anchor}</video>",
    ))  # fmt: skip


def page(random: Random) -> str:
    """A page with a dozen pieces."""
    base = random.choice(BASES)
    pieces = [_piece(random) for _ in range(random.randint(1, 12))]
    if random.random() < 0.3:
        pieces.insert(random.randrange(len(pieces)), base)
        base = ""
    head = random.choice(("<!doctype html><html><head>{}</head><body>", "{}", "<html>{}<body>"))
    return head.format(base) + "\n".join(pieces)


_TIMES: Final = ("0", "5", "0.5", ".5", " 3 ", "", "x", "-1", "1.5.2", "00", "+1")
_MARKS: Final = (";", ",", " ", "; ", " ;\n", ";;", "")
_NAMES: Final = ("url=", "URL=", "Url = ", "", "uri=", "url ", "url")
_TARGETS: Final = ("/x", "'/x'", '"/x"', "'/x", '"/x;y=1"', "http://b.example/?a=1&amp;b=2", "",
                   "x y", "/x ", "?url=/z", "'/x' y", "x'y", "javascript:x", "/&quot;")  # fmt: skip


def refresh(random: Random) -> str:
    """The content of a meta refresh element, as written between double quotes."""
    content = random.choice(_TIMES) + random.choice(_MARKS)
    content += random.choice(_NAMES) + random.choice(_TARGETS)
    return content.replace('"', "&quot;")
