from __future__ import annotations

import pytest

from schemas.topics import TOPICS
from streams.settings import Settings, env_name
from tests.contract.render_readme import README, render, settings_table, topics_table

EMPTY = (
    "a\n<!-- topics --><!-- /topics -->\nb\n<!-- settings -->\nstale text\n<!-- /settings -->\nc\n"
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
