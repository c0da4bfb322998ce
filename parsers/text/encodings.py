"""The encodings of the web: labels, and decoders that are total.

The label table and the mappings are those of the WHATWG Encoding Standard (sections 4.2 and 9 to
14). A label never reaches Python's codec registry: that would open `utf-7`, `rot13` or `zlib` to
whoever writes a Content-Type. Where a Python codec maps code points differently from the
standard, the difference is corrected here.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Final

_LABELS: Final = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "ibm866": "866 cp866 csibm866 ibm866",
    "iso-8859-2": (
        "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2"
    ),
    "iso-8859-3": (
        "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3"
    ),
    "iso-8859-4": (
        "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4"
    ),
    "iso-8859-5": (
        "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 "
        "iso_8859-5:1988"
    ),
    "iso-8859-6": (
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 "
        "iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
    ),
    "iso-8859-7": (
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 "
        "iso_8859-7 iso_8859-7:1987 sun_eu_greek"
    ),
    "iso-8859-8": (
        "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 "
        "iso88598 iso_8859-8 iso_8859-8:1988 visual"
    ),
    "iso-8859-8-i": "csiso88598i iso-8859-8-i logical",
    "iso-8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso-8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso-8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso-8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso-8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "macintosh": "csmacintosh mac macintosh x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "windows-1250": "cp1250 windows-1250 x-cp1250",
    "windows-1251": "cp1251 windows-1251 x-cp1251",
    "windows-1252": (
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 "
        "iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252"
    ),
    "windows-1253": "cp1253 windows-1253 x-cp1253",
    "windows-1254": (
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 "
        "l5 latin5 windows-1254 x-cp1254"
    ),
    "windows-1255": "cp1255 windows-1255 x-cp1255",
    "windows-1256": "cp1256 windows-1256 x-cp1256",
    "windows-1257": "cp1257 windows-1257 x-cp1257",
    "windows-1258": "cp1258 windows-1258 x-cp1258",
    "x-mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "gb18030": "gb18030",
    "big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso-2022-jp": "csiso2022jp iso-2022-jp",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "euc-kr": (
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 "
        "ksc_5601 windows-949"
    ),
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement",
    "utf-16be": "unicodefffe utf-16be",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    "x-user-defined": "x-user-defined",
}

LABELS: Final[dict[str, str]] = {
    label: name for name, labels in _LABELS.items() for label in labels.split()
}
"""Label in lower case to the standard's name in lower case."""

WIDE: Final = frozenset(("utf-16le", "utf-16be", "utf-32le", "utf-32be"))
"""Encodings that have other bytes than ASCII for ASCII. The two of UTF-32 are none of the standard
and have no label: only a byte order mark or the pattern of the bytes leads to them."""

_ASCII_SPACE = "\t\n\f\r "


def name_of(label: str) -> str | None:
    """The encoding that a label means (Encoding Standard 4.2), or None when it means none."""
    return LABELS.get(label.strip(_ASCII_SPACE).lower())


def decode(name: str, data: bytes) -> str:
    """Text of bytes in an encoding; malformed sequences become U+FFFD. Never raises.

    Args:
        name: a name that `name_of` gives, or one of `WIDE`.
        data: without byte order mark.
    """
    if name == "utf-8":
        return data.decode("utf-8", "replace")
    return _DECODERS[name](data)


def query_codec(name: str) -> str | None:
    """The Python codec that encodes the queries of a document's links; None: they are UTF-8."""
    return _QUERY_CODECS.get(name, name)


def _codec(codec: str) -> Callable[[bytes], str]:
    def run(data: bytes) -> str:
        return data.decode(codec, "replace")

    return run


def _table(codec: str, changes: dict[int, str], *, controls: bool) -> Callable[[bytes], str]:
    """A single-byte decoder. `controls`: what the code page leaves open below 0xA0 is a C1."""
    chars = []
    for byte in range(256):
        char = bytes([byte]).decode(codec, "replace")
        if char == "\ufffd" and controls and byte < 0xA0:
            char = chr(byte)
        chars.append(changes.get(byte, char))
    table = "".join(chars)

    def run(data: bytes) -> str:
        return codecs.charmap_decode(data, "replace", table)[0]

    return run


def _user_defined(data: bytes) -> str:
    return data.decode("latin-1").translate(_USER_DEFINED)


_USER_DEFINED: Final = {byte: 0xF700 + byte for byte in range(0x80, 0x100)}


def _replacement(data: bytes) -> str:
    return "\ufffd" if data else ""


# gb18030: Python keeps some code points of the year 2000 in the private use area.
_GB_CHANGES: Final = str.maketrans(
    "\ue5e5\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796\ue7c7"
    "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
    "\u3000\ufe10\ufe12\ufe11\ufe13\ufe14\ufe15\ufe16\ufe17\ufe18\ufe19\u1e3f"
    "\u9fb4\u9fb5\u9fb6\u9fb7\u9fb8\u9fb9\u9fba\u9fbb",
)
_GB_PRIVATE = re.compile("[\ue5e5-\ue864]")


def _gb18030(data: bytes) -> str:
    text = data.decode("gb18030", "crawlstream.gb18030")
    return text.translate(_GB_CHANGES) if _GB_PRIVATE.search(text) else text


