"""Odd bytes in the heads of answers, from the socket to the message.

Nothing that no record may hold gets there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from schemas.crawl import CrawlSpec
from tests.unit.fetchers.fakes import Web, request_for, running

if TYPE_CHECKING:
    from pathlib import Path

ANY = CrawlSpec(crawl="c", delay_s=0, scope="any", cookies=True)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\nConnection: close\r\n"
MOVED = b"HTTP/1.1 302 X\r\nContent-Length: 0\r\nConnection: close\r\n"


class Case(NamedTuple):
    """`want`: parts of the result, or the reason of the letter."""

    name: str
    answer: bytes
    want: dict[str, Any] | str


CASES = [
    Case("NUL in a value", OK + b"X: a\0b\r\n\r\nx", "protocol"),
    Case("NUL in a name", OK + b"X\0: a\r\n\r\nx", "protocol"),
    Case("NUL in the reason phrase", OK.replace(b"OK", b"O\0K") + b"\r\nx", "protocol"),
    Case("NUL in the status", OK.replace(b"200", b"2\x000") + b"\r\nx", "protocol"),
    Case("NUL in Location", MOVED + b"Location: /a\0b\r\n\r\n", "protocol"),
    Case("NUL in Content-Type", OK.replace(b"text/", b"te\0xt/") + b"\r\nx", "protocol"),
    Case("NUL in Set-Cookie", OK + b"Set-Cookie: a=\0\r\n\r\nx", "protocol"),
    Case("a bare CR in Location", MOVED + b"Location: /a\rb\r\n\r\n",
         {"location": "/a%20b"}),
    Case("a bare CR that would be a header", MOVED + b"Location: /a\rX-B: 1\r\n\r\n",
         {"location": "/a%20X-B:%201"}),
    Case("controls in Location", MOVED + b"Location: /a\x01\x1b\x7f\r\n\r\n",
         {"location": "/a%01%1B%7F"}),
    Case("folding in Location", MOVED + b"Location:\r\n /a\r\n\r\n", {"location": "/a"}),
    Case("white space before the colon", MOVED + b"Location : /a\r\n\r\n", {"location": "/a"}),
    Case("Latin-1 in Location", MOVED + b"Location: /\xe9\r\n\r\n", {"location": "/%E9"}),
    Case("UTF-8 in Location", MOVED + "Location: /é\r\n\r\n".encode(), {"location": "/%C3%A9"}),
    Case("a media type that is none", OK.replace(b"text/html", b"te\x01xt/html") + b"\r\nx",
         {"content_type": ""}),
    Case("a line without a colon", OK + b"hello\r\n\r\nx", {"status": 200}),
    Case("no name", OK + b": hello\r\n\r\nx", {"status": 200}),
    Case("a name that is no token", OK + b"a b: c\r\n\r\nx", {"status": 200}),
    Case("bare LF", OK.replace(b"\r", b"") + b"\nx", {"status": 200}),
    Case("CR alone ends no line", OK.replace(b"\n", b"") + b"\rx", "incomplete"),
    Case("two lengths in one line", OK.replace(b"Length: 1", b"Length: 1\r 2") + b"\r\nx",
         "protocol"),
    Case("a coding that is none", OK + b"Transfer-Encoding: \x1b[2Jchunked\r\n\r\nx",
         "transfer_coding"),
    Case("five thousand lines", OK + b"x-a: b\r\n" * 5_000 + b"\r\nx", {"status": 200}),
    Case("more than is read of a head", OK + b"x-a: b\r\n" * 50_000 + b"\r\nx",
         "headers_too_large"),
    Case("more than that without an end", OK + b"x" * 1_000_000, "headers_too_large"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_becomes_of_it(tmp_path: Path, case: Case) -> None:
    async def answer(_: Any, reader: Any, writer: Any) -> None:
        del reader
        writer.write(case.answer)
        await writer.drain()
        writer.close()

    async with Web() as web, running(tmp_path, ANY) as runtime:
        web.pages["/p"] = answer
        runtime.seed(request_for(web.url("/p")))
        await runtime.until_idle()
        results, letters = runtime.results(), runtime.letters()
        messages = [out.value or b"" for outs in runtime.produced.values() for out in outs]
    if isinstance(case.want, str):
        assert results == []
        (letter,) = letters
        assert letter["reason"] == case.want
        assert "\0" not in letter["detail"]
        return
    assert letters == []
    (result,) = results
    want = {name: web.url(value) if name == "location" else value
            for name, value in case.want.items()}  # fmt: skip
    assert {name: result[name] for name in want} == want  # type: ignore[literal-required]
    for line in result["headers"]:
        assert line["name"].isascii()
        assert not set(line["name"] + line["value"]) & set("\0\r\n")
    assert messages
