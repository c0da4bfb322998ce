"""The back ends, against a Docker daemon and a Kubernetes client that only remember."""

from __future__ import annotations

import json
import socketserver
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.errors import ConfigError, TransientInfraError
from streams.autoscale import kubernetes as kubernetes_module
from streams.autoscale.backends import Local, Observed
from streams.autoscale.docker import Docker, copy_of
from streams.autoscale.kubernetes import Kubernetes


def inspected(number: int, project: str = "crawl", state: str = "running") -> dict[str, Any]:
    """A container as `GET /containers/{id}/json` shows it."""
    ident = f"{number:064x}"
    name = f"{project}-fetcher-{number}"
    return {
        "Id": ident,
        "Name": f"/{name}",
        "State": {"Status": state},
        "Config": {
            "Hostname": ident[:12],
            "Image": "crawlstream:local",
            "Cmd": ["fetch"],
            "Env": ["CRAWL_AGENT=bot"],
            "Labels": {
                "com.docker.compose.project": project,
                "com.docker.compose.service": "fetcher",
                "com.docker.compose.container-number": str(number),
                "com.docker.compose.oneoff": "False",
                "com.docker.compose.config-hash": "abc",
            },
        },
        "HostConfig": {"ReadonlyRootfs": True, "NetworkMode": f"{project}_default"},
        "NetworkSettings": {
            "Networks": {
                f"{project}_default": {
                    "Aliases": [name, "fetcher", ident[:12]],
                    "IPAddress": "172.18.0.5",
                    "MacAddress": "02:42",
                    "DriverOpts": None,
                }
            }
        },
    }


class Daemon:
    """Just enough of Docker's API over a Unix socket."""

    def __init__(self, path: Path) -> None:
        self.containers: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                status, data = daemon.handle(self.command, self.path, body)
                text = b"" if data is None else json.dumps(data).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the base class's names

            def address_string(self) -> str:
                return "unix"

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited
                return

        self.server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    def handle(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        parts = urllib.parse.urlsplit(target)
        query = urllib.parse.parse_qs(parts.query)
        path = parts.path.split("/")[2:]
        if path == ["json"]:
            wanted = json.loads(query["filters"][0])["label"]
            return 200, [
                {
                    "Id": item["Id"],
                    "State": item["State"]["Status"],
                    "Labels": item["Config"]["Labels"],
                }
                for item in self.containers.values()
                if all(
                    item["Config"]["Labels"].get(label.partition("=")[0]) == label.partition("=")[2]
                    for label in wanted
                )
            ]
        if path == ["create"]:
            number = int(body["Labels"]["com.docker.compose.container-number"])
            made = inspected(number, state="created")
            made["Config"]["Labels"] = body["Labels"]
            self.containers[made["Id"]] = made
            self.calls.append(f"create {query['name'][0]}")
            return 201, {"Id": made["Id"]}
        item = self.containers.get(path[0])
        if item is None:
            return 404, {"message": "no such container"}
        number = item["Config"]["Labels"]["com.docker.compose.container-number"]
        verb = path[1] if len(path) > 1 else "remove"
        if verb == "json":
            return 200, item
        self.calls.append(f"{verb} {number}")
        if verb == "start":
            item["State"]["Status"] = "running"
        elif verb == "stop":
            item["State"]["Status"] = "exited"
        else:
            del self.containers[path[0]]
        return 204, None

    def have(self, *numbers: int, state: str = "running") -> None:
        for number in numbers:
            item = inspected(number, state=state)
            self.containers[item["Id"]] = item


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "docker.sock")
    made.thread.start()
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


def docker(daemon: Daemon) -> Docker:
    return Docker("crawl", f"unix://{daemon.server.server_address}")


async def test_docker_counts_what_is_up_of_its_own_project(daemon: Daemon) -> None:
    daemon.have(1, 2)
    daemon.have(3, state="exited")
    other = inspected(9, project="other")
    daemon.containers[other["Id"]] = other
    assert await docker(daemon).workers("fetcher") == 2
    assert await docker(daemon).workers("parser") == 0


async def test_docker_grows_by_copies_with_the_free_numbers(daemon: Daemon) -> None:
    daemon.have(1, 3)
    await docker(daemon).scale("fetcher", 4)
    assert daemon.calls == [
        "create crawl-fetcher-2",
        "start 2",
        "create crawl-fetcher-4",
        "start 4",
    ]
    assert await docker(daemon).workers("fetcher") == 4


