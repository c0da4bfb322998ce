"""compose.yaml as it is: the whole system from local images, killed part by part, loses nothing."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.autoscale.docker import Docker
from streams.sample.site import Site
from tests.docker.system import (
    IMAGE,
    KAFKA_IMAGE,
    QUICK,
    ROOT,
    finished,
    most_records,
    pages,
    records,
    submit,
    until,
    wanted_pages,
)

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1200)]

WORKERS = ("dedup", "fetcher", "parser")


class Compose:
    """One project of compose.yaml, with an override that only makes time-outs short."""

    def __init__(self, folder: Path) -> None:
        self.project = f"crawltest-{secrets.token_hex(3)}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.bootstrap = f"127.0.0.1:{self.port}"
        quick = folder / "quick.yaml"
        roles: dict[str, dict[str, Any]] = {
            name: {"environment": QUICK} for name in (*WORKERS, "topics", "sample")
        }
        for name in WORKERS:
            roles[name]["healthcheck"] = {"interval": "2s"}
        quick.write_text(yaml.safe_dump({"services": roles}), encoding="utf-8")
        self._command = [
            "docker", "compose", "--project-directory", str(ROOT), "-p", self.project,
            "-f", str(ROOT / "compose.yaml"), "-f", str(quick), "--profile", "sample",
        ]  # fmt: skip
        self._env = os.environ | {
            "KAFKA_PORT": str(self.port),
            "CRAWLSTREAM_IMAGE": IMAGE,
            "CRAWLSTREAM_KAFKA_IMAGE": KAFKA_IMAGE,
            "CRAWL_AGENT": QUICK["CRAWL_AGENT"],
            "CRAWL_CONTACT": QUICK["CRAWL_CONTACT"],
        }

    def __call__(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{arguments}: {done.stderr[-3000:]}"
        return done.stdout

    def up(self, *services: str) -> None:
        self("up", "--detach", "--no-build", *services)

    def containers(self, service: str) -> list[str]:
        return self("ps", "--all", "--quiet", service).split()

    def inspect(self, container: str) -> dict[str, Any]:
        text = subprocess.run(
            ["docker", "inspect", container], capture_output=True, text=True, check=True
        ).stdout
        (found,) = json.loads(text)
        return dict(found)

    def healthy(self, *services: str) -> bool:
        states = [
            self.inspect(item)["State"] for name in services for item in self.containers(name)
        ]
        return len(states) >= len(services) and all(
            state["Running"] and state["Health"]["Status"] == "healthy" for state in states
        )

    def kill(self, service: str) -> None:
        """SIGKILL from outside. Docker takes that for the user's wish and restarts nothing."""
        for container in self.containers(service):
            subprocess.run(["docker", "kill", container], capture_output=True, check=True)

    def site(self) -> Site:
        (container,) = self.containers("sample")
        networks = self.inspect(container)["NetworkSettings"]["Networks"]
        (address,) = [item["IPAddress"] for item in networks.values()]
        return Site(f"http://{address}:8000")


@pytest.fixture(scope="module")
def compose(docker: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    made = Compose(tmp_path_factory.mktemp("compose"))
    try:
        made.up()
        until(lambda: made.healthy("kafka", *WORKERS), 400, "all services healthy", 1.0)
        yield made
    except BaseException:
        print(made("logs", "--tail", "60", check=False)[-20_000:])
        raise
    finally:
        made("down", "--volumes", "--timeout", "10", check=False)


def test_nothing_is_lost_when_each_container_is_killed(compose: Compose, tmp_path: Path) -> None:
    site = compose.site()
    wanted = wanted_pages(site)
    # 345 pages of one host, ten a second: more than half a minute to kill in.
    submit(compose.bootstrap, "kills", site, tmp_path, delay_s=0.1)
    victims = [*WORKERS, "kafka"]

    def seen() -> int:
        return len(pages(site, records(compose.bootstrap, "kills")))

    for number, victim in enumerate(victims, 1):
        until(lambda least=10 * number: seen() >= least, 240, f"records before {victim}", 2.0)  # type: ignore[misc]
        compose.kill(victim)
        compose.up()
    until(lambda: compose.healthy("kafka", *WORKERS), 400, "all healthy again", 1.0)
    found = finished(compose.bootstrap, "kills", site, 400)
    assert wanted - found.keys() == set(), "lost"
    assert found.keys() - wanted == set(), "records of pages that should have none"
    assert max(found.values()) <= most_records(kills=len(victims))
    rows = records(compose.bootstrap, "kills")
    assert len({row["fetch_id"] for row in rows}) == len(rows)


def test_a_worker_that_dies_is_started_again(compose: Compose) -> None:
    (container,) = compose.containers("parser")
    before = compose.inspect(container)["RestartCount"]
    # All processes but the first, which then ends with the worker's exit code.
    compose("exec", "-T", "parser", "sh", "-c", "kill -9 -1", check=False)
    until(lambda: compose.inspect(container)["RestartCount"] > before, 120, "a restart")
    until(lambda: compose.healthy("parser"), 240, "the parser healthy again", 1.0)


@pytest.mark.parametrize("service", WORKERS)
def test_containers_may_do_little(compose: Compose, service: str) -> None:
    shown = compose("exec", "-T", service, "sh", "-c", "id -u; touch /opt/crawl/x || echo refused")
    assert shown.split() == ["10001", "refused"]
    (container,) = compose.containers(service)
    assert compose.inspect(container)["HostConfig"]["CapDrop"] == ["ALL"]


async def test_the_autoscalers_back_end_scales_a_service(compose: Compose) -> None:
    docker = Docker(compose.project)
    assert await docker.workers("fetcher") == 1
    await docker.scale("fetcher", 2)
    # Compose takes the copy for its own.
    assert len(compose.containers("fetcher")) == 2
    until(lambda: compose.healthy("fetcher"), 240, "both fetchers healthy", 1.0)
    await docker.scale("fetcher", 1)
    assert len(compose.containers("fetcher")) == 1


def test_a_worker_that_is_stopped_drains_and_ends_well(compose: Compose) -> None:
    (container,) = compose.containers("fetcher")
    compose("stop", "fetcher")
    state = compose.inspect(container)["State"]
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)
    compose.up()
