"""Pages in foreign charsets, and files that are not HTML."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Final

from streams.sample.html import Article, document, link_list, prose
from streams.sample.model import Expected, Page, Response
from streams.sample.pages import HTML

_TOP: Final = (("/", "Home"),)
# name, language, title, text, Python's codec, charset parameter
_LANGUAGES: Final = (
    ("russian", "ru", "Станция Харроу", "Приливы и птицы.", "cp1251", "windows-1251"),  # noqa: RUF001 - Cyrillic is meant
    ("japanese", "ja", "ハロー岬観測所", "潮と海鳥の記録。", "shift_jis", ""),
    ("greek", "el", "Σταθμός Χάροου", "Παλίρροιες και πουλιά.", "utf-16", ""),
    ("french", "fr", "Station d\u2019Harrow", "Marées et goélands.", "cp1252", "iso-8859-1"),
)


def file_pages(base: str) -> Iterator[Page]:
    """All pages of this module."""
    yield from _charsets(base)
    yield from _files()


def _charsets(base: str) -> Iterator[Page]:
    article = Article("Anna Whitlock", "2025-05-01T09:00:00+02:00")
    for name, language, title, text, codec, declared in _LANGUAGES:
        meta = '<meta charset="shift_jis">' if codec == "shift_jis" else ""
        target = f"/languages/{name}.html"
        page = document(
            title,
            prose([text] * 5),
            url=base + target,
            article=article if name == "french" else None,
            head=meta,
            crumbs=_TOP,
            language=language,
        )
        if meta:
            page = page.replace(meta, "", 1).replace("<head>", f"<head>{meta}", 1)
        kind = f"text/html; charset={declared}" if declared else "text/html"
        response = Response(
            headers=(("Content-Type", kind),), body=page.encode(codec, "xmlcharrefreplace")
        )
        yield Page(target, (response,), Expected("record", "html", 200, title=title))


def _files() -> Iterator[Page]:
    links = (
        ("guide.pdf", "Guide"),
        ("notes.txt", "Notes"),
        ("readings.csv", "Readings"),
        ("badge.png", "Badge"),
    )
    page = document("Files", link_list(links), crumbs=_TOP).encode()
    yield Page("/files/", (Response(headers=(HTML,), body=page),), Expected("record", "html", 200))
    rows = "time,height_m\n" + "".join(f"{hour:02}:00,{hour * 7 % 50 / 10}\n" for hour in range(24))
    for name, kind, body, expected in (
        ("guide.pdf", "application/pdf", _pdf(), Expected("record", "other", 200)),
        ("notes.txt", "text/plain; charset=utf-8", b"Low water at noon.\n", _text()),
        ("readings.csv", "text/csv; charset=utf-8", rows.encode(), _text()),
        (
            "badge.png",
            "image/png",
            b"\x89PNG\r\n\x1a\n" + bytes(64),
            Expected("dead_letter", reason="content_type"),
        ),
    ):
        headers = (("Content-Type", kind),)
        yield Page(f"/files/{name}", (Response(headers=headers, body=body),), expected)


def _text() -> Expected:
    return Expected("record", "text", 200)


def gzipped(text: str) -> bytes:
    """Text as a gzip file, without a time in it."""
    return gzip.compress(text.encode(), mtime=0)


def _pdf() -> bytes:
    """A one-page PDF document."""
    stream = b"BT /F1 18 Tf 72 720 Td (Harrow Point: a short guide) Tj ET"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
            b" /Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    out = b"%PDF-1.4\n"
    places = []
    for number, item in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    count = len(objects) + 1
    return out + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (count, table, count, start)
    )
