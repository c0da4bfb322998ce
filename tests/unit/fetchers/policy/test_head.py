"""The head of a response: what of it is read, what is dropped, what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchers.policy.head import Head, Headers, HeadFault, parse_head
from fetchers.policy.outcome import stored_headers
from schemas.reasons import Reason


def head(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> Head | HeadFault:
    return parse_head(b"\r\n".join([status, *lines, b"", b""]))


def headers(*lines: bytes) -> Headers:
    read = head(*lines)
    assert isinstance(read, Head)
    return read.headers


KEPT = (b"x-a: 1", b"x-z: 9")
ONLY = (("x-a", "1"), ("x-z", "9"))


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (b"x-b:2", "2"),
        (b"X-B \t: 2", "2"),
        (b"x-b:\t 2 \t", "2"),
        (b"x-b:", ""),
        (b"x-b: a:b", "a:b"),
        (b"x-b: a\rb", "a b"),
        (b"x-b: \r2\r\r", "2"),
        (b"x-b: a\r\n\tb\r\n  c", "a b c"),
        (b"x-b:\r\n 2", "2"),
        (b"x-b: caf\xe9", "caf\xe9"),
        (b"x-b: caf\xc3\xa9", "caf\xc3\xa9"),
        (b"x-b: a\x01\x7fb", "a\x01\x7fb"),
    ],
)
def test_a_line_that_is_kept(line: bytes, read: str) -> None:
    assert headers(KEPT[0], line, KEPT[1]) == (ONLY[0], ("x-b", read), ONLY[1])


@pytest.mark.parametrize(
    "line",
    [
        b": 2",
        b" \t: 2",
        b"x b: 2",
        b"x-b\r: 2",
        b"\rx-b: 2",
        b"x-b\x0b: 2",
        b"x-\xe9: 2",
        b"x-b(c): 2",
        b"x,b: 2",
        b'"x-b": 2',
        b"x-b",
        b"<p>: 2",
        b"x b: 2\r\n and more of it\r\n\tand more",
        b"no colon\r\n folded: on",
    ],
)
def test_a_line_that_is_dropped_with_what_continues_it(line: bytes) -> None:
    if line[:1] == b" ":
        line = b"x b: 0\r\n" + line
    assert headers(KEPT[0], line, KEPT[1]) == ONLY


def test_a_continuation_of_nothing_is_dropped() -> None:
    assert headers(b" folded", *KEPT) == ONLY


@pytest.mark.parametrize(
    "lines",
    [
        (b"x-a: \x00",),
        (b"x-\x00a: 1",),
        (b"\x00",),
        (b"x b: \x00",),
        (b"x-a: 1", b" \x00"),
        (b"Location: /a\x00b",),
    ],
)
def test_a_nul_is_refused_wherever_it_is(lines: tuple[bytes, ...]) -> None:
    fault = head(*lines)
    assert isinstance(fault, HeadFault)
    assert fault.reason is Reason.PROTOCOL
    assert fault.detail.startswith("NUL in the header line b'")
    assert "\0" not in fault.detail


def test_a_nul_in_the_reason_phrase() -> None:
    assert isinstance(head(*KEPT, status=b"HTTP/1.1 200 O\x00K"), HeadFault)


def test_what_is_dropped_does_not_frame_the_body() -> None:
    read = head(b"Transfer-Encoding\x0b: chunked", b"Content-Length: 3")
    assert isinstance(read, Head)
    assert (read.framing, read.length) == ("length", 3)


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_no_value_holds_what_none_may(lines: list[bytes]) -> None:
    read = head(*lines)
    if isinstance(read, Head):
        for name, value in read.headers:
            assert name == name.lower().strip()
            assert name.isascii()
            assert not set(name + value) & set("\0\r\n")
        assert json.loads(json.dumps(stored_headers(read.headers))) or not read.headers
