"""Any bytes under any headers give a record or a typed failure, and what comes out can be sent."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.data.structured import dump_list, json_ld
from parsers.documents import guard
from parsers.documents.robots_meta import of_header
from parsers.documents.xmlstream import decoder
from parsers.records.parse import Failure, Parsed
from parsers.text import charset, encodings
from parsers.worker.encode import encode_batches, encode_record
from schemas.codec import decode
from tests.unit.parsers.parsing import NOW_MS, crawl_parser, fetch_result

EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "25"))
"""Few here, where every change waits for them; the integration tier runs thousands."""

_MARKUP = st.lists(
    st.sampled_from(
        [
            "<a href='", "'>", "<base href=", ">", "<meta charset=", "<meta name=robots content=",
            "<script type=application/ld+json>", "</script>", "<div>", "</div>", "<pre>", "<br>",
            "<title>", "<svg><a xlink:href=", "<template>", "<!--", "-->", "<table><tr><td>",
            "<frameset><frame src=", "http://", "//b.example/", "#", "?", "\\", "%", "{", "}", "[",
            '"', "'", "<img srcset='", " 1x,", "<p itemscope itemprop=x>", "&amp;", "&", "\x00",
            "\ud7ff", "é", "中", "<math><annotation-xml>", "<select><option>", "noindex,none",
            "<meta http-equiv=refresh content='0;url=", "<link rel=canonical href=", "<plaintext>",
            "utf-16", "gbk", "\n\n", "javascript:", "data:,", "<?xml version='1.0'?>", "<rss>",
            "<channel><item><link>", "</link></item>", "<urlset><url><loc>", "</loc></url>",
            "<sitemapindex><sitemap>", "<!DOCTYPE x [<!ENTITY a 'b'>]>", "&a;", "<![CDATA[", "]]>",
            "<feed xml:base='", "<entry>", "</entry>", "<updated>2020</updated>", "]]", "</rss>",
        ]
    ),
    max_size=40,
).map("".join)  # fmt: skip
_BODIES = st.one_of(
    st.binary(max_size=400),
    _MARKUP.map(lambda text: text.encode("utf-8", "replace")),
    st.tuples(_MARKUP, st.sampled_from(["utf-16", "utf-16-be", "latin-1", "cp932"])).map(
        lambda pair: pair[0].encode(pair[1], "replace")
    ),
    st.tuples(st.sampled_from([b"\x1f\x8b\x08", b"%PDF-", b"\xff\xfe", b""]), st.binary()).map(
        b"".join
    ),
)
_TYPES = st.sampled_from(
    ["", "text/html", "text/plain", "application/xml", "application/rss+xml", "application/gzip",
     "application/xhtml+xml", "image/png", "application/json", "text/css", "text/csv", "text/vtt",
     "text/javascript", "application/feed+json", "application/octet-stream", "x"]
)  # fmt: skip
_VALUES = st.text(alphabet=st.characters(max_codepoint=255), max_size=60)
_LABELS = st.one_of(_VALUES, st.sampled_from(sorted(encodings.LABELS)))
_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            ["x-robots-tag", "link", "refresh", "content-language", "last-modified", "x"]
        ),
        _VALUES,
    ),
    max_size=4,
)
_SPEC: dict[str, Any] = {
    "sitemaps": "discover",
    "scope": "any",
    "extract": {"a": {"css": "a", "attribute": "href", "type": "url", "many": True}},
}


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    body=_BODIES,
    media_type=_TYPES,
    parameters=_LABELS,
    headers=_HEADERS,
    via=st.sampled_from(["seed", "sitemap", "link"]),
    sitemaps=st.lists(_VALUES, max_size=2),
)
def test_totality(
    body: bytes,
    media_type: str,
    parameters: str,
    headers: list[tuple[str, str]],
    via: str,
    sitemaps: list[str],
) -> None:
    result = fetch_result(
        body, content_type=media_type, headers=headers, via=via, sitemaps=sitemaps
    )
    if result["headers"]:
        result["headers"][0]["value"] += f"; charset={parameters}"
    outcome = crawl_parser(**_SPEC).parse(result, body, NOW_MS)
    assert isinstance(outcome, Parsed | Failure)
    if isinstance(outcome, Parsed):
        value = encode_record(outcome.record).value
        assert value is not None
        assert decode("record", value)["url"] == result["url"]
        for message in encode_batches(outcome.batches):
            assert message.value is not None
            batch = decode("url-batch", message.value)
            assert batch["links"]
            assert all(link["url"].startswith(("http://", "https://")) for link in batch["links"])
    else:
        assert outcome.reason.value == "parse_limit", outcome


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    body=_BODIES,
    label=_LABELS,
    quote=st.sampled_from(["", '"', "'"]),
    document=st.sampled_from(sorted(charset.RULES)),
)
def test_charset_of_anything(body: bytes, label: str, quote: str, document: charset.Format) -> None:
    found = charset.sniff(body, f"text/html; charset={quote}{label}{quote}", document)
    assert found.name in encodings.WIDE or found.name in encodings.LABELS
    text = charset.decode(body, found)
    text.encode("utf-8")
    pieces = decoder(found.name)
    parts = [pieces.decode(body[at : at + 7]) for at in range(0, len(body), 7)]
    whole = "".join([*parts, pieces.decode(b"", True)])  # noqa: FBT003 - as codecs
    whole.encode("utf-8")


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=3))
def test_json_ld_of_anything(scripts: list[str]) -> None:
    dump_list(json_ld(scripts).items)[0].encode("utf-8")


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(_VALUES, max_size=3), st.binary(max_size=300))
def test_headers_and_guard_of_anything(values: list[str], markup: bytes) -> None:
    of_header(values, "acmebot", NOW_MS)
    assert guard.refuse(markup) is None
