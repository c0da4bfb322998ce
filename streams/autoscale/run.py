"""Puts an autoscaler together: beside a supervisor, or as a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from schemas.errors import ConfigError
from streams.autoscale import eligible as sources
from streams.autoscale.backends import Backend, Local, Observed
from streams.autoscale.docker import Docker
from streams.autoscale.loop import Autoscaler
from streams.autoscale.offsets import GroupOffsets
from streams.autoscale.roles import FETCHER, ROLES
from streams.autoscale.sizing import Sizing
from streams.settings import Settings

BackendName = Literal["none", "docker", "kubernetes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Sizing):
    """What `crawl autoscale` was asked for."""

    backend: BackendName
    eligible: str | None = None
    project: str = "crawlstream"
    namespace: str | None = None
    prefix: str = "crawl-"
    dry_run: bool = False


class Supervised(Protocol):
    """What is needed of `streams.supervise.Supervisor`."""

    def counts(self) -> Mapping[Any, int]:
        """Workers wanted, by role."""
        ...

    def workers(self) -> Sequence[Any]:
        """Workers, each with `role`, `pid` and `metrics_port`."""
        ...

    def scale(self, role: Any, count: int) -> None:
        """Want this many workers of a role."""
        ...


async def beside(
    supervisor: Supervised, settings: Settings, sizing: Sizing, stop: asyncio.Event
) -> None:
    """Scale a supervisor's workers on its event loop until `stop` is set.

    The fetchers are scaled only when they have metrics ports (`with_ports`): that is where they
    say how much of their backlog politeness allows. Decisions go to `logs/autoscale.jsonl` in the
    data folder.
    """

    def addresses() -> list[str]:
        return [
            f"{settings.metrics_host}:{item.metrics_port}"
            for item in supervisor.workers()
            if item.role == FETCHER and item.pid is not None and item.metrics_port
        ]

    path = settings.data_dir.absolute() / "logs" / "autoscale.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:

        def note(line: Mapping[str, Any]) -> None:
            log.write(json.dumps(line) + "\n")
            log.flush()

        autoscaler = Autoscaler(
            sizing.rules(),
            offsets=GroupOffsets(settings),
            backend=Local(supervisor.counts, supervisor.scale),
            sink=note,
            eligible=sources.Workers(addresses),
        )
        await autoscaler.run(stop, sizing.interval_s)


def with_ports(settings: Settings) -> Settings:
    """Settings whose workers have metrics ports.

    Where none is set, a block of loopback ports is taken of which the first of each role is free.
    """
    if settings.metrics_port:
        return settings
    for base in range(21_000, 32_000, 400):
        if all(_free(base + 100 * number) for number in range(len(ROLES))):
            return settings.model_copy(update={"metrics_port": base})
    raise ConfigError("no free ports for metrics from 21000 on: set CRAWL_METRICS_PORT")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def serve(settings: Settings, options: Options) -> None:
    """Scale until SIGTERM or SIGINT. Raises ConfigError when the options cannot be met."""
    rules = options.rules()
    if FETCHER in rules and options.eligible is None:
        raise ConfigError(
            "fetchers are scaled by the backlog that politeness allows, which they export: give"
            " --eligible dns://NAME:PORT of their metrics, or http://HOST:PORT of Prometheus"
        )
    offsets = GroupOffsets(settings)
    autoscaler = Autoscaler(
        rules,
        offsets=offsets,
        backend=_backend(options, offsets),
        sink=print_line,
        eligible=None if options.eligible is None else sources.source(options.eligible),
        dry_run=options.dry_run or options.backend == "none",
    )
    server = _metrics(settings, autoscaler, options.interval_s)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await autoscaler.run(stop, options.interval_s)
    finally:
        if server is not None:
            server.stop()


def print_line(line: Mapping[str, Any]) -> None:
    """The decision log: one JSON object a line, to standard output."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _backend(options: Options, offsets: GroupOffsets) -> Backend:
    if options.backend == "docker":
        return Docker(options.project)
    if options.backend == "kubernetes":
        from streams.autoscale.kubernetes import connect

        return connect(options.namespace, options.prefix)
    return Observed(lambda role: offsets.members.get(ROLES[role].group))


def _metrics(settings: Settings, autoscaler: Autoscaler, interval_s: float) -> Any:
    """The metrics port of the autoscaler itself; None when no port is set."""
    if settings.metrics_port is None:
        return None
    from streams.telemetry.metrics import Health, Metrics, MetricsServer

    metrics = Metrics("autoscaler")

    def refresh(into: Metrics) -> None:
        for role, decision in autoscaler.decisions.items():
            into.set("crawler_autoscale_eligible_backlog", decision.eligible, role)
            if decision.workers is not None:
                into.set("crawler_autoscale_workers", decision.workers, role, "present")
            if decision.need is not None:
                into.set("crawler_autoscale_workers", decision.need, role, "needed")
            members = autoscaler.members(role)
            if members is not None:
                into.set("crawler_autoscale_workers", members, role, "members")

    def health() -> Health:
        quiet_s = time.monotonic() - autoscaler.stepped_at
        stuck = () if quiet_s < 5 * interval_s + 60 else (f"no decision for {quiet_s:.0f} s",)
        return Health(bool(autoscaler.decisions) and not stuck, stuck)

    metrics.on_scrape(refresh)
    autoscaler.on_decision = lambda role, decision: metrics.inc(
        "crawler_autoscale_decisions_total", role, decision.action
    )
    server = MetricsServer(metrics, health, host=settings.metrics_host, port=settings.metrics_port)
    server.start()
    return server
