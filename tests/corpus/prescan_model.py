"""HTML 13.2.3.2, "prescan a byte stream to determine its encoding", step by step as it is written.

Slow and literal: the peer of `parsers.text.declared.prescan`.
"""

from __future__ import annotations

from parsers.text.encodings import name_of

_SPACE = b"\t\n\f\r "


class _Over(Exception):  # noqa: N818 - no error: the bytes ran out
    pass


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def now(self) -> int:
        if self.at >= len(self.data):
            raise _Over
        return self.data[self.at]

    def starts(self, prefix: bytes) -> bool:
        return self.data[self.at : self.at + len(prefix)].lower() == prefix

    def to(self, wanted: bytes) -> None:
        """Point at the next of these bytes."""
        while self.now() not in wanted:
            self.at += 1


def prescan(data: bytes) -> str | None:
    """The encoding, or None."""
    if data.startswith(b"<\x00?\x00x\x00"):
        return "utf-16le"
    if data.startswith(b"\x00<\x00?\x00x"):
        return "utf-16be"
    stream = _Bytes(data)
    try:
        while True:
            found = _step(stream)
            if found is not None:
                return found
            stream.at += 1
    except _Over:
        return _xml(data)


def _step(stream: _Bytes) -> str | None:
    stream.now()
    if stream.starts(b"<!--"):
        end = stream.data.find(b"-->", stream.at + 2)
        if end < 0:
            raise _Over
        stream.at = end + 2
    elif stream.starts(b"<meta") and stream.data[stream.at + 5 : stream.at + 6] in (
        b"\t", b"\n", b"\f", b"\r", b" ", b"/",
    ):  # fmt: skip
        stream.at += 5
        return _meta(stream)
    elif _is_tag(stream):
        stream.to(_SPACE + b">")
        while _attribute(stream) is not None:
            pass
    elif stream.starts(b"<!") or stream.starts(b"</") or stream.starts(b"<?"):
        stream.to(b">")
    return None


def _is_tag(stream: _Bytes) -> bool:
    at = stream.at
    if stream.data[at : at + 1] != b"<":
        return False
    if stream.data[at + 1 : at + 2] == b"/":
        at += 1
    return stream.data[at + 1 : at + 2].isalpha()


def _meta(stream: _Bytes) -> str | None:
    names: set[bytes] = set()
    got_pragma = False
    need_pragma: bool | None = None
    charset: str | None = None
    failed = False
    while (attribute := _attribute(stream)) is not None:
        name, value = attribute
        if name in names:
            continue
        names.add(name)
        if name == b"http-equiv":
            got_pragma = got_pragma or value == b"content-type"
        elif name == b"content":
            found = _content(value)
            if found is not None and charset is None and not failed:
                charset, need_pragma = found, True
        elif name == b"charset":
            charset = name_of(value.decode("latin-1"))
            failed, need_pragma = charset is None, False
    if need_pragma is None or (need_pragma and not got_pragma) or charset is None:
        stream.at -= 1  # the loop moves on by one, and the `>` may be looked at again
        return None
    if charset in ("utf-16le", "utf-16be"):
        return "utf-8"
    return "windows-1252" if charset == "x-user-defined" else charset


def _attribute(stream: _Bytes) -> tuple[bytes, bytes] | None:
    while stream.now() in _SPACE + b"/":
        stream.at += 1
    if stream.now() == 0x3E:
        return None
    name, has_value = _attribute_name(stream)
    if not has_value:
        return name, b""
    while stream.now() in _SPACE:
        stream.at += 1
    return name, _attribute_value(stream)


def _attribute_name(stream: _Bytes) -> tuple[bytes, bool]:
    name = bytearray()
    while True:
        byte = stream.now()
        if byte == 0x3D and name:
            stream.at += 1
            return bytes(name), True
        if byte in _SPACE:
            while stream.now() in _SPACE:
                stream.at += 1
            if stream.now() != 0x3D:
                return bytes(name), False
            stream.at += 1
            return bytes(name), True
        if byte in b"/>":
            return bytes(name), False
        name += bytes((byte,)).lower()
        stream.at += 1


def _attribute_value(stream: _Bytes) -> bytes:
    value = bytearray()
    quote = stream.now()
    if quote in b"\"'":
        stream.at += 1
        while stream.now() != quote:
            value += bytes((stream.now(),)).lower()
            stream.at += 1
        stream.at += 1
        return bytes(value)
    while stream.now() not in _SPACE + b">":
        value += bytes((stream.now(),)).lower()
        stream.at += 1
    return bytes(value)


def _content(value: bytes) -> str | None:
    at = 0
    while True:
        at = value.find(b"charset", at)
        if at < 0:
            return None
        at += 7
        while value[at : at + 1] in (b"\t", b"\n", b"\f", b"\r", b" "):
            at += 1
        if value[at : at + 1] == b"=":
            break
    rest = value[at + 1 :].lstrip(_SPACE)
    if rest[:1] in (b'"', b"'"):
        end = rest.find(rest[:1], 1)
        return None if end < 0 else name_of(rest[1:end].decode("latin-1"))
    end = 0
    while end < len(rest) and rest[end] not in _SPACE + b";":
        end += 1
    return name_of(rest[:end].decode("latin-1"))


def _xml(data: bytes) -> str | None:
    if not data.startswith(b"<?xml"):
        return None
    end = data.find(b">")
    # The letter looks for `encoding` in all bytes; browsers look in the declaration.
    at = data.find(b"encoding", 0, max(end, 0))
    if end < 0 or at < 0:
        return None
    rest = data[at + 8 : end].lstrip(bytes(range(0x21)))
    if rest[:1] != b"=":
        return None
    rest = rest[1:].lstrip(bytes(range(0x21)))
    close = rest.find(rest[:1], 1)
    if rest[:1] not in (b'"', b"'") or close < 0 or any(byte <= 0x20 for byte in rest[1:close]):
        return None
    name = name_of(rest[1:close].decode("latin-1"))
    return "utf-8" if name in ("utf-16le", "utf-16be") else name
