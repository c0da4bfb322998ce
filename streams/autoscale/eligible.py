"""Asks the fetchers, or Prometheus, how much of the backlog politeness allows now."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from schemas.errors import ConfigError
from streams.autoscale.signals import Held

ELIGIBLE: Final = "crawler_eligible_backlog"
WINDOW: Final = "crawler_window_requests"
READY: Final = "crawler_ready_requests"
FETCHED: Final = "crawler_requests_total"
CPU: Final = "process_cpu_seconds_total"

_TIMEOUT_S = 3.0
_MOST_BYTES = 4 * 1024 * 1024
_ENOUGH = 0.8
"""Share of the fetchers that must answer; the others are taken to be like them."""

# Metrics never go through a proxy: they are on loopback or inside the cluster.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Eligible(Protocol):
    """Where the fetchers' own account of their backlog comes from."""

    async def read(self) -> Held | None:
        """The sum over all fetchers now; None: unknown."""
        ...


class Sample(NamedTuple):
    """What one fetcher exports."""

    gauges: Mapping[str, float]
    fetched: float
    cpu_s: float | None


class Workers:
    """Scrapes every fetcher's /metrics. The addresses are asked for at each read.

    The counters of each fetcher are followed one by one, so that a restart (they begin at 0 again)
    or a fetcher that goes away does not turn the totals back.
    """

    def __init__(self, addresses: Callable[[], Sequence[str]]) -> None:
        self._addresses = addresses
        self._seen: dict[tuple[str, str], float] = {}
        self._totals = {FETCHED: 0.0, CPU: 0.0}

    async def read(self) -> Held | None:
        """Sum over the fetchers; None when none, or fewer than four of five, answered."""
        try:
            addresses = await asyncio.to_thread(self._addresses)
        except OSError:
            return None
        if not addresses:
            return None
        found = await asyncio.gather(*(asyncio.to_thread(_scrape, item) for item in addresses))
        samples = {
            address: sample
            for address, sample in zip(addresses, found, strict=True)
            if sample is not None
        }
        if len(samples) < _ENOUGH * len(addresses):
            return None
        scale = len(addresses) / len(samples)
        for address, sample in samples.items():
            self._follow(address, FETCHED, sample.fetched)
            if sample.cpu_s is not None:
                self._follow(address, CPU, sample.cpu_s)
        gauges = [sample.gauges for sample in samples.values()]
        ready = [item[READY] for item in gauges if READY in item]
        return Held(
            eligible=scale * sum(item[ELIGIBLE] for item in gauges),
            window=scale * sum(item[WINDOW] for item in gauges),
            fetched=self._totals[FETCHED],
            ready=scale * sum(ready) if len(ready) == len(gauges) else None,
            cpu_s=self._totals[CPU],
            fetchers=sum(sample.cpu_s is not None for sample in samples.values()),
        )

    def _follow(self, address: str, name: str, value: float) -> None:
        before = self._seen.get((address, name))
        self._seen[address, name] = value
        if before is None and name == CPU:
            # A fetcher seen for the first time spent its CPU before.
            return
        grown = value - (before or 0.0)
        self._totals[name] += grown if grown >= 0 else value


class Prometheus:
    """Asks a Prometheus server, for deployments with too many fetchers to scrape each."""

    def __init__(self, url: str, selector: str = "") -> None:
        self._url = url.rstrip("/")
        self._selector = selector

    async def read(self) -> Held | None:
        """Sum over the fetchers as of Prometheus's last scrape; None when a series is missing."""
        names = (ELIGIBLE, WINDOW, FETCHED, READY)
        found = await asyncio.gather(*(asyncio.to_thread(self._sum, name) for name in names))
        eligible, window, fetched, ready = found
        if eligible is None or window is None or fetched is None:
            return None
        return Held(eligible, window, fetched, ready)

    def _sum(self, name: str) -> float | None:
        query = urllib.parse.urlencode({"query": f"sum({name}{self._selector})"})
        text = _get(f"{self._url}/api/v1/query?{query}")
        if text is None:
            return None
        try:
            result = json.loads(text)["data"]["result"]
            return float(result[0]["value"][1]) if result else None
        except (ValueError, KeyError, IndexError, TypeError):
            return None


def source(url: str) -> Eligible:
    """The source that a URL names.

    `http://host:port` is a Prometheus server; `dns://name:port` is every address that the name
    has (a compose service, or a headless service in Kubernetes). Raises ConfigError otherwise.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme in ("http", "https") and parts.hostname:
        return Prometheus(url)
    try:
        name, port = parts.hostname, parts.port
    except ValueError:
        name = port = None
    if parts.scheme == "dns" and name and port:
        return Workers(lambda: resolve(name, port))
    raise ConfigError(
        f"{url}: give http://host:port of a Prometheus server, or dns://name:port of the fetchers"
    )


def resolve(name: str, port: int) -> list[str]:
    """host:port of every address of a name. Raises OSError when it has none."""
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    hosts = sorted({str(item[4][0]) for item in found})
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts]


def parse(text: str) -> Sample | None:
    """What a metrics page says, summed over labels; None when it is not a fetcher's."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in (ELIGIBLE, WINDOW, READY, FETCHED, CPU):
            # A value may be followed by a timestamp, and label values may hold spaces.
            value = line.rpartition("}")[2].split() if "{" in line else line.split()[1:]
            try:
                sums[name] = sums.get(name, 0.0) + float(value[0])
            except (ValueError, IndexError):
                return None
    if ELIGIBLE not in sums or WINDOW not in sums:
        return None
    return Sample(sums, sums.get(FETCHED, 0.0), sums.get(CPU))


def _scrape(address: str) -> Sample | None:
    text = _get(f"http://{address}/metrics")
    return None if text is None else parse(text)


def _get(url: str) -> str | None:
    try:
        with _OPENER.open(url, timeout=_TIMEOUT_S) as response:
            return str(response.read(_MOST_BYTES), "utf-8", "replace")
    except (OSError, urllib.error.URLError, ValueError):
        return None
