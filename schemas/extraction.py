"""Extraction as data: the named selectors that a crawl spec may carry."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

ValueType = Literal["text", "html", "number", "integer", "date", "url", "boolean"]


class Selector(BaseModel):
    """One named value of a page.

    A scalar takes the first match; `many` takes all as a list. With `fields`, each match is an
    object of nested selectors evaluated inside it. A value that is absent or that does not
    convert is null (left out of lists), and its name is listed in the record's issues.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    css: Annotated[str, Field(min_length=1, max_length=2_000)]
    """CSS selector; its syntax is checked when the spec is submitted."""
    attribute: str | None = None
    """Attribute to read; None: the element's text."""
    type: ValueType = "text"
    """`text`, `html`, `number`, `integer`, `date`, `url` or `boolean`. A `url` is made absolute; a
    `date` becomes ISO 8601; a `number` may be written 1,234.5 or 1.234,5."""
    many: bool = False
    """All matches as a list; else the first one."""
    strip: bool = True
    """Collapse white space and trim."""
    regex: str | None = None
    """Keep the first group (or the whole match) of the first match; no match: null."""
    fields: dict[str, Selector] = Field(default_factory=dict)
    """Selectors evaluated inside each match, which becomes an object of them."""

    @field_validator("regex")
    @classmethod
    def _regex_compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"bad regular expression {value!r}: {error}") from error
        return value
