from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from parsers.validate import check_selectors
from schemas.crawl import CrawlSpec, parse_spec
from schemas.extraction import Selector
from schemas.topics import TOPICS
from streams.settings import Settings, env_name
from tests.contract.render_readme import README, render, rules_table, settings_table, topics_table

if TYPE_CHECKING:
    from pydantic import BaseModel

EMPTY = (
    "a\n<!-- topics --><!-- /topics -->\nb\n"
    "<!-- rules --><!-- /rules --><!-- selectors --><!-- /selectors -->\n"
    "<!-- settings -->\nstale text\n<!-- /settings -->\nc\n"
)


def test_the_tables_are_those_of_the_code() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == render(text), "run python tests/contract/render_readme.py"


def test_every_topic_and_setting_is_in_its_table() -> None:
    topics, settings = topics_table().splitlines(), settings_table().splitlines()
    assert [line.split("`")[1] for line in topics[2:]] == [spec.name for spec in TOPICS]
    assert [line.split("`")[1] for line in settings[2:]] == list(
        map(env_name, Settings.model_fields)
    )


def test_every_setting_is_explained() -> None:
    for line in settings_table().splitlines()[2:]:
        assert line.rstrip(" |").endswith((".", ")")), line
        assert len(line.replace("\\|", "").split("|")) == 5, line


@pytest.mark.parametrize("model", [CrawlSpec, Selector])
def test_every_rule_is_explained(model: type[BaseModel]) -> None:
    lines = rules_table(model).splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == list(model.model_fields)
    for line in lines:
        assert line.rstrip(" |").endswith("."), line


def test_the_spec_that_is_shown_is_valid() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    spec = parse_spec({"crawl": "shop", **yaml.safe_load(shown)})
    assert check_selectors(spec) == []


def test_no_secret_has_a_default() -> None:
    line = next(row for row in settings_table().splitlines() if "KAFKA_SASL_PASSWORD" in row)
    assert line.startswith("| `KAFKA_SASL_PASSWORD` |  |")


def test_rendering_replaces_what_is_between_the_markers_and_nothing_else() -> None:
    text = render(EMPTY)
    assert text.startswith("a\n<!-- topics -->\n| Topic |")
    assert text.endswith("|\n<!-- /settings -->\nc\n")
    assert "stale text" not in text
    assert render(text) == text


@pytest.mark.parametrize("marker", ["<!-- topics -->", "<!-- /topics -->", "<!-- /settings -->"])
def test_a_missing_marker_is_an_error(marker: str) -> None:
    with pytest.raises(ValueError, match="is missing"):
        render(EMPTY.replace(marker, ""))
