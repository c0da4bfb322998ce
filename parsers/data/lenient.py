"""JSON as pages write it: a strict reading first, and a repaired one only when that fails.

A repair changes how the text is written and never what it says. The text is read once, in runs:
what is already JSON is taken over in one piece, what is known not to be JSON is rewritten in
between, and at anything else the reading ends. Nothing is guessed: a member without a name, a
quote in the middle of a string or an object without its end give no value. So the time is linear
in the text, whatever it holds.
"""

from __future__ import annotations

import html
import json
import math
import re
from typing import Any, Final, NamedTuple

MAX_VALUES: Final = 1_000
"""Values taken of one text that holds several."""
MAX_REPAIRS: Final = 100_000
"""Places rewritten in one text."""

COMMENTS: Final = "comments"
COMMAS: Final = "commas"
WRAPPER: Final = "wrapper"
"""CDATA, HTML comment marks, tags, semicolons, a byte order mark, spaces JSON does not know."""
STRINGS: Final = "strings"
"""Raw line breaks and control characters, escapes that JSON does not know."""
QUOTES: Final = "quotes"
"""Names and strings in other quotes or in none."""
ENTITIES: Final = "entities"
SEVERAL: Final = "several"
NUMBERS: Final = "numbers"
"""Numbers and words that JSON does not know."""
MISSING: Final = "missing"
"""A member without a value, which becomes null."""
REPAIRS: Final = (COMMENTS, COMMAS, WRAPPER, STRINGS, QUOTES, ENTITIES, SEVERAL, NUMBERS, MISSING)

_RUN = re.compile(
    r"(?:[ \t\r\n]++|[\[{}]|\](?!\]>)|:(?![ \t\r\n]*+[,}\]])|,(?=[ \t\r\n]*+[\"\[{\-0-9a-z])"
    r'|"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*+"'
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.+\-:])"
    r"|(?:true|false|null)(?![\w:]))*+"
)
"""What a strict reader would take, and commas only where something follows them."""
_WRAPPER = re.compile(
    r"(?://|/\*)?[ \t\r\n]*+<!\[CDATA\[(?:[ \t\r\n]*+\*/)?"
    r"|(?://|/\*)?[ \t\r\n]*+\]\]>(?:[ \t\r\n]*+\*/)?"
    r"|(?://)?[ \t]*+(?:--!?>|<!--(?=\s*+[\[{/<]))"
    r"|</?(?:br|p|script)\b[^<>]{0,200}>"
    r"|[\s;\x00-\x1f\ufeff\u200b-\u200f\u2028-\u202f\u2060]++",
    re.IGNORECASE,
)
_CONTROL = re.compile("[\x00-\x1f]")
_LINE_END = re.compile("[\r\n\u2028\u2029]")
_WORD = re.compile(r"[\w.+\-$]++")
_NAME_ENDS = re.compile(r"[ \t\r\n]*+:")
_STRINGS: Final = {
    **dict.fromkeys('"', re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)),
    **dict.fromkeys("'", re.compile(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL)),
    **dict.fromkeys(
        "\u201c\u201d\u201e\u2033",
        re.compile("[\u201c\u201d\u201e\u2033]([^\u201c\u201d\u2033]*+)[\u201c\u201d\u2033]"),
    ),
}
"""Opening quotes, and the strings that begin with them."""
_IN_STRING = re.compile(r'\\(u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|\r\n|.)|"', re.DOTALL)
_SIMPLE_ESCAPES: Final = frozenset('"\\/bfnrt')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NULLS: Final = frozenset(("NaN", "Infinity", "+Infinity", "-Infinity", "undefined"))
_BETWEEN = re.compile(r"[ \t\r\n,]*+")


class Reading(NamedTuple):
    """Values of a text, in order, and what had to be done for them."""

    values: list[Any]
    repairs: frozenset[str] = frozenset()
    """Of `REPAIRS`."""
    broken: bool = False
    """True when something could not be read; what came before it is among the values."""


def read(text: str) -> Reading:
    """The values in a text; empty: none. Never raises but for MemoryError."""
    try:
        return Reading([_STRICT.decode(text)])
    except RecursionError:  # nested too deep: there is nothing to repair
        return Reading([], broken=True)
    except ValueError:
        return _Repair(text).reading()


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number


_STRICT: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


