"""Puts an autoscaler together: beside a supervisor, or as a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from schemas.errors import ConfigError
from streams.autoscale import eligible as sources
from streams.autoscale.backends import Backend, Local, Observed
from streams.autoscale.docker import Docker
from streams.autoscale.loop import Autoscaler, Sink
from streams.autoscale.model import Rules
from streams.autoscale.offsets import GroupOffsets
from streams.autoscale.roles import FETCHER, ROLES
from streams.settings import Settings

BackendName = Literal["none", "docker", "kubernetes"]

DEFAULT_SIZES: Final = ("fetcher=1:20", "parser=1:20")
INTERVAL_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `crawl autoscale` was asked for."""

    backend: BackendName
    sizes: Sequence[str] = DEFAULT_SIZES
    eligible: str | None = None
    drain_s: float = 300.0
    down_window_s: float = 300.0
    interval_s: float = INTERVAL_S
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


def rules_of(
    sizes: Iterable[str], *, drain_s: float, down_window_s: float, interval_s: float
) -> dict[str, Rules]:
    """Rules by role from texts like `fetcher=1:20` (role, least and most workers).

    Raises ConfigError naming every text that is wrong.
    """
    rules: dict[str, Rules] = {}
    problems: list[str] = []
    for text in sizes:
        role, _, limits = text.partition("=")
        least, _, most = limits.partition(":")
        if role not in ROLES:
            problems.append(f"{text}: the roles are {', '.join(ROLES)}")
            continue
        try:
            rules[role] = Rules(
                min_workers=int(least),
                max_workers=int(most),
                drain_target_s=drain_s,
                down_window_s=down_window_s,
                up_window_s=interval_s,
                cooldown_s=max(interval_s, 20.0),
                stale_after_s=4 * interval_s,
                assumed_rate=ROLES[role].assumed_rate,
            )
        except ValueError as error:
            problems.append(f"{text}: {error}")
    if problems:
        raise ConfigError("sizes, ROLE=LEAST:MOST:\n  " + "\n  ".join(problems))
    return rules


def beside(
    supervisor: Supervised, settings: Settings, rules: Mapping[str, Rules], sink: Sink
) -> Autoscaler:
    """An autoscaler of a supervisor's workers, to `run` on the supervisor's event loop.

    The fetchers are scaled only when they have metrics ports (`CRAWL_METRICS_PORT`): that is
    where they say how much of their backlog politeness allows.
    """

    def addresses() -> list[str]:
        return [
            f"{settings.metrics_host}:{item.metrics_port}"
            for item in supervisor.workers()
            if item.role == FETCHER and item.pid is not None and item.metrics_port
        ]

    return Autoscaler(
        rules,
        offsets=GroupOffsets(settings),
        backend=Local(supervisor.counts, supervisor.scale),
        sink=sink,
        eligible=sources.Workers(addresses),
    )


async def serve(settings: Settings, options: Options) -> None:
    """Scale until SIGTERM or SIGINT. Raises ConfigError when the options cannot be met."""
    rules = rules_of(
        options.sizes,
        drain_s=options.drain_s,
        down_window_s=options.down_window_s,
        interval_s=options.interval_s,
    )
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
    from streams.metrics import Health, Metrics, MetricsServer

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
