"""What the Docker tests share: images, quick settings, the sample site's truth."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.sample.site import RETRY_TIERS_S, Site

ROOT = Path(__file__).resolve().parents[2]
IMAGE = os.environ.get("CRAWLSTREAM_IMAGE", "crawlstream:local")
KAFKA_IMAGE = os.environ.get("CRAWLSTREAM_KAFKA_IMAGE", "apache/kafka:4.1.0")

# Addresses that Docker gives to its networks.
INSIDE = "172.16.0.0/12,192.168.0.0/16,10.0.0.0/8"

QUICK = {
    "CRAWL_PARTITIONS": "4",
    "CRAWL_SESSION_TIMEOUT_S": "6",
    "CRAWL_COMMIT_INTERVAL_S": "0.5",
    "CRAWL_RETRY_TIERS_S": ",".join(map(str, RETRY_TIERS_S)),
    "CRAWL_ALLOW_NETWORKS": INSIDE,
    "CRAWL_AGENT": "crawlstream-test",
    "CRAWL_CONTACT": "https://bot.example/",
}


def problem() -> str:
    """Why the tests cannot run; empty when they can."""
    if shutil.which("docker") is None:
        return "Docker is not installed"
    try:
        shown = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "the Docker daemon does not answer"
    if shown.returncode:
        return "no Docker daemon runs, or this user may not use it"
    return ""


def inspect_image(name: str) -> bool:
    """Whether the daemon has an image."""
    done = subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False)
    return done.returncode == 0


def crawl(bootstrap: str, *arguments: str) -> str:
    """Run `crawl` on this machine against a Kafka in a container; its standard output."""
    ours = ("CRAWL_", "KAFKA_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [sys.executable, "-c", "from streams.cli import main; main()", *arguments],
        env=env | QUICK | {"KAFKA_BOOTSTRAP_SERVERS": bootstrap},
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"crawl {arguments}: {done.stderr[-2000:]}"
    return done.stdout


def submit(bootstrap: str, name: str, site: Site, folder: Path, delay_s: float) -> None:
    """Submit a crawl of the sample site under its own rules, slower when told so."""
    spec = folder / f"{name}.yaml"
    spec.write_text(yaml.safe_dump(Site.spec() | {"delay_s": delay_s}), encoding="utf-8")
    crawl(bootstrap, "seed", "--crawl", name, "--spec", str(spec), site.seed)


def records(bootstrap: str, name: str) -> list[dict[str, Any]]:
    """Records of a crawl so far, each fetch once."""
    text = crawl(bootstrap, "records", "--crawl", name, "--fields", "url,url_id,fetch_id,status")
    return [json.loads(line) for line in text.splitlines() if line]


def pages(site: Site, rows: list[dict[str, Any]]) -> dict[str, int]:
    """Records by page of the sample site."""
    found: dict[str, int] = {}
    for row in rows:
        page = site.canonical(row["url"])
        assert page is not None, f"a record of no page: {row['url']}"
        found[page] = found.get(page, 0) + 1
    return found


def wanted_pages(site: Site) -> set[str]:
    """Pages that must end as a record."""
    return {url for url, what in site.expected().items() if what.outcome == "record"}


def most_records(kills: int) -> int:
    """Most records of one page after so many processes were killed.

    What a process did since its last commit is done again. A repeated fetch has the same id and is
    no further record, but a request that had been deferred to a retry topic is then there twice.
    """
    return int(2**kills)


def finished(bootstrap: str, name: str, site: Site, timeout_s: float) -> dict[str, int]:
    """Records by page, once all pages have one or the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = pages(site, records(bootstrap, name))
        if wanted_pages(site) <= found.keys() or time.monotonic() > deadline:
            return found
        time.sleep(2)


def until(
    condition: Callable[[], object], timeout_s: float, what: str, pause_s: float = 0.5
) -> None:
    """Wait for a condition. Fails with what was waited for."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(pause_s)
