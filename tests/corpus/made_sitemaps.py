"""Sitemaps of our own, as sites write them, with what they mean; seeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

URL: Final = "https://a.example/s/sitemap.xml"

LOCS: Final[dict[str, str | None]] = {
    "https://a.example/1": "https://a.example/1",
    " \n  https://a.example/2\n ": "https://a.example/2",
    "<![CDATA[https://a.example/3?a=1&b=2]]>": "https://a.example/3?a=1&b=2",
    "\n<![CDATA[ https://a.example/4 ]]>\n": "https://a.example/4",
    "https://a.example/5?a=1&amp;b=2": "https://a.example/5?a=1&b=2",
    "https://a.example/6?a=1&b=2": "https://a.example/6?a=1&b=2",
    "https://a.example/7<!-- note -->/x": "https://a.example/7/x",
    "<!-- https://a.example/no -->https://a.example/8": "https://a.example/8",
    "/9": "https://a.example/9",
    "10": "https://a.example/s/10",
    "//b.example/11": "https://b.example/11",
    "http://b.example/12": "http://b.example/12",
    "https://a.example/caf\u00e9": "https://a.example/caf%C3%A9",
    "https://a.example/caf&#233;": "https://a.example/caf%C3%A9",
    "https://a.example/caf&eacute;": "https://a.example/caf%C3%A9",
    "HTTPS://A.EXAMPLE/13": "https://a.example/13",
    "https://a.example/1 4": "https://a.example/1%204",
    "https://a.example/15#x": "https://a.example/15",
    "https://a.example/1\n6": "https://a.example/16",
    "https://\u4f8b\u3048.example/17": "https://xn--r8jz45g.example/17",
    "https://a.example/18?q=&lt;x&gt;&quot;&apos;": None,
    "https://a.example/19&unknown;": None,
    "": None,
    "  ": None,
    "mailto:x@a.example": None,
    "https:///": None,
    "ftp://a.example/20": None,
}
"""What `loc` may hold, and the URL that it means."""

LASTMODS: Final[dict[str, int | None]] = {
    "2002": 1_009_843_200,
    "2002-10": 1_033_430_400,
    "2002-10-02": 1_033_516_800,
    "2002-10-02T13:00Z": 1_033_563_600,
    "2002-10-02T15:00+02:00": 1_033_563_600,
    "2002-10-02T13:00:00Z": 1_033_563_600,
    "2002-10-02T13:00:00.45Z": 1_033_563_600,
    "2002-10-02T13:00:00.1234567+00:00": 1_033_563_600,
    "\n 2002-10-02 \n": 1_033_516_800,
    "<![CDATA[2002-10-02]]>": 1_033_516_800,
    "2002-10-02 13:00:00": 1_033_563_600,
    "Wed, 02 Oct 2002 13:00:00 GMT": 1_033_563_600,
    "2002-10-2": 1_033_516_800,
    "2002/10/02": 1_033_516_800,
    "2999-01-01": None,
    "1960-01-01": None,
    "today": None,
    "": None,
}
"""Values of `lastmod`, and the seconds since the epoch that they mean."""

_SPACES: Final = (
    ' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"',
    ' xmlns="http://www.google.com/schemas/sitemap/0.84"',
    ' xmlns="https://a.example/wrong"',
    "",
)
_MORE: Final = (
    "<changefreq>daily</changefreq>",
    "<priority>0.5</priority>",
    '<xhtml:link rel="alternate" hreflang="de" href="https://a.example/de"/>',
    "<image:image><image:loc>https://a.example/no.png</image:loc></image:image>",
    "<video:video><video:content_loc>https://a.example/no.mp4</video:content_loc></video:video>",
    "<news:news><news:title>T</news:title></news:news>",
    "<mobile:mobile/>",
    "<PageMap><DataObject><Attribute>x</Attribute></DataObject></PageMap>",
    "<!-- <loc>https://a.example/no</loc> -->",
)
_EXTENSIONS: Final = (
    ' xmlns:xhtml="http://www.w3.org/1999/xhtml"'
    ' xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
    ' xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
    ' xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
    ' xmlns:mobile="http://www.google.com/schemas/sitemap-mobile/1.0"'
)


class Made(NamedTuple):
    """A sitemap, and the URLs and dates that it means, in order."""

    body: bytes
    means: list[tuple[str, int | None]]


def sitemaps(random: Random, count: int) -> Iterator[Made]:
    """`count` sitemaps and indexes."""
    for _ in range(count):
        yield _sitemap(random)


def _sitemap(random: Random) -> Made:
    index = random.random() < 0.3
    root, entry = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    prefix = random.choice(("", "", "", "sm:", "ns0:"))
    space = random.choice(_SPACES)
    if prefix:
        space = space.replace("xmlns=", f"xmlns:{prefix[:-1]}=")
    means = []
    entries = []
    for _ in range(random.randint(0, 5)):
        loc = random.choice(tuple(LOCS))
        parts = [f"<~loc>{loc}</~loc>"]
        lastmod = random.choice((None, *LASTMODS))
        if lastmod is not None:
            parts.append(f"<~lastmod>{lastmod}</~lastmod>")
        parts += random.sample(_MORE, random.choice((0, 0, 1, 3)))
        random.shuffle(parts)
        entries.append(f"<~{entry}>{''.join(parts)}</~{entry}>")
        url = LOCS[loc]
        if url is not None:
            means.append((url, None if lastmod is None else LASTMODS[lastmod]))
    text = f"<~{root}{space}{_EXTENSIONS}>{random.choice(('', chr(10))).join(entries)}</~{root}>"
    text = text.replace("<~", f"<{prefix}").replace("</~", f"</{prefix}")
    if random.random() < 0.15:
        for name in (root, entry, "loc", "lastmod"):
            text = text.replace(f"{name}>", f"{name.upper()}>").replace(
                f"{name} ", f"{name.upper()} "
            )
    return Made(_encoded(random, text), means)


def _encoded(random: Random, text: str) -> bytes:
    encoding = random.choice(("utf-8", "utf-8", "utf-8", "utf-16", "iso-8859-1"))
    if encoding == "iso-8859-1":
        text = "".join(char if ord(char) < 256 else f"&#{ord(char)};" for char in text)
    declared = f'<?xml version="1.0" encoding="{encoding}"?>'
    if encoding == "utf-8":
        declared = random.choice((declared, "", "\ufeff" + declared, "\n" + declared))
    style = random.choice(
        ("", '<?xml-stylesheet type="text/xsl" href="/s.xsl"?>', "<!-- by us -->")
    )
    return f"{declared}{style}{text}".encode(encoding)