async def test_docker_starts_stopped_containers_before_it_makes_new_ones(daemon: Daemon) -> None:
    daemon.have(1)
    daemon.have(2, state="exited")
    await docker(daemon).scale("fetcher", 2)
    assert daemon.calls == ["start 2"]


async def test_docker_shrinks_from_the_highest_number(daemon: Daemon) -> None:
    daemon.have(1, 2, 3)
    await docker(daemon).scale("fetcher", 1)
    assert daemon.calls == ["stop 2", "remove 2", "stop 3", "remove 3"]


async def test_docker_needs_a_container_to_copy(daemon: Daemon) -> None:
    with pytest.raises(TransientInfraError, match="start one with compose"):
        await docker(daemon).scale("fetcher", 2)


async def test_a_daemon_that_is_away_is_a_fault_that_passes(tmp_path: Path) -> None:
    with pytest.raises(TransientInfraError, match="Docker at unix"):
        await Docker("crawl", f"unix://{tmp_path}/none.sock").workers("fetcher")


def test_an_address_that_is_not_dockers_is_refused() -> None:
    with pytest.raises(ConfigError, match="DOCKER_HOST"):
        Docker("crawl", "ssh://somewhere")


def test_a_copy_has_nothing_of_the_container_it_was_made_from() -> None:
    name, body = copy_of(inspected(1), 11)
    assert name == "crawl-fetcher-11"
    assert "Hostname" not in body
    assert body["Labels"]["com.docker.compose.container-number"] == "11"
    assert body["Labels"]["com.docker.compose.config-hash"] == "abc"
    assert body["HostConfig"]["ReadonlyRootfs"] is True
    endpoint = body["NetworkingConfig"]["EndpointsConfig"]["crawl_default"]
    assert endpoint == {"Aliases": ["crawl-fetcher-11", "fetcher"], "DriverOpts": None}


def test_a_host_name_that_was_chosen_stays() -> None:
    template = inspected(1)
    template["Config"]["Hostname"] = "chosen"
    assert copy_of(template, 2)[1]["Hostname"] == "chosen"


class Api:
    """`AppsV1Api`, remembering."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error = error
        self.sizes: dict[str, int | None] = {"crawl-fetcher": 3, "crawl-dedup": 2}

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, _request_timeout: float) -> Any:
            if self.error:
                raise self.error
            self.calls.append((name, *args))
            return SimpleNamespace(spec=SimpleNamespace(replicas=self.sizes[args[0]]))

        return call


class Refused(Exception):  # noqa: N818 - stands for the client's own
    status = 403
    reason = "Forbidden"


@pytest.fixture(autouse=True)
def _errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is an extra, which the unit tests do without."""
    monkeypatch.setattr(kubernetes_module, "_errors", lambda: (Refused,))


async def test_kubernetes_uses_the_scale_subresource_of_the_right_kind() -> None:
    api = Api()
    backend = Kubernetes(api, "prod")
    assert await backend.workers("fetcher") == 3
    await backend.scale("fetcher", 5)
    await backend.scale("dedup", 4)
    assert api.calls == [
        ("read_namespaced_deployment_scale", "crawl-fetcher", "prod"),
        (
            "patch_namespaced_deployment_scale",
            "crawl-fetcher",
            "prod",
            {"spec": {"replicas": 5}},
        ),
        (
            "patch_namespaced_stateful_set_scale",
            "crawl-dedup",
            "prod",
            {"spec": {"replicas": 4}},
        ),
    ]


async def test_kubernetes_leaves_a_size_of_zero_out() -> None:
    api = Api()
    api.sizes["crawl-fetcher"] = None
    assert await Kubernetes(api, "prod").workers("fetcher") == 0


async def test_kubernetes_refusing_is_a_fault_that_passes() -> None:
    with pytest.raises(TransientInfraError, match="HTTP 403 Forbidden"):
        await Kubernetes(Api(Refused()), "prod").scale("fetcher", 2)


async def test_local_asks_the_supervisor() -> None:
    counts = {"fetcher": 2}
    backend = Local(lambda: counts, counts.__setitem__)
    await backend.scale("fetcher", 3)
    assert await backend.workers("fetcher") == 3
    assert await backend.workers("parser") is None


async def test_observed_workers_are_counted_and_never_scaled() -> None:
    backend = Observed({"fetcher": 4}.get)
    assert await backend.workers("fetcher") == 4
    with pytest.raises(TransientInfraError, match="no back end"):
        await backend.scale("fetcher", 5)
