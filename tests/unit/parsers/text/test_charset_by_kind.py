"""Every kind of body under every way to say its encoding: what is heard, and by whom."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from parsers.records.parse import Parsed
from parsers.text import charset
from tests.unit.parsers.parsing import parsed, sent

WORD = "Привет-мир-сегодня-ясная-погода-завтра-ожидается-дождь"


class Kind(NamedTuple):
    """A kind of body, and how it takes each of the ways; `-`: the way does not exist for it."""

    media_type: str
    body: str
    """With `@` where its own declaration stands, if it has one."""
    declaration: str
    """In its own way, of koi8-r."""
    header: str = "koi8-r header"
    declared: str = "koi8-r meta"
    none: str = "utf-8 default"
    """Nothing said, bytes of UTF-8."""
    stray: str = "windows-1251 detected"
    """Nothing said, bytes of windows-1251."""
    lying_meta: str = "utf-8 default"
    """Nothing said but in a quoted `<meta charset=koi8-r>`, bytes of UTF-8."""
    quoted: str = "<meta/charset=koi8-r>%"
    """How such an element is quoted in it."""
    via: str = "seed"


_RSS = "@<rss><channel><title>%</title></channel></rss>"
_XML = "<?xml version='1.0' encoding='koi8-r'?>"
_META = "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>"
_XHTML = "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><head></head>%</html>"
_SITEMAP = "@<urlset><url><loc>https://a.example/%</loc></url></urlset>"
_STRICT = {"stray": "utf-8 default"}
_IN_XML = {"quoted": "<![CDATA[<meta/charset=koi8-r>]]>%"}
_KINDS = {
    "html": Kind("text/html", "<html><head>@</head>%</html>", _META, none="utf-8 detected",
                 lying_meta="koi8-r meta"),
    "html with an xml declaration": Kind("text/html", "@<html>%</html>", _XML,
                                         none="utf-8 detected", lying_meta="koi8-r meta"),
    "html sent as text": Kind("text/plain", "<html><head>@</head>%</html>", _META,
                              none="utf-8 detected", lying_meta="koi8-r meta"),
    "html without a type": Kind("", "<html><head>@</head>%</html>", _META,
                                none="utf-8 detected", lying_meta="koi8-r meta"),
    "html sent as json": Kind("application/json", "<html><head>@</head>%</html>", _META,
                              none="utf-8 detected", lying_meta="koi8-r meta"),
    "xhtml": Kind("application/xhtml+xml", f"@{_XHTML.partition('?>')[2]}", _XML),
    "xhtml sent as xml": Kind("text/xml", f"@{_XHTML.partition('?>')[2]}", _XML),
    "rss": Kind("application/rss+xml", _RSS, _XML, **_IN_XML),
    "rss sent as html": Kind("text/html", _RSS, _XML, **_IN_XML),
    "atom": Kind("application/atom+xml", "@<feed><title>%</title></feed>", _XML, **_IN_XML),
    "xml": Kind("application/xml", "@<a>%</a>", _XML, **_IN_XML),
    "svg-like": Kind("application/mathml+xml", "@<math>%</math>", _XML, **_IN_XML),
    "sitemap": Kind("application/xml", _SITEMAP, _XML, **_STRICT,
                    quoted="%</loc><x><![CDATA[<meta/charset=koi8-r>]]></x><loc>"),
    "text sitemap": Kind("text/plain", "https://a.example/%", "-", header="utf-8 default",
                         **_STRICT, quoted="%\n<meta/charset=koi8-r>", via="sitemap"),
    "json": Kind("application/json", '{"a": "%"}', "-", **_STRICT),
    "json feed": Kind("application/feed+json", '{"title": "%"}', "-", **_STRICT),
    "json-ld": Kind("application/ld+json", '["%"]', "-", **_STRICT),
    "json sent as text/json": Kind("text/json", '["%"]', "-", **_STRICT),
    "css": Kind("text/css", "@a { content: '%' }", '@charset "koi8-r";'),
    "javascript": Kind("text/javascript", "let a = '%'", "-"),
    "plain text": Kind("text/plain", "%", "-", none="utf-8 detected",
                       lying_meta="utf-8 detected"),
    "csv": Kind("text/csv", "a,b\n1,%", "-", none="utf-8 detected", lying_meta="utf-8 detected"),
    "markdown": Kind("text/markdown", "# %", "-", none="utf-8 detected",
                     lying_meta="utf-8 detected"),
    "webvtt": Kind("text/vtt", "WEBVTT\n\n%", "-", header="utf-8 default", **_STRICT),
}  # fmt: skip
_BOMS = {
    "utf-8": "utf-8",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
}
_WAYS = (
    *(f"bom of {name}" for name in _BOMS),
    "bom over header",
    "header",
    "unknown header",
    "declared",
    "header over declared",
    "none",
    "stray",
    "lying meta",
    "wide",
    "wide header on ASCII",
    "narrow header on UTF-16",
    "wide header on UTF-16",
)
_ROWS = [(name, way) for name in _KINDS for way in _WAYS]
_LATIN = "a-plain-Latin-sentence-of-some-length-in-two-halves"


class Case(NamedTuple):
    """What is sent, and what must be heard."""

    body: bytes
    label: str
    """In the Content-Type header; empty: none."""
    wanted: str
    text: str
    """A part of what is read; a replacement character: it cannot be read."""


def _case(kind: Kind, way: str) -> Case:
    bare = kind.body.replace("@", "")
    word = bare.replace("%", WORD)
    latin = bare.replace("%", _LATIN)
    stated = kind.body.replace("@", kind.declaration).replace("%", WORD)
    deaf = kind.header.startswith("utf-8")
    mute = kind.declaration == "-"
    seen = WORD if kind.stray.startswith("windows") else "\ufffd"
    lie = kind.lying_meta.partition(" ")[0]
    cases = {
        f"bom of {name}": Case(f"\ufeff{word}".encode(codec), "", f"{name} bom", WORD)
        for name, codec in _BOMS.items()
    }
    cases |= {
        "bom over header": Case(f"\ufeff{word}".encode(), "koi8-r", "utf-8 bom", WORD),
        "header": Case(word.encode("utf-8" if deaf else "koi8-r"), "koi8-r", kind.header, WORD),
        "unknown header": Case(word.encode(), "nonsense", kind.none, WORD),
        "declared": Case(
            stated.encode("utf-8" if mute else "koi8-r"),
            "",
            kind.none if mute else kind.declared,
            WORD,
        ),
        "header over declared": Case(
            stated.encode("utf-8" if deaf else "cp1251"),
            "windows-1251",
            kind.none if deaf else "windows-1251 header",
            WORD,
        ),
        "none": Case(word.encode(), "", kind.none, WORD),
        "stray": Case(word.encode("cp1251"), "", kind.stray, seen),
        "lying meta": Case(
            bare.replace("%", kind.quoted.replace("%", WORD)).encode(lie), "", kind.lying_meta, WORD
        ),
        "wide": Case(latin.encode("utf-16-le"), "", "utf-16le detected", _LATIN),
        "wide header on ASCII": Case(latin.encode(), "utf-16", kind.none, _LATIN),
        "narrow header on UTF-16": Case(
            latin.encode("utf-16-be"), "utf-8", "utf-16be detected", _LATIN
        ),
        "wide header on UTF-16": Case(
            latin.encode("utf-16-be"),
            "utf-16be",
            "utf-16be detected" if deaf else "utf-16be header",
            _LATIN,
        ),
    }
    assert set(cases) == set(_WAYS)
    return cases[way]


def _text(outcome: Parsed) -> str:
    """All that can be read of a record."""
    record = outcome.record
    found = [record["title"], record["text"], *sent(outcome)]
    return " ".join(found)


@pytest.mark.parametrize(("name", "way"), _ROWS)
def test_who_says_the_encoding(name: str, way: str) -> None:
    kind = _KINDS[name]
    case = _case(kind, way)
    content_type = kind.media_type + (f"; charset={case.label}" if case.label else "")
    outcome = parsed(case.body, content_type=content_type, via=kind.via)
    record = outcome.record
    assert f"{record['charset']} {record['charset_source']}" == case.wanted
    if "sitemap" not in name:
        assert case.text in _text(outcome)
    elif case.text != "\ufffd":
        assert len(sent(outcome)) == 1
    else:
        assert sent(outcome) == []  # no guess, no URL that nobody wrote


def test_every_format_has_a_row() -> None:
    formats = set(charset.RULES)
    assert formats == {
        "html", "xhtml", "xml", "sitemap", "url_list", "json", "css", "script", "plain", "utf8"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "content_type", "wanted", "text"),
    [
        # an answer in JSON that quotes a page
        (json.dumps({"h": "<html><meta charset=gbk>é"}, ensure_ascii=False), "application/json",
         "utf-8 default", "é"),
        # markup that is no page, in text: what it says of itself is text too
        ("<p><meta charset=gbk>é", "text/plain", "utf-8 detected", "<meta charset=gbk>é"),
        ("<meta charset=gbk>,é\n", "text/csv", "utf-8 detected", "<meta charset=gbk>,é"),
        ("<?xml version='1.0' encoding='gbk'?>,é", "text/csv", "utf-8 detected", "é"),
        ('@charset "gbk";é', "text/plain", "utf-8 detected", "é"),
        (' @charset "gbk";a{content:"é"}', "text/css", "utf-8 default", "é"),
        ('@charset "utf-16";a{content:"é"}', "text/css", "utf-8 meta", "é"),
        ("<?xml version='1.0' encoding='UTF-16'?><a>é</a>", "text/xml", "utf-8 meta", "é"),
        ("\n <?xml version='1.0' encoding='utf-8'?><a>é</a>", "text/xml", "utf-8 meta", "é"),
        # XHTML: a meta element counts neither against UTF-8 nor against the declaration
        ("<html xmlns='x'><meta charset='gbk'/>é</html>", "application/xhtml+xml",
         "utf-8 default", "é"),
    ],
    ids=range(10),
)  # fmt: skip
def test_quotations_and_strangers(body: str, content_type: str, wanted: str, text: str) -> None:
    record = parsed(body.encode(), content_type=content_type).record
    assert f"{record['charset']} {record['charset_source']}" == wanted
    assert text in record["text"]


def test_xhtml_that_is_no_utf8_is_read_as_its_meta_element_says() -> None:
    body = f"<html xmlns='x'><head><meta charset='koi8-r'/></head>{WORD}</html>".encode("koi8-r")
    record = parsed(body, content_type="application/xhtml+xml").record
    assert (record["charset"], record["charset_source"]) == ("koi8-r", "meta")
    assert WORD in record["text"]


def test_no_body_has_the_default() -> None:
    for document, rule in charset.RULES.items():
        found = charset.sniff(b"", "text/html; charset=utf-16", document)
        assert found.name == "utf-8"
        assert found.source == ("default" if rule.utf8 else "detected")