class _Repair:
    """One text on its way to JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._out: list[str] = []
        self._done: set[str] = set()
        self._comma = False
        """A comma was read, and nothing yet that it may stand before."""

    def reading(self) -> Reading:
        whole = self._rewrite()
        if not whole and self._unescape():
            whole = self._rewrite()
        return self._values("".join(self._out), whole=whole)

    def _unescape(self) -> bool:
        """Whether the text was written with entities for its quotes, which then are gone."""
        if "&quot;" not in self._text and "&#" not in self._text:
            return False
        self._text = html.unescape(self._text)
        self._out.clear()
        self._done = {ENTITIES}
        return True

    def _values(self, text: str, *, whole: bool) -> Reading:
        decode = json.JSONDecoder(parse_float=self._float, strict=False).raw_decode
        values: list[Any] = []
        at = 0
        while True:
            between = _BETWEEN.match(text, at)
            at = between.end() if between else at
            if at >= len(text):
                break
            if len(values) >= MAX_VALUES:
                whole = False
                break
            try:
                value, at = decode(text, at)
            except (ValueError, RecursionError):
                whole = False
                break
            values.append(value)
        if len(values) > 1:
            self._done.add(SEVERAL)
        return Reading(values, frozenset(self._done) if values else frozenset(), not whole)

    def _rewrite(self) -> bool:
        """Fill `_out` with JSON up to where the text is none; True when that is its end."""
        text, end, at = self._text, len(self._text), 0
        self._comma = False
        for _ in range(MAX_REPAIRS):
            run = _RUN.match(text, at)
            if run is not None and run.end() > at:
                self._put(run[0])
                at = run.end()
            if at >= end:
                if self._comma:
                    self._done.add(COMMAS)
                return True
            at = self._step(at)
            if at < 0:
                break
        return False

    def _step(self, at: int) -> int:
        """Rewrite what stands at a place that is not JSON; gives where it ends, or -1."""
        text, char = self._text, self._text[at]
        if char == ",":
            if self._comma:
                self._done.add(COMMAS)
            self._comma = True
            return at + 1
        if char == ":":
            self._done.add(MISSING)
            self._put(": null")
            return at + 1
        if char in _STRINGS:
            return self._string(at)
        wrapper = _WRAPPER.match(text, at)
        if wrapper is not None:
            self._done.add(WRAPPER)
            self._out.append(" ")
            return wrapper.end()
        if text.startswith(("//", "<!--", "/*"), at):
            return self._comment(at)
        return self._word(at)

    def _put(self, piece: str) -> None:
        """Take over a piece of JSON, after the comma before it if it may have one."""
        if self._comma and (first := piece.lstrip()[:1]):
            self._comma = False
            if first in "]},":
                self._done.add(COMMAS)
            else:
                self._out.append(",")
        self._out.append(piece)

    def _comment(self, at: int) -> int:
        """A comment without its end goes to the end of its line, or of the text."""
        text = self._text
        self._done.add(COMMENTS)
        self._out.append(" ")
        closer = {"/*": "*/", "<!": "-->"}.get(text[at : at + 2])
        if closer is not None:
            found = text.find(closer, at + 2)
            return len(text) if found < 0 else found + len(closer)
        line_end = _LINE_END.search(text, at)
        return line_end.end() if line_end else len(text)

    def _string(self, at: int) -> int:
        found = _STRINGS[self._text[at]].match(self._text, at)
        if found is None:
            return -1
        if found[0][0] != '"':
            self._done.add(QUOTES)
        self._put(f'"{_IN_STRING.sub(self._escape, found[1])}"')
        if _CONTROL.search(found[1]):
            self._done.add(STRINGS)
        return found.end()

    def _escape(self, found: re.Match[str]) -> str:
        said: str | None = found[1]
        if said is None:  # a quote, inside of other quotes
            return '\\"'
        if said in _SIMPLE_ESCAPES or (said[0] == "u" and len(said) == 5):
            return found[0]
        self._done.add(STRINGS)
        if said[0] == "x" and len(said) == 3:
            return f"\\u00{said[1:]}"
        return "" if said[0] in "\r\n\u2028\u2029" else said

    def _word(self, at: int) -> int:
        found = _WORD.match(self._text, at)
        if found is None:
            return -1
        word, end = found[0], found.end()
        if _NAME_ENDS.match(self._text, end):
            self._done.add(QUOTES)
            self._put(json.dumps(word))
            return end
        value = _value_of(word)
        if value is None:
            return -1
        self._done.add(NUMBERS)
        self._put(value)
        return end

    def _float(self, text: str) -> float | None:
        try:
            return _finite(text)
        except ValueError:
            self._done.add(NUMBERS)
            return None


def _value_of(word: str) -> str | None:
    """The JSON of a value that JavaScript knows and JSON does not; None: it is none."""
    if word in _NULLS:
        return "null"
    if word.isdecimal() and word.isascii():  # zeros in front: a code, not a number
        return f'"{word}"'
    if len(word) > 100 or not _NUMBER.fullmatch(word):
        return None
    if word.lstrip("+-").isdecimal():
        return str(int(word))
    number = float(word)
    return repr(number) if math.isfinite(number) else "null"
