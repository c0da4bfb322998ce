"""Workers as containers of a compose project, scaled through Docker's own API.

Like `docker compose up --scale`, but without the compose file or the command: a new container is
a copy of the service's first one with the next number, under the labels that compose knows its
own containers by, so that `docker compose ps`, `logs` and `down` see it.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import urllib.parse
from collections.abc import Mapping
from typing import Any, NamedTuple

from schemas.errors import ConfigError, TransientInfraError

_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_NUMBER = "com.docker.compose.container-number"
_ONEOFF = "com.docker.compose.oneoff"
_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 900.0
"""A stop answers when the container has ended: its grace period, and then some."""
_UP = frozenset({"created", "running", "restarting", "paused"})
_DEFAULT_HOST = "unix:///var/run/docker.sock"


class Container(NamedTuple):
    """One container of a service."""

    id: str
    number: int
    state: str


class Docker:
    """The services of one compose project, named like the roles."""

    def __init__(self, project: str, host: str | None = None) -> None:
        self._project = project
        self._host = host or os.environ.get("DOCKER_HOST") or _DEFAULT_HOST
        _address(self._host)

    async def workers(self, role: str) -> int | None:
        """Containers that are up or starting. See `Backend.workers`."""
        return sum(item.state in _UP for item in await self._containers(role))

    async def scale(self, role: str, workers: int) -> None:
        """Start stopped containers, then create or remove. See `Backend.scale`."""
        found = await self._containers(role)
        up = [item for item in found if item.state in _UP]
        stopped = [item for item in found if item.state not in _UP]
        for item in up[workers:]:
            await self._remove(item)
        missing = workers - len(up)
        for item in stopped[: max(0, missing)]:
            await self._call("POST", f"/containers/{item.id}/start", allowed=(204, 304))
        missing -= len(stopped)
        if missing <= 0:
            return
        if not found:
            raise TransientInfraError(f"{role}: no container to copy; start one with compose")
        template = await self._call("GET", f"/containers/{found[0].id}/json", allowed=(200,))
        numbers = {item.number for item in found}
        for _ in range(missing):
            number = next(n for n in range(1, len(numbers) + 2) if n not in numbers)
            numbers.add(number)
            await self._create(template, number)

    async def close(self) -> None:
        """See `Backend.close`."""

    async def _containers(self, role: str) -> list[Container]:
        labels = [f"{_PROJECT}={self._project}", f"{_SERVICE}={role}", f"{_ONEOFF}=False"]
        query = urllib.parse.urlencode({"all": "true", "filters": json.dumps({"label": labels})})
        found = await self._call("GET", f"/containers/json?{query}", allowed=(200,))
        return sorted(
            (
                Container(item["Id"], int(item["Labels"].get(_NUMBER, "1")), item["State"])
                for item in found
            ),
            key=lambda item: item.number,
        )

    async def _create(self, template: Mapping[str, Any], number: int) -> None:
        name, body = copy_of(template, number)
        query = urllib.parse.urlencode({"name": name})
        made = await self._call("POST", f"/containers/create?{query}", body, allowed=(201,))
        await self._call("POST", f"/containers/{made['Id']}/start", allowed=(204, 304))

    async def _remove(self, container: Container) -> None:
        stop = f"/containers/{container.id}/stop"
        await self._call("POST", stop, allowed=(204, 304, 404), timeout_s=_STOP_TIMEOUT_S)
        await self._call("DELETE", f"/containers/{container.id}?v=true", allowed=(204, 404))

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        allowed: tuple[int, ...],
        timeout_s: float = _TIMEOUT_S,
    ) -> Any:
        try:
            status, data = await asyncio.to_thread(
                _exchange, self._host, method, path, body, timeout_s
            )
        except (OSError, http.client.HTTPException) as error:
            raise TransientInfraError(f"Docker at {self._host}: {error}") from error
        if status not in allowed:
            detail = data.get("message") if isinstance(data, dict) else data
            raise TransientInfraError(f"Docker: {method} {path}: HTTP {status}: {detail}")
        return data


def copy_of(template: Mapping[str, Any], number: int) -> tuple[str, dict[str, Any]]:
    """Name and create request of a container like an inspected one, with another number.

    What Docker filled in for that one container goes: its id as host name and as alias, its
    addresses.
    """
    config = dict(template["Config"])
    short_id = template["Id"][:12]
    if config.get("Hostname") == short_id:
        del config["Hostname"]
    labels = dict(config.get("Labels") or {})
    old = labels.get(_NUMBER, "1")
    labels[_NUMBER] = str(number)
    endpoints = {
        network: {
            "Aliases": [alias for alias in item.get("Aliases") or () if alias != short_id],
            "DriverOpts": item.get("DriverOpts"),
        }
        for network, item in (template["NetworkSettings"].get("Networks") or {}).items()
    }
    # Compose gives each container its own name as an alias too.
    name = template["Name"].lstrip("/")
    copied = name.removesuffix(old) + str(number)
    for item in endpoints.values():
        item["Aliases"] = [copied if alias == name else alias for alias in item["Aliases"]]
    body = {
        **config,
        "Labels": labels,
        "HostConfig": template["HostConfig"],
        "NetworkingConfig": {"EndpointsConfig": endpoints},
    }
    return copied, body


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("docker", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the daemon's socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _address(host: str) -> urllib.parse.SplitResult:
    parts = urllib.parse.urlsplit(host)
    if (parts.scheme == "unix" and parts.path) or (parts.scheme == "tcp" and parts.hostname):
        return parts
    raise ConfigError(f"DOCKER_HOST {host}: unix:///path or tcp://host:port is needed")


def _exchange(
    host: str, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float
) -> tuple[int, Any]:
    parts = _address(host)
    connection = (
        _UnixConnection(parts.path, timeout_s)
        if parts.scheme == "unix"
        else http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    )
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    except ValueError as error:
        raise http.client.HTTPException(f"not JSON: {error}") from error
    finally:
        connection.close()
