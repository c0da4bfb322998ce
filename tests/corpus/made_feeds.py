"""Feeds of our own, as sites write them: three formats, all their habits, seeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

URL: Final = "https://a.example/d/feed.xml"

_AT: Final = 1_033_563_600
"""2002-10-02T13:00:00Z."""
_DAY: Final = 1_033_516_800
DATES: Final[dict[str, int | None]] = {
    "Wed, 02 Oct 2002 13:00:00 GMT": _AT,
    "2 Oct 2002 13:00:00 UT": _AT,
    "Wed, 02 Oct 2002 15:00:00 +0200": _AT,
    "2 Oct 2002 08:00:00 EST": _AT,
    "Wed, 2 Oct 02 13:00:00 GMT": _AT,
    "Wed, 02 Oct 2002 13:00 GMT": _AT,
    "wed, 02 oct 2002 13:00:00 gmt": _AT,
    "Wednesday, 02 October 2002 13:00:00 GMT": _AT,
    "Wed, 02-Oct-2002 13:00:00 GMT": _AT,
    "Wed,02 Oct 2002 13:00:00 +0000": _AT,
    "Wed Oct  2 13:00:00 2002": _AT,
    "2002-10-02T13:00:00Z": _AT,
    "2002-10-02T15:00:00+02:00": _AT,
    "2002-10-02T13:00:00.123Z": _AT,
    "2002-10-02T13:00Z": _AT,
    "2002-10-02 13:00:00": _AT,
    "2002-10-02t13:00:00z": _AT,
    " 2002-10-02T13:00:00Z\n": _AT,
    "20021002T130000Z": _AT,
    "Wed, 02 Oct 2002 06:00:00 PDT": _AT,
    "2002-10-02": _DAY,
    "20021002": _DAY,
    "02 Oct 2002": _DAY,
    "Oct 2, 2002": _DAY,
    "2002-10": _DAY - 86_400,
    "2002": 1_009_843_200,
    "": None,
    "soon": None,
    "2002-13-02": None,
    "Wed, 32 Oct 2002 13:00:00 GMT": None,
    "0000-00-00T00:00:00Z": None,
}
"""Dates as they are written, and the seconds since the epoch that they mean."""
_WRITTEN: Final = tuple(DATES)
_TITLES: Final = (
    *("Plain", "One &amp; two", "&lt;b&gt;Bold&lt;/b&gt; one", "<![CDATA[<i>In</i> &amp; out]]>"),
    *(
        "A &lt; B",
        "Caf&#233; &#x2014; x",
        "Caf&eacute;",
        "  spaced\n out ",
        "",
        "R&D",
        "1 < 2",
        "&amp;amp;",
    ),
    *("<![CDATA[a]]><![CDATA[b]]>", "x<!-- c -->y", "&amp;lt;tag&amp;gt;", "\u65e5\u672c"),
)
_LINKS: Final = (
    *("https://a.example/1", "http://other.example/2?a=1&amp;b=2", "/3", "4", "../5", "?p=6", "#7"),
    *(" https://a.example/8 ", "\n/9\n", "<![CDATA[https://a.example/10?a&b]]>", "//b.example/11"),
    *("https://a.example/12?a=1&b=2", "", "mailto:x@a.example"),
    *("https://a.example/caf\u00e9", "HTTP://A.EXAMPLE/13"),
    *("https://a.example/<!-- c -->14", "https://a.example/1 5", "&#104;ttps://a.example/16"),
)  # fmt: skip
_BODIES: Final = (
    *("Words", '&lt;p&gt;Some &lt;a href="/x"&gt;text&lt;/a&gt;&lt;/p&gt;'),
    *("<![CDATA[<p>One</p><p>Two</p>]]>", "<p>Raw <b>markup</b></p>", ""),
    *("a &amp;amp; b", "<![CDATA[<script>no()</script>Yes]]>"),
    *('&lt;img src="/i.png" alt="pic"&gt;Seen',),
)  # fmt: skip


class Made(NamedTuple):
    """A feed and what it is made of."""

    traits: frozenset[str]
    body: bytes


def feeds(random: Random, count: int) -> Iterator[Made]:
    """`count` feeds of all formats."""
    for _ in range(count):
        yield random.choice((rss, rss, atom, atom, rdf))(random)


def rss(random: Random) -> Made:
    """RSS 0.9x or 2.0."""
    traits = {"rss"}
    items = "".join(_rss_item(random, traits) for _ in range(random.choice((1, 2, 3))))
    channel = [
        f"<title>{random.choice(_TITLES)}</title>",
        random.choice(("<link>https://a.example/</link>", "", "<link>/</link>")),
        random.choice(("", '<atom:link rel="self" href="https://a.example/feed"/>')),
        random.choice(("", '<atom:link href="https://hub.example/" rel="hub"/>')),
        random.choice(("", "<language>en-GB</language>", "<dc:language>fr</dc:language>")),
        random.choice(("", "<image><title>I</title><url>/i.png</url><link>/image</link></image>")),
        random.choice(("", "<textInput><title>T</title><link>/search</link></textInput>")),
        f"<description>{random.choice(_BODIES[:3])}</description>",
    ]
    version = random.choice(('version="2.0"', 'version="0.91"', 'version="0.92"', ""))
    base = random.choice(("", "", "", ' xml:base="https://base.example/x/"'))
    if base:
        traits.add("base")
    spaces = (
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom"'
        ' xmlns:content="http://purl.org/rss/1.0/modules/content/"'
        ' xmlns:media="http://search.yahoo.com/mrss/"'
        ' xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
        ' xmlns:dcterms="http://purl.org/dc/terms/"'
        ' xmlns:feedburner="http://rssnamespace.org/feedburner/ext/1.0"'
        ' xmlns:a10="http://www.w3.org/2005/Atom"'
    )
    text = f"<rss {version} {spaces}{base}><channel>{''.join(channel)}{items}</channel></rss>"
    return _made(random, traits, text)


def _rss_item(random: Random, traits: set[str]) -> str:
    parts = []
    if random.random() < 0.85:
        parts.append(f"<link>{random.choice(_LINKS)}</link>")
    if random.random() < 0.9:
        parts.append(f"<title>{random.choice(_TITLES)}</title>")
    guid = random.choice(("", "g-1", "https://a.example/guid", "/guid", "urn:uuid:1", " x "))
    if guid:
        perma = random.choice(
            ("", ' isPermaLink="false"', ' isPermaLink="true"', ' isPermaLink="FALSE"')
        )
        parts.append(f"<guid{perma}>{guid}</guid>")
    date = random.choice(_WRITTEN)
    tag = random.choice(("pubDate", "pubDate", "pubDate", "dc:date", "dcterms:created",
                         "dcterms:modified", "dcterms:issued", "a10:updated",
                         "atom:published"))  # fmt: skip
    parts.append(f"<{tag}>{date}</{tag}>")
    if random.random() < 0.8:
        parts.append(f"<description>{random.choice(_BODIES)}</description>")
    if random.random() < 0.3:
        parts.append(f"<content:encoded>{random.choice(_BODIES[1:3])}</content:encoded>")
    extras = (
        '<enclosure url="/e.mp3" length="1" type="audio/mpeg"/>',
        '<media:content url="/m.jpg" medium="image"><media:title>M</media:title></media:content>',
        "<media:group><media:title>MG</media:title><media:description>MD</media:description></media:group>",
        "<media:title>MT</media:title>",
        "<media:description>MDD</media:description>",
        "<media:thumbnail url='/t.jpg'/>",
        "<itunes:title>IT</itunes:title>",
        "<itunes:summary>IS</itunes:summary>",
        '<source url="/other.xml">Other</source>',
        "<comments>https://a.example/comments</comments>",
        '<atom:link rel="alternate" href="https://a.example/atom-alternate"/>',
        '<atom:link rel="self" href="https://a.example/atom-self"/>',
        "<feedburner:origLink>https://a.example/orig</feedburner:origLink>",
        "<author>x@a.example</author><category>c</category>",
    )
    parts += random.sample(extras, random.choice((0, 0, 1, 2)))
    random.shuffle(parts)
    return f"<item>{''.join(parts)}</item>"


def rdf(random: Random) -> Made:
    """RSS 1.0, its namespaces under usual and odd prefixes."""
    items = "".join(_rdf_item(random) for _ in range(random.choice((1, 2, 3))))
    about = "https://a.example/feed"
    text = (
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
        ' xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"'
        ' xmlns:content="http://purl.org/rss/1.0/modules/content/">'
        f'<channel rdf:about="{about}"><title>{random.choice(_TITLES)}</title>'
        "<link>https://a.example/</link><description>D</description>"
        "<dc:language>de</dc:language><dc:date>2002-10-02T13:00:00Z</dc:date>"
        '<items><rdf:Seq><rdf:li rdf:resource="https://a.example/li"/></rdf:Seq></items></channel>'
        f"{items}</rdf:RDF>"
    )
    return _made(random, {"rdf"}, text)


def _rdf_item(random: Random) -> str:
    parts = [
        f"<title>{random.choice(_TITLES)}</title>",
        f"<dc:date>{random.choice(_WRITTEN)}</dc:date>",
        f"<description>{random.choice(_BODIES)}</description>",
    ]
    if random.random() < 0.8:
        parts.append(f"<link>{random.choice(_LINKS)}</link>")
    random.shuffle(parts)
    return f'<item rdf:about="https://a.example/about/1">{"".join(parts)}</item>'


def atom(random: Random) -> Made:
    """Atom 1.0 or 0.3, with default or odd prefixes, xml:base at every level."""
    traits = {"atom"}
    old = random.random() < 0.15
    space = "http://purl.org/atom/ns#" if old else "http://www.w3.org/2005/Atom"
    prefix = random.choice(("", "", "", "atom:", "a:", "x-1:"))
    entries = "".join(_entry(random, traits, old=old) for _ in range(random.choice((1, 2, 3))))
    base = random.choice(("", "", ' xml:base="https://base.example/b/"', ' xml:base="/rel/"'))
    lang = random.choice(("", ' xml:lang="en"'))
    if base:
        traits.add("base")
    link = random.choice(("", '<~link href="/home"/>', '<~link rel="self" href="/self"/>'))
    said = random.choice(("", "<~subtitle>S</~subtitle>", "<~tagline>S</~tagline>"))
    text = (
        f"<~feed xmlns{':' if prefix else ''}{prefix.rstrip(':')}={quoteattr(space)}{base}{lang}>"
        f"<~title>{random.choice(_TITLES[:3])}</~title>"
        "<~id>tag:a.example,2002:f</~id><~updated>2002-10-02T13:00:00Z</~updated>"
        f"{link}{said}{entries}</~feed>"
    )
    return _made(random, traits, text.replace("<~", f"<{prefix}").replace("</~", f"</{prefix}"))


def _entry(random: Random, traits: set[str], *, old: bool) -> str:
    rels = ("", "", ' rel="alternate"', ' rel="self"', ' rel="enclosure"', ' rel="related"',
            ' rel="edit"', ' rel="via"', ' rel="ALTERNATE"', ' rel="replies"', ' rel="http://x/y"',
            ' rel="http://www.iana.org/assignments/relation/alternate"')  # fmt: skip
    hrefs = (
        "https://a.example/1",
        "/2",
        "3",
        "?4",
        "../5",
        " /6 ",
        "https://b.example/7?a=1&amp;b=2",
        "",
    )
    parts = []
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        base = random.choice(("", "", "", ' xml:base="https://link.example/l/"'))
        kind = random.choice(("", "", ' type="text/html"', ' type="application/json"'))
        parts.append(f'<~link{random.choice(rels)}{base}{kind} href="{random.choice(hrefs)}"/>')
        if base:
            traits.add("link base")
    kind = random.choice(("", ' type="text"', ' type="html"'))
    parts.append(f"<~title{kind}>{random.choice(_TITLES)}</~title>")
    contents = (
        f'<~content type="html">{random.choice(_BODIES[:3])}</~content>',
        (
            '<~content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">In <b>bold</b>'
            '<a href="/no"> no</a></div></~content>'
        ),
        '<~content src="/out.html" type="text/html"/>',
    )
    if random.random() < 0.8:
        parts.append(f"<~id>{random.choice(('tag:1', 'https://a.example/id', 'urn:uuid:2'))}</~id>")
    first, second = ("issued", "modified") if old else ("published", "updated")
    if random.random() < 0.7:
        parts.append(f"<~{first}>{random.choice(_WRITTEN)}</~{first}>")
    if random.random() < 0.7:
        parts.append(f"<~{second}>{random.choice(_WRITTEN)}</~{second}>")
    parts += random.sample(
        (
            f"<~summary{kind}>{random.choice(_BODIES[:3])}</~summary>",
            random.choice(contents),
            "<~author><~name>N</~name><~uri>/uri</~uri></~author>",
            (
                "<~source><~id>tag:s</~id><~title>Source</~title><~link href='/source'/>"
                "<~updated>1999-01-01T00:00:00Z</~updated></~source>"
            ),
            "<~category term='c'/>",
        ),
        random.choice((0, 1, 2)),
    )
    random.shuffle(parts)
    base = random.choice(("", "", "", ' xml:base="https://entry.example/e/"', ' xml:base="sub/"'))
    if base:
        traits.add("entry base")
    return f"<~entry{base}>{''.join(parts)}</~entry>"


def _made(random: Random, traits: set[str], text: str) -> Made:
    encoding = random.choice(("utf-8", "utf-8", "utf-8", "iso-8859-1", "utf-16"))
    if encoding == "iso-8859-1" and not text.isascii():
        text = "".join(char if ord(char) < 256 else f"&#{ord(char)};" for char in text)
    declared = f'<?xml version="1.0" encoding="{encoding}"?>\n'
    before = random.choice(("", "", "", "", "<!-- made -->\n", '<?xml-stylesheet href="/s.xsl"?>'))
    if encoding == "utf-8":
        declared = random.choice(
            (declared, declared, '<?xml version="1.0"?>', "\ufeff" + declared, "")
        )
    return Made(frozenset(traits), f"{declared}{before}{text}".encode(encoding))
