# ruff: noqa: RUF001 - foreign letters are what is tested
from __future__ import annotations

import pytest

from parsers.text import charset, declared, encodings
from parsers.text.detect import detect, first_unit, wide
from tests.cases import case, ids
from tests.unit.parsers.parsing import parsed

_NAMES = {
    "utf-8": "utf-8",
    "windows-1252": "windows-1252",
    "gb18030 (gbk)": "gbk",
    "cp949": "euc-kr",
    "utf-16-le": "utf-16le",
}


@pytest.mark.parametrize("case_id", sorted(ids("chs-")))
def test_cases(case_id: str) -> None:
    given = case(case_id)["input"]
    wanted = case(case_id)["expected"]
    body = given["body_latin1"].encode("latin-1")
    record = parsed(body, content_type=given["content_type"]).record
    if wanted["encoding"] in _NAMES:
        assert record["charset"] == _NAMES[wanted["encoding"]]
    else:
        assert wanted["encoding"] == "any ASCII superset"
    assert wanted["text_contains"] in record["text"].replace("  ", " ")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("UTF8", "utf-8"),
        (" Latin1\n", "windows-1252"),
        ("US-ASCII", "windows-1252"),
        ("iso-8859-9", "windows-1254"),
        ("tis-620", "windows-874"),
        ("gb2312", "gbk"),
        ("x-sjis", "shift_jis"),
        ("ks_c_5601-1987", "euc-kr"),
        ("big5-hkscs", "big5"),
        ("utf-16", "utf-16le"),
        ("unicodefffe", "utf-16be"),
        ("hz-gb-2312", "replacement"),
        ("visual", "iso-8859-8"),
        ("logical", "iso-8859-8-i"),
        ("dos-874", "windows-874"),
    ],
)
def test_labels_mean_what_the_standard_says(label: str, name: str) -> None:
    assert encodings.name_of(label) == name


@pytest.mark.parametrize(
    "label", ["utf-7", "utf-32", "rot13", "zlib", "idna", "cp037", "", "\xa0utf-8"]
)
def test_other_names_are_no_labels(label: str) -> None:
    assert encodings.name_of(label) is None


def test_the_label_table_is_whole() -> None:
    assert len(encodings.LABELS) == 228
    assert len(set(encodings.LABELS.values())) == 40


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("windows-1252", bytes([0x80, 0x81, 0x8D, 0x93, 0xE9]), "\u20ac\x81\x8d\u201cé"),
        ("windows-1253", bytes([0x81, 0xAA, 0xE1]), "\x81\ufffdα"),
        ("windows-1255", bytes([0xCA, 0xD9]), "\u05ba\ufffd"),
        ("windows-874", bytes([0x81, 0xA1, 0xDB]), "\x81ก\ufffd"),
        ("koi8-u", bytes([0xAE, 0xBE, 0xA4]), "ўЎє"),
        ("iso-8859-3", bytes([0xA5, 0xA1]), "\ufffdĦ"),
        ("gbk", b"\x80\xa2\xe3", "\u20ac\u20ac"),
        ("gbk", b"\xa3\xa0\xa8\xbc", "\u3000\u1e3f"),
        ("gb18030", b"\x81\x30\x81\x30", "\x80"),
        ("gbk", b"\x81<p>", "\ufffd<p>"),
        ("big5", b"\xa1\x45\xa4\xa4\x87\x40", "\u2027中\u43f0"),
        ("big5", b"\xa4<b>", "\ufffd<b>"),
        ("euc-jp", b"\xa1\xc1\xad\xa1\x8e\xb1\x8f\xa2\xb7a", "\uff5e①ｱ\uff5ea"),
        ("euc-jp", b"\xa4\xa2\xffb", "あ\ufffdb"),
        ("shift_jis", b"\x81\x60\x87\x40\xb1", "\uff5e①ｱ"),
        ("iso-2022-jp", b'a\x1b$B$"\x1b(Bb\x1b(I1\x1b(J\\~', "aあbｱ¥‾"),
        ("euc-kr", b"\xb0\xa1\x8c\x63", "가똠"),
        ("macintosh", b"\xdb\x8e", "€é"),
        ("ibm866", b"\x80\xe0", "Ар"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("replacement", b"<script>", "\ufffd"),
        ("replacement", b"", ""),
        ("utf-16le", b"a\x00\x00\xd8b\x00", "a\ufffdb"),
        ("utf-16be", b"\x00a\x00", "a\ufffd"),
        ("utf-8", b"a\xf0\x9f\x92b\xed\xa0\x80", "a\ufffdb\ufffd\ufffd\ufffd"),
    ],
)
def test_decoders_follow_the_standards_tables(name: str, data: bytes, text: str) -> None:
    assert encodings.decode(name, data) == text


