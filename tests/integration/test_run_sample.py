"""`crawl run --sample`: one command, no network, and the site's known outcome to the last URL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from schemas.url import url_id
from streams.sample.model import Expected
from streams.sample.oddities import CALENDAR_BUDGET
from streams.sample.site import Site

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CRAWL = [sys.executable, "-c", "from streams.cli import main; main()"]


class Run(NamedTuple):
    code: int
    text: str
    seconds: float
    records: list[dict[str, Any]]
    summary: dict[str, Any]
    hits: Counter[str]


def environment(data_dir: Path) -> dict[str, str]:
    ours = ("CRAWL_", "KAFKA_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return env | {"CRAWL_DATA_DIR": str(data_dir), "CRAWL_PARTITIONS": "4"}


def command(data_dir: Path, crawl: str, output: Path, *more: str) -> subprocess.Popen[bytes]:
    flag = [] if "--resume" in more else ["--crawl", crawl]
    arguments = ["run", "--sample", "--output", str(output), *flag, *more]
    return subprocess.Popen(
        [*CRAWL, *arguments],
        env=environment(data_dir),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def outcome(
    process: subprocess.Popen[bytes], data_dir: Path, crawl: str, output: Path, began_at: float
) -> Run:
    text = process.communicate(timeout=240)[0].decode()
    assert output.exists(), text
    records = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    summary = json.loads((data_dir / "runs" / f"{crawl}.json").read_text("utf-8"))
    log = (data_dir / "sample" / f"{crawl}.access.jsonl").read_text("utf-8")
    hits = Counter(json.loads(line)["target"] for line in log.splitlines())
    return Run(process.returncode, text, time.monotonic() - began_at, records, summary, hits)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("sample")
    began_at = time.monotonic()
    process = command(folder / "data", "sample", folder / "x.jsonl")
    return outcome(process, folder / "data", "sample", folder / "x.jsonl", began_at)


@pytest.fixture(scope="module")
def site(run: Run) -> Site:
    (base,) = {record["url"].split("/")[2] for record in run.records}
    return Site(f"http://{base}")


@pytest.fixture(scope="module")
def expected(site: Site) -> dict[str, Expected]:
    return site.expected()


def by_page(run: Run, site: Site) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for record in run.records:
        page = site.canonical(record["url"])
        assert page is not None, f"a record of no page: {record['url']}"
        found[page].append(record)
    return found


def test_ends_well(run: Run) -> None:
    assert run.code == 0, run.text
    assert run.summary["ok"] is True
    assert run.summary["ending"] == "drained"
    assert run.summary["problems"] == []
    assert "crawl sample finished" in run.text


def test_every_page_exactly_once_by_id(run: Run, site: Site, expected: dict[str, Expected]) -> None:
    wanted = {url for url, what in expected.items() if what.outcome == "record"}
    found = by_page(run, site)
    assert wanted - found.keys() == set(), "pages without a record"
    assert found.keys() - wanted == set(), "records of pages that should have none"
    assert {url: len(rows) for url, rows in found.items() if len(rows) > 1} == {}
    ids = Counter(record["url_id"] for record in run.records)
    assert set(ids) == {url_id("sample", url).hex() for url in wanted}


def test_records_say_what_the_pages_are(
    run: Run, site: Site, expected: dict[str, Expected]
) -> None:
    wrong: list[tuple[Any, ...]] = []
    for url, rows in by_page(run, site).items():
        what, record = expected[url], rows[0]
        seen = (record["kind"], record["status"], record["attempt"], record["truncated"])
        if seen != (what.kind, what.status, what.attempts, what.truncated):
            wrong.append((url, seen, what))
        if what.title is not None and not record["noindex"] and record["title"] != what.title:
            wrong.append((url, record["title"], what.title))
    assert wrong == []


def test_dead_letters_are_the_expected_ones(run: Run, expected: dict[str, Expected]) -> None:
    reasons = Counter(what.reason for what in expected.values() if what.outcome == "dead_letter")
    counts = run.summary["counts"]
    assert counts["failed"] | counts["disregarded"] == reasons


def test_rejections_are_counted(run: Run, expected: dict[str, Expected]) -> None:
    reasons = {what.reason for what in expected.values() if what.outcome == "rejected"}
    assert reasons <= run.summary["counts"]["rejected"].keys()


def test_counters_balance(run: Run, expected: dict[str, Expected]) -> None:
    counts = run.summary["counts"]
    records = sum(what.outcome == "record" for what in expected.values())
    dead = sum(what.outcome == "dead_letter" for what in expected.values())
    assert counts["records"] == records == counts["pages"] + counts["redirects"]
    assert counts["admitted"] == records + dead
    assert run.summary["written"] == records


def test_the_server_was_asked_as_often_as_expected(
    run: Run, site: Site, expected: dict[str, Expected]
) -> None:
    hits: Counter[str] = Counter()
    for target, count in run.hits.items():
        hits[site.canonical(site.base + target) or site.base + target] += count
    assert hits.pop(f"{site.base}/robots.txt") == 1
    wrong = {
        url: (hits[url], what.requests)
        for url, what in expected.items()
        if what.requests is not None and hits[url] != what.requests
    }
    assert wrong == {}
    assert hits.keys() <= expected.keys(), "requests for what is not expected at all"


def test_the_calendar_was_cut_at_its_budget(run: Run) -> None:
    months = [record for record in run.records if "/calendar/" in record["url"]]
    assert len(months) == CALENDAR_BUDGET


def test_ends_by_itself_within_three_minutes(run: Run) -> None:
    assert run.seconds < 180


def test_interrupted_and_resumed_is_whole(tmp_path: Path) -> None:
    data_dir, output = tmp_path / "data", tmp_path / "x.jsonl"
    began_at = time.monotonic()
    process = command(data_dir, "half", output)
    while not (output.exists() and output.read_bytes().count(b"\n") >= 40):
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() - began_at < 120
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    first = outcome(process, data_dir, "half", output, began_at)
    assert first.code == 130, first.text
    assert "--resume half" in first.text
    assert first.summary["ending"] == "interrupted"
    again = command(data_dir, "half", output, "--resume", "half")
    second = outcome(again, data_dir, "half", output, began_at)
    assert second.code == 0, second.text
    site = Site("http://" + second.records[0]["url"].split("/")[2])
    wanted = {
        url_id("half", url).hex()
        for url, what in site.expected().items()
        if what.outcome == "record"
    }
    assert Counter(record["url_id"] for record in second.records) == dict.fromkeys(wanted, 1)


def test_a_page_budget_ends_the_crawl(tmp_path: Path) -> None:
    data_dir, output = tmp_path / "data", tmp_path / "x.jsonl"
    process = command(data_dir, "budget", output, "--max-pages", "30")
    done = outcome(process, data_dir, "budget", output, time.monotonic())
    assert done.code == 0, done.text
    assert done.summary["ending"] == "budget"
    pages = done.summary["counts"]["pages"]
    # What was in flight completes: a handful at one request at a time per host.
    assert 30 <= pages <= 40


def test_problems_are_told_at_once_and_nothing_starts(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("https://a.example/\nnot a url\n# fine\nftp://a.example/\n")
    done = subprocess.run(
        [*CRAWL, "run", "--seeds", str(seeds), "--include", "("],
        env=environment(tmp_path / "data"),
        capture_output=True,
        check=False,
    )
    text = done.stderr.decode()
    assert done.returncode == 2
    for word in ("line 2", "line 4", "include", "CRAWL_AGENT"):
        assert word in text, text
    assert not (tmp_path / "data").exists()
