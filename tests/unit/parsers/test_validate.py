"""Selectors, expressions and plugins of a crawl spec."""

from __future__ import annotations

import pytest

from parsers.validate import check_selectors
from schemas.crawl import CrawlSpec, parse_spec
from schemas.errors import ConfigError


def test_every_problem_of_a_spec_is_named() -> None:
    spec = CrawlSpec.model_validate(
        {
            "crawl": "c",
            "plugins": ["absent"],
            "extract": {
                "bad": {"css": "a[["},
                "fine": {"css": "li:nth-child(2n+1):not(.x) > a"},
                "outer": {"css": "li", "regex": "x", "fields": {"inner": {"css": "::::"}}},
                "mixed": {"css": "a", "type": "html", "attribute": "href"},
            },
        }
    )
    found = check_selectors(spec)
    assert [line.partition(": ")[0] for line in found] == [
        "extract.bad.css",
        "extract.outer",
        "extract.outer.fields.inner.css",
        "extract.mixed",
        "plugins",
    ]
    with pytest.raises(ConfigError, match="bad regular expression"):
        parse_spec({"crawl": "c", "extract": {"a": {"css": "a", "regex": "("}}})
