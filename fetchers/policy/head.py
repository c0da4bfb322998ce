"""The head of an HTTP/1 response, read as servers write it (RFC 9112), and how its body is framed.

Lenient where clients have to be: bare LF, obsolete folding, no reason phrase, lines without a
colon, equal Content-Length values. Strict where guessing would show another site's bytes or wait
for ever: conflicting lengths, transfer codings other than `chunked`, what is not HTTP at all, and,
as browsers do, a head with a NUL in it.

What no value may hold does not reach one: a bare CR is read as a space (RFC 9112 section 2.2). A
line whose name is no token is dropped with its continuations, and so is one without a colon; white
space around a name is not part of it.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from schemas.reasons import Reason

Headers = tuple[tuple[str, str], ...]

_STATUS = re.compile(rb"HTTP/([0-9])\.([0-9]) ([0-9]{3})(?: .*)?", re.DOTALL)
_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
_MAX_CHUNK_LINE = 4_096
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Head(NamedTuple):
    """Status line and headers.

    `headers`: names in lower case, values as Latin-1 text, in order. `framing`: how the body
    ends; `length` is meaningful for `length` only. `reusable`: whether the connection may carry
    another request once the body is read.
    """

    status: int
    version: str
    headers: Headers
    framing: Literal["none", "length", "chunked", "close"]
    length: int
    reusable: bool


class HeadFault(NamedTuple):
    """Why a head cannot be used."""

    reason: Reason
    detail: str


def looks_like_http(start: bytes | bytearray) -> bool:
    """Whether the first bytes, however few, may begin a status line."""
    return start[:5] == b"HTTP/"[: len(start)]


def head_end(data: bytes | bytearray, start: int = 0) -> int:
    """Index behind the empty line that ends a head; -1: not there yet."""
    match = _END.search(data, start)
    return match.end() if match else -1


def parse_head(block: bytes, *, body_expected: bool = True) -> Head | HeadFault:
    """Read a head.

    Args:
        block: everything up to and including the empty line.
        body_expected: False for an answer to HEAD.
    """
    lines = block.split(b"\n")
    status_line = _STATUS.fullmatch(lines[0].rstrip(b"\r"))
    if status_line is None:
        reason = Reason.PROTOCOL if looks_like_http(block) else Reason.NOT_HTTP
        return HeadFault(reason, f"status line {lines[0][:80]!r}")
    status = int(status_line[3])
    if status < 100 or status == 101:
        return HeadFault(Reason.PROTOCOL, f"status {status}")
    if b"\0" in block:
        line = next(line for line in lines if b"\0" in line)
        return HeadFault(Reason.PROTOCOL, f"NUL in the header line {line[:80]!r}")
    version = f"{status_line[1].decode()}.{status_line[2].decode()}"
    headers = _headers(lines)
    framing = _framing(headers)
    if isinstance(framing, HeadFault):
        return framing
    kind: Literal["none", "length", "chunked", "close"]
    kind, length, ambiguous = framing
    if not body_expected or status in (204, 304) or status < 200:
        kind = "none"
    persistent = _persistent(headers, version)
    reusable = persistent and kind != "close" and not ambiguous
    return Head(status, version, headers, kind, length, reusable)


def header(headers: Headers, name: str) -> str | None:
    """The first value of a header, or None."""
    for key, value in headers:
        if key == name:
            return value
    return None


def all_values(headers: Headers, name: str) -> list[str]:
    """All values of a header, in order."""
    return [value for key, value in headers if key == name]


def tokens(headers: Headers, name: str) -> list[str]:
    """The comma-separated items of all lines of a header, in lower case."""
    found = []
    for key, value in headers:
        if key == name:
            found += [item for part in value.split(",") if (item := part.strip().lower())]
    return found


class ChunkReader:
    """Decodes the chunked transfer coding, in whatever pieces it arrives."""

    def __init__(self) -> None:
        self.done = False
        """True once the last chunk and the trailers were read."""
        self._line = bytearray()
        self._left = 0
        self._state: Literal["size", "data", "data_end", "trailers"] = "size"

    def feed(self, data: bytes) -> tuple[list[bytes], bytes] | HeadFault:
        """Body pieces in some bytes of the wire, and what followed the end of the body."""
        pieces: list[bytes] = []
        at = 0
        size = len(data)
        while at < size and not self.done:
            if self._state == "data":
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._state = "data_end"
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._line += data[at:]
                if len(self._line) > _MAX_CHUNK_LINE:
                    return HeadFault(Reason.PROTOCOL, "endless chunk line")
                return pieces, b""
            line = bytes(self._line) + data[at:end]
            self._line.clear()
            at = end + 1
            if not self._on_line(line.rstrip(b"\r")):
                return HeadFault(Reason.PROTOCOL, f"chunk line {line[:40]!r}")
        return pieces, data[at:]

    def _on_line(self, line: bytes) -> bool:
        if self._state == "size":
            match = _CHUNK_SIZE.fullmatch(line)
            if match is None:
                return False
            self._left = int(match[1], 16)
            self._state = "data" if self._left else "trailers"
        elif self._state == "data_end":
            if line:
                return False
            self._state = "size"
        elif not line:
            self.done = True
        return True


def _headers(lines: list[bytes]) -> Headers:
    found: list[tuple[str, str]] = []
    kept = False
    for raw in lines[1:]:
        line = raw.rstrip(b"\r")
        if line[:1] in (b" ", b"\t"):
            if kept:
                name, value = found[-1]
                found[-1] = (name, f"{value} {_value(line)}".strip(" "))
            continue
        start, colon, rest = line.partition(b":")
        token = start.strip(b" \t")
        kept = bool(colon and _TOKEN.fullmatch(token))
        if kept:
            found.append((token.decode("ascii").lower(), _value(rest)))
    return tuple(found)


def _value(raw: bytes) -> str:
    return raw.replace(b"\r", b" ").strip(b" \t").decode("latin-1")


def _framing(
    headers: Headers,
) -> tuple[Literal["length", "chunked", "close"], int, bool] | HeadFault:
    """Kind, length, and whether the head said two things (RFC 9112 section 6.3)."""
    lengths: set[str] = set()
    coded = has_length = False
    for name, value in headers:
        if name == "content-length":
            has_length = True
            lengths.update(part.strip() for part in value.split(","))
        elif name == "transfer-encoding":
            coded = True
    if coded:
        codings = tokens(headers, "transfer-encoding")
        if codings != ["chunked"]:
            return HeadFault(Reason.TRANSFER_CODING, ", ".join(codings)[:200])
        return "chunked", 0, has_length
    if not has_length:
        return "close", 0, False
    numbers = {int(text) if _LENGTH.fullmatch(text) else -1 for text in lengths}
    if len(numbers) != 1 or -1 in numbers:
        return HeadFault(Reason.PROTOCOL, f"Content-Length {', '.join(sorted(lengths))[:200]}")
    return "length", numbers.pop(), False


def _persistent(headers: Headers, version: str) -> bool:
    connection = ""
    for name, value in headers:
        if name == "connection":
            connection += value.lower()
    if "close" in connection:
        return False
    return version != "1.0" or "keep-alive" in connection
