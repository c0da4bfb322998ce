"""Write the tables of README.md that are data elsewhere: topics, settings, rules of a crawl.

python tests/contract/render_readme.py
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pydantic import BaseModel  # noqa: E402  # a script finds its own tree

from schemas.crawl import CrawlSpec  # noqa: E402
from schemas.extraction import Selector  # noqa: E402
from schemas.topics import TOPICS, TopicSpec  # noqa: E402
from streams.settings import Settings, env_name  # noqa: E402

README = ROOT / "README.md"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _kept(spec: TopicSpec) -> str:
    if spec.cleanup == "compact":
        return "newest of each key"
    return f"{spec.retention_ms // 86_400_000} days"


def topics_table() -> str:
    """The topics, in the order of `schemas.topics`."""
    rows = [
        _row("Topic", "Key", "Value", "Partitions", "Kept", "Holds"),
        _row(*["---"] * 6),
    ]
    rows += [
        _row(
            f"`{spec.name}`",
            spec.key,
            spec.schema if spec.schema == "raw" else f"`{spec.schema}`",
            "`CRAWL_PARTITIONS`" if spec.partitions is None else str(spec.partitions),
            _kept(spec),
            spec.doc,
        )
        for spec in TOPICS
    ]
    return "\n".join(rows)


def _default(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return (
            f"`{','.join(f'{item:g}' if isinstance(item, float) else str(item) for item in value)}`"
        )
    return f"`{value:.15g}`" if isinstance(value, float) else f"`{value}`"


def _docs(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings under the fields of a model. Read here: at run time nobody wants them."""
    (definition,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(said.value.value.split())
        for field, said in itertools.pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
        and isinstance(said.value.value, str)
    }


def _fields_table(model: type[BaseModel], head: str, spelling: Callable[[str], str] = str) -> str:
    """The fields of a model, in its order."""
    docs = _docs(model)
    rows = [_row(head, "Default", "Meaning"), _row(*["---"] * 3)]
    rows += [
        _row(
            f"`{spelling(name)}`",
            "" if field.is_required() else _default(field.get_default(call_default_factory=True)),
            docs.get(name, ""),
        )
        for name, field in model.model_fields.items()
    ]
    return "\n".join(rows)


def settings_table() -> str:
    """The settings, in the order of `streams.settings`."""
    return _fields_table(Settings, "Variable", env_name)


def rules_table(model: type[BaseModel]) -> str:
    """The keys of a part of a crawl spec, in the order of its model."""
    return _fields_table(model, "Key")


TABLES = {
    "rules": lambda: rules_table(CrawlSpec),
    "selectors": lambda: rules_table(Selector),
    "topics": topics_table,
    "settings": settings_table,
}


def render(text: str) -> str:
    """The text with all tables as they should be. ValueError when a marker is missing."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{begin} ... {end} is missing")
        text = f"{before}{begin}\n{table()}\n{end}{after}"
    return text


if __name__ == "__main__":
    README.write_text(render(README.read_text(encoding="utf-8")), encoding="utf-8")