def _gb_error(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    at = error.start
    return ("\u20ac" if error.object[at] == 0x80 else "\ufffd"), at + 1


codecs.register_error("crawlstream.gb18030", _gb_error)

# Big5: eleven signs differ from Python's Hong Kong table, and what that table lacks of plain Big5
# is taken from code page 950.
_BIG5_CHANGES: Final = str.maketrans(
    "\u2022\uff64\u203e\u223c\u2641\u2609\uff0f\uff3c\u00a5\u00a2\u00a3",
    "\u2027\ufe51\u00af\uff5e\u2295\u2299\u2215\ufe68\uffe5\uffe0\uffe1",
)


def _big5(data: bytes) -> str:
    return data.decode("big5hkscs", "crawlstream.big5").translate(_BIG5_CHANGES)


def _big5_error(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    at = error.start
    try:
        return error.object[at : at + 2].decode("cp950"), at + 2
    except UnicodeDecodeError:
        return "\ufffd", at + 1


codecs.register_error("crawlstream.big5", _big5_error)

# Japanese: the standard's JIS X 0208 table is that of code page 932, which Python has only behind
# Shift_JIS; the other two forms are rewritten into it.
_EUC_RUN = re.compile(
    rb"(?:[\xA1-\xFE][\xA1-\xFE])+|\x8E[\xA1-\xDF]|\x8F[\xA1-\xFE]{2}|[\x80-\xFF]"
)


def _pairs_to_sjis(pairs: bytes) -> bytes:
    """Row and cell bytes (0x21 to 0x7E each) as Shift_JIS."""
    out = bytearray(len(pairs))
    for at in range(0, len(pairs) - 1, 2):
        row, cell = pairs[at] - 0x21, pairs[at + 1] - 0x21
        lead, odd = divmod(row, 2)
        trail = cell + 94 * odd
        out[at] = lead + (0x81 if lead < 0x1F else 0xC1)
        out[at + 1] = trail + (0x40 if trail < 0x3F else 0x41)
    return bytes(out)


_SEVEN_BITS: Final = bytes(byte & 0x7F for byte in range(256))


def _euc_jp(data: bytes) -> str:
    out = []
    at = 0
    for match in _EUC_RUN.finditer(data):
        out.append(data[at : match.start()].decode("ascii"))
        at = match.end()
        run = match[0]
        if len(run) == 1:
            out.append("\ufffd")
        elif run[0] == 0x8E:
            out.append(run[1:].decode("cp932"))
        elif run[0] == 0x8F:
            out.append(run.decode("euc_jp", "replace").replace("~", "\uff5e"))
        else:
            out.append(_pairs_to_sjis(run.translate(_SEVEN_BITS)).decode("cp932", "replace"))
    out.append(data[at:].decode("ascii"))
    return "".join(out)


_ESCAPE = re.compile(rb"\x1B(\([BJI]|\$[@B])")
_ROMAN: Final = str.maketrans("\\~", "\u00a5\u203e")


def _iso_2022_jp(data: bytes) -> str:
    parts = _ESCAPE.split(data)
    out = [_iso_2022_jp_part(b"(B", parts[0])]
    out.extend(_iso_2022_jp_part(parts[at], parts[at + 1]) for at in range(1, len(parts) - 1, 2))
    return "".join(out)


def _iso_2022_jp_part(escape: bytes, data: bytes) -> str:
    if escape in (b"$@", b"$B"):
        out = []
        for run in re.findall(rb"(?:[\x21-\x7E]{2})+|[\s\S]", data):
            if len(run) > 1:
                out.append(_pairs_to_sjis(run).decode("cp932", "replace"))
            else:
                out.append("\n" if run == b"\n" else "\ufffd")
        return "".join(out)
    if escape == b"(I":
        return "".join(
            chr(0xFF61 - 0x21 + byte) if 0x21 <= byte <= 0x5F else "\ufffd" for byte in data
        )
    text = data.decode("ascii", "replace").replace("\x0e", "\ufffd").replace("\x0f", "\ufffd")
    return text.translate(_ROMAN) if escape == b"(J" else text


def _single_bytes() -> dict[str, Callable[[bytes], str]]:
    same = (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)
    found = {f"iso-8859-{part}": _codec(f"iso8859_{part}") for part in same}
    changes: dict[int, dict[int, str]] = {1255: {0xCA: "\u05ba"}}
    for page in (874, *range(1250, 1259)):
        found[f"windows-{page}"] = _table(f"cp{page}", changes.get(page, {}), controls=True)
    found["koi8-u"] = _table("koi8_u", {0xAE: "\u045e", 0xBE: "\u040e"}, controls=False)
    return found


_CODECS: Final = {
    "ibm866": "cp866",
    "iso-8859-8-i": "iso8859_8",
    "koi8-r": "koi8_r",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "utf-16be": "utf_16_be",
    "utf-16le": "utf_16_le",
    "utf-32be": "utf_32_be",
    "utf-32le": "utf_32_le",
}
"""Encodings that Python decodes as the standard does, under a name of its own."""
_QUERY_CODECS: Final[dict[str, str | None]] = {
    **_CODECS,
    "windows-874": "cp874",
    "gbk": "gb18030",
    **dict.fromkeys(("utf-8", "replacement", *WIDE)),
}
_DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    **_single_bytes(),
    **{name: _codec(codec) for name, codec in _CODECS.items()},
    "gbk": _gb18030,
    "gb18030": _gb18030,
    "big5": _big5,
    "euc-jp": _euc_jp,
    "iso-2022-jp": _iso_2022_jp,
    "replacement": _replacement,
    "x-user-defined": _user_defined,
}