@pytest.mark.parametrize("name", sorted(set(encodings.LABELS.values())))
def test_decoders_take_anything_and_give_utf8(name: str) -> None:
    everything = bytes(range(256)) * 3 + bytes(range(255, -1, -1))
    encodings.decode(name, everything).encode("utf-8")


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'<meta charset="utf-8">', "utf-8"),
        (b"<META\tCHARSET = 'koi8-r' >", "koi8-r"),
        (b"<meta/charset=big5>", "big5"),
        (b"<metax charset=big5>", None),
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<meta charset=nonsense><meta charset=koi8-u>", "koi8-u"),
        (b"<meta http-equiv=content-type content='text/html; charset = \"gbk\"'>", "gbk"),
        (b"<meta content='text/html; charset=gbk'>", None),
        (b"<meta content='charset charset=gbk;x' http-equiv=Content-Type>", "gbk"),
        (b"<meta http-equiv=refresh content='1;charset=gbk'>", None),
        (b"<!-- <meta charset=big5> --><meta charset=gbk>", "gbk"),
        (b"<!--> <meta charset=gbk>", "gbk"),
        (b"<!-- <meta charset=big5>", None),
        (b"<!doctype html><meta charset=gbk>", "gbk"),
        (b"<?php <meta charset=big5> ?><meta charset=gbk>", "gbk"),
        (b"<a title='<meta charset=big5>'><meta charset=gbk>", "gbk"),
        (b'<a title="<meta charset=big5>" href=x><meta charset=gbk>', "gbk"),
        (b"</a title='<meta charset=big5>'><meta charset=gbk>", "gbk"),
        (b"</ <meta charset=big5>", None),
        (b"< meta charset=big5>", None),
        (b"<script>x='<meta charset=gbk>'</script>", "gbk"),
        (b"<meta charset=gbk", None),
        (b"<meta charset='gbk", None),
        (b"<meta charset=gbk ", None),
        (b"<meta charset=gbk /", None),
        (b"<meta charset='gbk ><meta charset=big5>", None),
        (b"<a title='><meta charset=big5>", None),
        (b"<?xml version='1.0' encoding='koi8-r'?><html>", "koi8-r"),
        (b"<?xml encoding='koi8-r'?><meta charset=gbk>", "gbk"),
        (b" <?xml encoding='koi8-r'?>", None),
        (b"<?xml encoding='koi8-r' ", None),
        (b"<?xml encoding=' koi8-r'?>", None),
        (b"<?xml encoding=koi8-r?>", None),
        (b"<?xml encoding='utf-16'?>", "utf-8"),
        (b"<?xml?><a encoding='koi8-r'>", None),
        (b"<\x00?\x00x\x00m\x00l\x00", "utf-16le"),
        (b"\x00<\x00?\x00x\x00m\x00l", "utf-16be"),
        (b"", None),
        (b"<", None),
    ],
)
def test_prescan(head: bytes, name: str | None) -> None:
    assert declared.prescan(head) == name


_FILL = b"<meta name=x content='" + b" " * 1_000 + b"'>"


@pytest.mark.parametrize(
    ("before", "name"),
    [
        (b"", "gbk"),
        (b"<!doctype html><html><head><title>a<b></title><base href=/><link><noscript>", "gbk"),
        (b"<script>'<meta charset=big5>'; a</div></script><style>p{}</style>", "gbk"),
        (b"<!-- <meta charset=big5> --><?php ?></link>", "gbk"),
        (b"<meta charset=nonsense>", "gbk"),
        (b"<script>'<meta charset=big5>'", "utf-8"),
        (b"</head>", "utf-8"),
        (b"<body>", "utf-8"),
        (b"<p>", "utf-8"),
        (b"<!-- ", "utf-8"),
        (b" " * declared.LATE_BYTES, "utf-8"),
    ],
    ids=range(11),
)
def test_a_meta_element_behind_1024_bytes_counts_in_the_head(before: bytes, name: str) -> None:
    assert charset.sniff(_FILL + before + b"<meta charset=gbk>", "", "html").name == name


