"""Seeds, specs and ids from what a user typed; all problems at once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from schemas.crawl import CrawlSpec
from schemas.errors import ConfigError
from streams.crawls.plan import (
    BATCH_LINKS,
    Seed,
    build_spec,
    crawl_id,
    read_seed,
    read_seeds,
    read_spec_file,
    seed_messages,
)

NOW = datetime(2026, 11, 30, 9, 45, 7, tzinfo=UTC)


def test_reads_urls_comments_and_json_lines() -> None:
    seeds, problems = read_seeds(
        [
            "\ufeffhttps://a.example\n",
            "\n",
            "  # a comment\n",
            '"https://b.example/x#y"\n',
            '{"url": "https://c.example/", "priority": 5}\n',
            '{"urls": ["https://d.example/1", "https://d.example/2"]}\n',
        ],
        "seeds.txt",
    )
    assert problems == []
    assert seeds == [
        Seed("https://a.example/", "a.example"),
        Seed("https://b.example/x", "b.example"),
        Seed("https://c.example/", "c.example", 5),
        Seed("https://d.example/1", "d.example"),
        Seed("https://d.example/2", "d.example"),
    ]


def test_reports_every_bad_line_with_its_number() -> None:
    seeds, problems = read_seeds(
        [
            "https://ok.example/",
            "a.example/page",
            "ftp://a.example/",
            '{"url": "https://a.example/", "crawl": "x"}',
            '{"url": 3}',
            "{broken",
            '{"url": "https://a.example/", "priority": true}',
            "[1]",
            '{"urls": "https://a.example/"}',
            '{"urls": ["https://a.example/", "http://["]}',
        ],
        "s.txt",
    )
    assert [seed.href for seed in seeds] == ["https://ok.example/", "https://a.example/"]
    assert [problem.split(":")[0] for problem in problems] == [
        f"s.txt, line {number}" for number in range(2, 11)
    ]
    assert "did you mean https://a.example/page" in problems[0]
    assert "unsupported_scheme" in problems[1]
    assert "unknown keys: crawl" in problems[2]


def test_a_deeply_nested_line_is_a_problem_not_a_crash() -> None:
    _, problems = read_seeds(["[" * 200_000], "s")
    assert len(problems) == 1


def test_a_seed_is_serialised() -> None:
    assert read_seed(" HTTP://A.Example:80/a/../b ") == Seed("http://a.example/b", "a.example")


def test_layers_win_in_order_and_none_leaves_alone() -> None:
    spec = build_spec("c", [{"max_pages": 5, "scope": "any"}, {"max_pages": 9, "scope": None}], [])
    assert (spec.max_pages, spec.scope, spec.crawl) == (9, "any", "c")


def test_the_id_given_wins_over_the_file() -> None:
    assert build_spec("given", [{"crawl": "in-file"}], []).crawl == "given"


def test_all_problems_of_a_spec_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        build_spec("c", [{"max_pages": 0, "nonsense": 1, "include": ["("]}], [])
    text = str(caught.value)
    assert all(word in text for word in ("max_pages", "nonsense", "include"))


def test_registered_checks_are_asked_and_all_shown() -> None:
    def one(spec: CrawlSpec) -> list[str]:
        return [f"{spec.crawl}: first"]

    def two(_: CrawlSpec) -> list[str]:
        return ["second", "third"]

    with pytest.raises(ConfigError, match=r"(?s)c: first.*second.*third"):
        build_spec("c", [], [one, two])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", {}), ("scope: any\nmax_pages: 3\n", {"scope": "any", "max_pages": 3}), ("{}", {})],
)
def test_reads_a_spec_file(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(text)
    assert read_spec_file(path) == expected


@pytest.mark.parametrize("text", ["- a\n", "a: [", "3", "1: x", "a: !!python/object:os.system x"])
def test_refuses_what_is_no_mapping(tmp_path: Path, text: str) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"crawl\.yaml"):
        read_spec_file(path)


def test_a_missing_spec_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        read_spec_file(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("docs.example", "20261130-094507-docs.example"),
        ("[2001:db8::1]", "20261130-094507-2001-db8-1"),
        ("x" * 80, "20261130-094507-" + "x" * 48),
    ],
)
def test_ids_are_readable_and_valid(host: str, expected: str) -> None:
    found = crawl_id(NOW, [Seed(f"https://{host}/", host)])
    assert found == expected
    assert CrawlSpec(crawl=found).crawl == found


def test_seeds_are_batched_by_host_in_order() -> None:
    seeds = [Seed(f"https://a.example/{n}", "a.example", n) for n in range(BATCH_LINKS + 1)]
    seeds.insert(1, Seed("https://b.example/", "b.example"))
    messages = seed_messages("c", seeds, 1_234)
    batches = [codec.decode("url-batch", message.value or b"") for message in messages]
    assert [(m.topic, m.key) for m in messages] == [
        ("urls", b"a.example"),
        ("urls", b"a.example"),
        ("urls", b"b.example"),
    ]
    assert [len(batch["links"]) for batch in batches] == [BATCH_LINKS, 1, 1]
    links = [link for batch in batches[:2] for link in batch["links"]]
    assert [link["priority"] for link in links] == list(range(BATCH_LINKS + 1))
    first = batches[0]
    assert (first["crawl"], first["via"], first["depth"]) == ("c", "seed", 0)
    assert (first["seeded_at"], first["host"], first["scope_host"]) == (
        1_234,
        "a.example",
        "a.example",
    )
