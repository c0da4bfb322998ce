"""Kafka, a web server and workers as containers of testcontainers: two of each worker, one dies."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streams.sample.site import Site
from tests.docker.system import (
    IMAGE,
    KAFKA_IMAGE,
    QUICK,
    crawl,
    finished,
    most_records,
    pages,
    records,
    submit,
    until,
    wanted_pages,
)

# Its reaper is an image that may not be there; the containers are removed below.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1200)]

KAFKA = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093,HOST://:19092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": ",".join(
        f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "HOST", "CONTROLLER")
    ),
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "500",
    "KAFKA_MESSAGE_MAX_BYTES": "5242880",
}

WORKERS = {
    "dedup": "faust -A streams worker --without-web",
    "fetcher": "python -m fetchers",
    "parser": "python -m parsers",
}


class System:
    """Containers on one network."""

    def __init__(self, stack: ExitStack) -> None:
        from testcontainers.core.network import Network

        self._stack = stack
        self._network = stack.enter_context(Network())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self.bootstrap = f"127.0.0.1:{self._port}"
        # Large bodies: written by fetchers, read by parsers. The image's folder gives its owner.
        self._blobs = f"crawltest-{secrets.token_hex(3)}"
        remove = ["docker", "volume", "rm", "--force", self._blobs]
        stack.callback(subprocess.run, remove, capture_output=True, check=False)

    def start(self, name: str, image: str, command: str, env: dict[str, str], **more: Any) -> Any:
        from testcontainers.core.container import DockerContainer

        if image == IMAGE:
            more["healthcheck"] = {"interval": 2 * 10**9}
        container = DockerContainer(image, **more).with_network(self._network)
        container = container.with_network_aliases(name)
        for key, value in env.items():
            container = container.with_env(key, value)
        if command:
            container = container.with_command(command)
        if "CRAWL_BLOB_URL" in env:
            container = container.with_volume_mapping(self._blobs, "/blobs", "rw")
        if name == "kafka":
            # On loopback only, for which the library has no method.
            ports: Any = container.ports
            ports["19092/tcp"] = ("127.0.0.1", self._port)
        return self._stack.enter_context(container)

    def start_kafka(self) -> None:
        advertised = f"PLAINTEXT://kafka:9092,HOST://{self.bootstrap}"
        self.start("kafka", KAFKA_IMAGE, "", KAFKA | {"KAFKA_ADVERTISED_LISTENERS": advertised})
        until(self._serving, 240, "Kafka serves and has the topics")

    def _serving(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1):
                pass
            crawl(self.bootstrap, "topics", "create")
        except (OSError, AssertionError):
            return False
        return True

    def start_worker(self, role: str, number: int) -> Any:
        env = QUICK | {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"}
        env |= {"CRAWL_BLOB_URL": "file:///blobs"}
        return self.start(f"{role}-{number}", IMAGE, WORKERS[role], env)

    def start_site(self) -> Site:
        command = """sh -c 'exec python -m streams.sample --host "$(hostname -i)" --port 8000'"""
        container = self.start("site", IMAGE, command, {})
        wrapped = container.get_wrapped_container()
        wrapped.reload()
        (network,) = wrapped.attrs["NetworkSettings"]["Networks"].values()
        return Site(f"http://{network['IPAddress']}:8000")


def healthy(container: Any) -> bool:
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    return str(wrapped.attrs["State"].get("Health", {}).get("Status")) == "healthy"


@pytest.fixture(scope="module")
def system(docker: None) -> Iterator[System]:
    with ExitStack() as stack:
        made = System(stack)
        made.start_kafka()
        yield made


def test_two_of_each_worker_crawl_the_site_and_one_dies(system: System, tmp_path: Path) -> None:
    site = system.start_site()
    workers = {
        (role, number): system.start_worker(role, number)
        for role, count in (("dedup", 1), ("fetcher", 2), ("parser", 2))
        for number in range(count)
    }
    until(lambda: all(map(healthy, workers.values())), 400, "all workers healthy", 1.0)
    wanted = wanted_pages(site)
    submit(system.bootstrap, "two", site, tmp_path, delay_s=0.05)

    def seen() -> int:
        return len(pages(site, records(system.bootstrap, "two")))

    until(lambda: seen() >= 30, 240, "the first records", 2.0)
    # The site is one host, so one of the two fetchers has it: kill both, one after the other.
    for number in (0, 1):
        name = workers["fetcher", number].get_wrapped_container().id
        subprocess.run(["docker", "kill", name], capture_output=True, check=True)
        workers["fetcher", number + 2] = system.start_worker("fetcher", number + 2)
        least = seen() + 20
        until(lambda least=least: seen() >= least, 240, "records go on", 2.0)  # type: ignore[misc]
    found = finished(system.bootstrap, "two", site, 400)
    assert wanted - found.keys() == set(), "lost"
    assert found.keys() - wanted == set(), "records of pages that should have none"
    assert max(found.values()) <= most_records(kills=2)


def test_workers_refuse_to_start_nameless(system: System) -> None:
    env = QUICK | {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "CRAWL_AGENT": "", "CRAWL_CONTACT": ""}
    container = system.start("nameless", IMAGE, WORKERS["fetcher"], env)
    assert container.get_wrapped_container().wait(timeout=240)["StatusCode"] == 2
    assert b"CRAWL_AGENT" in b"".join(container.get_logs())
