"""Robots directives of a page: elements and headers, for all robots or for ours."""

from __future__ import annotations

import pytest

from tests.cases import given
from tests.unit.parsers.parsing import links, parsed, sent


@pytest.mark.parametrize(("source", "wanted"), given("lnk-07"))
def test_robots_directives(source: str, wanted: str) -> None:
    headers = []
    body = b"<a href=/y>"
    if source.startswith("X-Robots-Tag: "):
        headers.append(("x-robots-tag", source.removeprefix("X-Robots-Tag: ")))
    else:
        body += source.encode()
    outcome = parsed(body + b"<p>text", headers=headers)
    if wanted == "this link not followed":
        assert sent(outcome) == ["http://a.example/y"]
        assert outcome.counts["rejected.nofollow"] == 1
        assert links(outcome) == ["http://a.example/y", "http://a.example/x"]
        return
    assert outcome.record["noindex"] == ("store no" in wanted)
    assert (outcome.record["text"] == "") == ("store no" in wanted)
    assert (sent(outcome) == []) == ("follow no" in wanted)


@pytest.mark.parametrize(
    ("value", "noindex", "nofollow"),
    [
        ("acmebot: none", True, True),
        ("AcmeBot: noindex, otherbot: nofollow", True, False),
        ("otherbot: noindex, nofollow, acmebot: nofollow", False, True),
        ("unavailable_after: 25 Jun 2010 15:00:00 GMT", True, False),
        ("unavailable_after: Wed, 25 Jun 2110 15:00:00 GMT", False, False),
        ("max-snippet: 20, nofollow", False, True),
        ("", False, False),
    ],
)
def test_x_robots_tag_forms(value: str, noindex: bool, nofollow: bool) -> None:
    record = parsed(b"x", headers=[("x-robots-tag", value)]).record
    assert (record["noindex"], record["nofollow"]) == (noindex, nofollow)


def test_a_meta_element_in_our_name_counts() -> None:
    record = parsed(b"<meta name=AcmeBot content=NoFollow><meta name=otherbot content=none>").record
    assert (record["noindex"], record["nofollow"]) == (False, True)
