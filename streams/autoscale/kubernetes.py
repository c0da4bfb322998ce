"""Workers in Kubernetes, scaled by the `scale` subresource. The one importer of its client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError, TransientInfraError

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TIMEOUT_S = 10
_STATEFUL = frozenset({"dedup"})
"""Roles that are StatefulSets; the others are Deployments."""


class Kubernetes:
    """Deployments and StatefulSets named `{prefix}{role}` of one namespace.

    Needs `get` on them and `get`, `patch` on their `scale` subresource (deploy/k8s).
    """

    def __init__(self, api: Any, namespace: str, prefix: str = "crawl-") -> None:
        self._api = api
        self._namespace = namespace
        self._prefix = prefix

    async def workers(self, role: str) -> int | None:
        """See `Backend.workers`."""
        read = self._verb("read", role)
        try:
            scale = await asyncio.to_thread(
                read, self._prefix + role, self._namespace, _request_timeout=_TIMEOUT_S
            )
        except _errors() as error:
            raise TransientInfraError(f"{role}: {_why(error)}") from error
        # The API leaves a size of 0 out.
        return int(scale.spec.replicas or 0)

    async def scale(self, role: str, workers: int) -> None:
        """See `Backend.scale`."""
        patch = self._verb("patch", role)
        body = {"spec": {"replicas": workers}}
        try:
            await asyncio.to_thread(
                patch, self._prefix + role, self._namespace, body, _request_timeout=_TIMEOUT_S
            )
        except _errors() as error:
            raise TransientInfraError(f"{role}: {_why(error)}") from error

    async def close(self) -> None:
        """See `Backend.close`."""
        await asyncio.to_thread(self._api.api_client.close)

    def _verb(self, verb: str, role: str) -> Any:
        kind = "stateful_set" if role in _STATEFUL else "deployment"
        return getattr(self._api, f"{verb}_namespaced_{kind}_scale")


def connect(namespace: str | None, prefix: str) -> Kubernetes:
    """Connect as the pod's service account, else as the user's kubeconfig says.

    Raises ConfigError when the client is not installed or neither is there.
    """
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise ConfigError(
            "the Kubernetes back end needs an extra: pip install 'crawlstream[kubernetes]'"
        ) from error
    try:
        config.load_incluster_config()
    except config.ConfigException:
        try:
            config.load_kube_config()
        except (config.ConfigException, OSError) as error:
            raise ConfigError(f"no Kubernetes API: {error}") from error
    if namespace is None:
        try:
            namespace = _NAMESPACE.read_text(encoding="utf-8").strip()
        except OSError:
            namespace = "default"
    return Kubernetes(client.AppsV1Api(), namespace, prefix)


def _errors() -> tuple[type[Exception], ...]:
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    return (ApiException, HTTPError, OSError)


def _why(error: Exception) -> str:
    status, reason = getattr(error, "status", None), getattr(error, "reason", None)
    return f"HTTP {status} {reason}" if status else str(error)