def test_the_prescan_sees_1024_bytes_and_reads_scripts() -> None:
    meta = b"<script>'<meta charset=gbk>'</script>"
    assert charset.sniff(meta, "", "html").name == "gbk"
    assert charset.sniff(_FILL + meta, "", "html").name == "utf-8"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ('text/html; a="; charset=gbk"; charset=utf-8', "utf-8"),
        ('text/html; a="b\\"; charset=gbk"; charset=utf-8', "utf-8"),
        ("text/html; charset=; charset=utf-8", "utf-8"),
        ("text/html; charset=gbk; charset=utf-8", "gbk"),
        ("text/html;charset=utf-8, text/html", "utf-8"),
        ("text/html, text/html; charset=utf-8", "utf-8"),
        ('text/html; charset="utf-8', "utf-8"),
        ("text/html; charset; charset=utf-8", "utf-8"),
        ("text/html; charset=utf-7", None),
        ("text/html; charset='utf-8'", None),
        ("text/html; charset=KOI8-R", "koi8-r"),
        ('text/html;charset="utf-8"', "utf-8"),
        ('text/html; charset="ut\\f-8"', "utf-8"),
        ("text/html; x=y; charset = utf-8", None),
        ("text/html; charset=nonsense", None),
        ("text/html", None),
        ("text/html; charset=", None),
        ("text/html; xcharset=gbk", None),
    ],
)
def test_content_type_header(value: str, name: str | None) -> None:
    assert charset.of_content_type(value) == name


_SENTENCES = {
    "windows-1251": ("cp1251", "Обычная страница о погоде и новостях, без указания кодировки. "),
    "koi8-r": ("koi8_r", "Обычная страница о погоде и новостях, без указания кодировки. "),
    "windows-1252": ("cp1252", "Les élèves étudient à l’école; déjà vu, garçon, Größe, Straße. "),
    "windows-1254": ("cp1254", "Bu sayfa kodlama bildirimi olmayan bir sayfadır; işte şöyle ığ. "),
    "windows-1257": ("cp1257", "Šiame puslapyje nėra koduotės deklaracijos, žmonės rašo žinias. "),
    "windows-1250": ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy, zažloutlý. "),
    "windows-1253": ("cp1253", "Αυτή είναι μια σελίδα χωρίς δήλωση, για τον καιρό και τα νέα. "),
    "shift_jis": ("cp932", "これは文字コードの宣言がないページです。天気とニュースです。"),
    "euc-jp": ("euc_jp", "これは文字コードの宣言がないページです。天気とニュースです。"),
    "gb18030": ("gb18030", "这是一个没有声明编码的网页，内容是关于天气和新闻的普通文字。"),
    "big5": ("big5", "這是一個沒有聲明編碼的網頁，內容是關於天氣和新聞的普通文字。"),
    "euc-kr": ("cp949", "이것은 인코딩 선언이 없는 페이지입니다. 날씨와 뉴스에 대한 글입니다. "),
}


@pytest.mark.parametrize("name", sorted(_SENTENCES))
def test_detection_of_undeclared_pages(name: str) -> None:
    codec, sentence = _SENTENCES[name]
    page = "".join(f"<p class=x>{sentence}</p>\n" for _ in range(10)).encode(codec)
    assert detect(page) == name


def test_detection_prefers_utf8_with_a_few_broken_bytes() -> None:
    page = "é" * 50
    assert detect(page.encode() + b"\xff") == "utf-8"
    assert detect(page.encode()[:-1]) == "utf-8"


@pytest.mark.parametrize(
    ("codec", "name"),
    [("utf-16-le", "utf-16le"), ("utf-16-be", "utf-16be"), ("utf-32-le", "utf-32le"),
     ("utf-32-be", "utf-32be")],
)  # fmt: skip
def test_wide_encodings_show_by_their_nuls(codec: str, name: str) -> None:
    assert wide("<p>plain Latin text".encode(codec)) == name
    for text in ("[", '"中文"', "{}", "\n<"):
        assert first_unit(text.encode(codec)) == name
        assert first_unit(text.encode(codec)) != first_unit(text.encode())


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00" * 40, b"a", b"ab" * 20, bytes(range(40))])
def test_what_is_not_wide(data: bytes) -> None:
    assert wide(data) is None
