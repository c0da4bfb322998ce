"""The encoding of bytes that nobody declared, from the bytes.

Valid UTF-8 is UTF-8, which settles nearly every undeclared page at the price of a validation. The
rest, old single-byte and East Asian pages, pays 1 to 5 ms for charset-normalizer on a sample of
the text: less than one page in a hundred of a broad crawl gets here.
"""

from __future__ import annotations

import re
from typing import Final

from charset_normalizer import from_bytes

from parsers.text import encodings

SCAN_BYTES: Final = 65_536
"""How much of a body is looked at."""
_SAMPLE_BYTES: Final = 4_096
_MOSTLY: Final = 0.9
"""Share of well-formed sequences above which a page is UTF-8 with a few broken characters."""

_TAG = re.compile(rb"<(?:script|style)\b.*?</(?:script|style)|<[^>]*>", re.IGNORECASE | re.DOTALL)
_FOREIGN = re.compile(rb"[^\n]{0,200}[\x80-\xFF][^\n]{0,200}")
_CODECS: Final = {
    "cp932": "shift_jis",
    "shift_jis": "shift_jis",
    "euc_jp": "euc-jp",
    "euc_jis_2004": "euc-jp",
    "iso2022_jp": "iso-2022-jp",
    "gb18030": "gb18030",
    "gbk": "gbk",
    "big5": "big5",
    "big5hkscs": "big5",
    "cp949": "euc-kr",
    "euc_kr": "euc-kr",
    "koi8_r": "koi8-r",
    "cp866": "ibm866",
    "iso8859_2": "iso-8859-2",
    "iso8859_5": "iso-8859-5",
    "cp874": "windows-874",
    "tis_620": "windows-874",
    **{f"cp{page}": f"windows-{page}" for page in range(1250, 1258)},
}
"""Python codecs worth a guess on the web, and what the Encoding Standard calls them."""

_CENTRAL: Final = frozenset(b"\x8a\x8c\x8e\x8f\x9a\x9c\x9d\x9e\x9f\xa3\xa5\xaf\xb3\xb9\xbe\xbf")
_SIGNS: Final = {
    "windows-1250": _CENTRAL,
    "windows-1254": frozenset(b"\xd0\xdd\xde\xf0\xfd\xfe"),
    "windows-1257": frozenset(b"\xd0\xde\xf0\xfe"),
}
"""Bytes of letters that these code pages have and windows-1252 has not, or hardly uses."""
_FAIR_SHARE: Final = 0.08


def detect(body: bytes) -> str | None:
    """Name of the encoding, or None when the bytes give no hint. ASCII is UTF-8.

    UTF-16 and UTF-32 are told by `wide`, which is asked before.
    """
    head = body[:SCAN_BYTES]
    if is_utf8(head):
        return "utf-8"
    if _utf8_share(head) >= _MOSTLY:
        return "utf-8"
    sample = b"\n".join(_FOREIGN.findall(_TAG.sub(b"\n", head)))[:_SAMPLE_BYTES]
    if not sample:
        return None
    best = from_bytes(sample, steps=3, cp_isolation=list(_CODECS)).best()
    name = None if best is None else _CODECS.get(best.encoding)
    signs = _SIGNS.get(name or "")
    return "windows-1252" if signs is not None and not _common(signs, sample) else name


def _common(signs: frozenset[int], sample: bytes) -> bool:
    """Whether the bytes that set a code page off from windows-1252 are a fair share of all.

    Most accented letters stand at the same place in the Latin code pages, so statistics alone
    cannot tell French from Czech.
    """
    foreign = sum(1 for byte in sample if byte > 0x7F)
    return sum(1 for byte in sample if byte in signs) >= _FAIR_SHARE * foreign


def is_utf8(data: bytes) -> bool:
    """Whether bytes are well-formed UTF-8, a sequence cut off at the end aside."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start >= len(data) - 3
    return True


def _utf8_share(data: bytes) -> float:
    text = encodings.decode("utf-8", data)
    broken = text.count("\ufffd")
    fine = sum(1 for char in text if char > "\x7f") - broken
    return fine / (fine + broken) if fine > 0 else 0.0


def wide(body: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark, by its NULs, or None.

    In UTF-32 the first of every four bytes is one and the second is at most 0x10, or the reverse.
    In UTF-16 Latin text has a NUL in nearly every other byte.
    """
    head = body[:512]
    size = len(head) // 4 * 4
    if size >= 8 and any(head) and not any(head[0:size:4]) and max(head[1:size:4]) <= 0x10:
        return "utf-32be"
    if size >= 8 and any(head) and not any(head[3:size:4]) and max(head[2:size:4]) <= 0x10:
        return "utf-32le"
    half = len(head) // 2
    if half < 8:
        return None
    if head[1::2].count(0) > half * 0.8 and head[::2].count(0) < half * 0.1:
        return "utf-16le"
    if head[::2].count(0) > half * 0.8 and head[1::2].count(0) < half * 0.1:
        return "utf-16be"
    return None


def first_unit(body: bytes) -> str | None:
    """UTF-16 or UTF-32 by the first character, which is known to be ASCII and no NUL."""
    if len(body) < 2 or (body[0] and body[1]):
        return None
    if body[0]:
        return "utf-32le" if body[2:4] == b"\x00\x00" else "utf-16le"
    if body[1]:
        return "utf-16be"
    return "utf-32be" if body[2:3] == b"\x00" and body[3:4] > b"\x00" else None
