"""Metrics of every role, declared in one table, and the HTTP door to them and to health.

Label values are bounded: reasons, outcomes, topics, partitions; never a URL, a host or a crawl.
A test holds an end-to-end run's series against the table.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter as Tally
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal, NamedTuple

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from schemas.errors import ConfigError
from streams.telemetry.targets import DRAIN_TARGET_S

log = structlog.get_logger(__name__)

# A `_created` series beside each counter and histogram doubles their number and says nothing here.
disable_created_metrics()  # type: ignore[no-untyped-call]

Counts = Mapping[str, Mapping[str, int]]
"""Counters by crawl id, then by name. The name `pages` feeds the page budget."""

_FETCH_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_WAIT_S: Final = (0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_PARSE_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0)
_END_TO_END_S: Final = (
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    3600.0,
    21600.0,
)


class Metric(NamedTuple):
    """One declared metric. `buckets` only for histograms, in the metric's unit."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


COMMON: Final = (
    Metric(
        "crawler_event_loop_lag_seconds", "gauge", "Longest delay of a timer since the last scrape."
    ),
    Metric(
        "crawler_consumer_lag",
        "gauge",
        "Messages not yet committed.",
        ("group", "topic", "partition"),
    ),
    Metric("crawler_pending_messages", "gauge", "Messages taken and not yet completed."),
    Metric("crawler_commit_age_seconds", "gauge", "Time since all completed work was committed."),
    Metric("crawler_rebalances_total", "counter", "Assignments received."),
    Metric("crawler_dead_letters_total", "counter", "Dead letters by reason.", ("reason",)),
    Metric("crawler_rejected_urls_total", "counter", "URLs refused by reason.", ("reason",)),
)
FETCHER: Final = (
    Metric("crawler_requests_total", "counter", "Attempts by outcome.", ("outcome",)),
    Metric(
        "crawler_request_duration_seconds", "histogram", "Duration of an attempt.", (), _FETCH_S
    ),
    Metric("http_requests_in_flight", "gauge", "Requests under way."),
    Metric("crawler_concurrency_limit", "gauge", "Most requests under way at present."),
    Metric("crawler_response_bytes_total", "counter", "Bytes of bodies.", ("form",)),
    Metric("crawler_robots_decisions_total", "counter", "Answers of robots.txt.", ("decision",)),
    Metric(
        "crawler_robots_cut_total", "counter", "robots.txt not obeyed whole, by bound.", ("bound",)
    ),
    Metric("crawler_politeness_wait_seconds", "histogram", "From taken to begun.", (), _WAIT_S),
    Metric("crawler_window_requests", "gauge", "Requests held in the windows."),
    Metric("crawler_window_hosts", "gauge", "Hosts with requests in the windows."),
    Metric(
        "crawler_eligible_backlog",
        "gauge",
        f"Held requests that politeness allows in {DRAIN_TARGET_S:g} s.",
    ),
    Metric("crawler_ready_requests", "gauge", "Held requests that only wait for a connection."),
    Metric("crawler_retries_total", "counter", "Attempts sent to a retry tier.", ("tier",)),
    Metric(
        "crawler_deferrals_total", "counter", "Requests of busy hosts sent to a tier.", ("tier",)
    ),
    Metric("crawler_breakers_open", "gauge", "Hosts whose circuit breaker is open."),
)
PARSER: Final = (
    Metric(
        "crawler_parse_duration_seconds",
        "histogram",
        "CPU time of a document.",
        ("kind",),
        _PARSE_S,
    ),
    Metric("crawler_records_total", "counter", "Records produced.", ("kind",)),
    Metric(
        "crawler_parse_issues_total",
        "counter",
        "Records in which something was odd but not fatal, by what it was.",
        ("issue",),
    ),
    Metric("crawler_links_found_total", "counter", "Links seen in documents."),
    Metric("crawler_links_sent_total", "counter", "Links produced to `urls`."),
    Metric(
        "crawler_seed_to_record_seconds", "histogram", "From seed to record.", (), _END_TO_END_S
    ),
    Metric(
        "crawler_discovery_to_record_seconds",
        "histogram",
        "From discovery to record.",
        (),
        _END_TO_END_S,
    ),
    Metric(
        "crawler_parse_process_deaths_total",
        "counter",
        "Parse processes that died or were killed.",
        ("cause",),
    ),
)
DEDUP: Final = (
    Metric("crawler_dedup_urls_total", "counter", "URLs looked up.", ("result",)),
    Metric("crawler_table_keys", "gauge", "Estimated keys of the table `seen` held here."),
    Metric(
        "crawler_table_recovering", "gauge", "1 while the table is restored from its changelog."
    ),
)
AUTOSCALER: Final = (
    Metric("crawler_autoscale_workers", "gauge", "Workers by role.", ("role", "kind")),
    Metric(
        "crawler_autoscale_decisions_total", "counter", "Decisions by role.", ("role", "decision")
    ),
    Metric(
        "crawler_autoscale_eligible_backlog", "gauge", "Backlog that workers can do now.", ("role",)
    ),
)
ROLES: Final[dict[str, tuple[Metric, ...]]] = {
    "fetcher": COMMON + FETCHER,
    "parser": COMMON + PARSER,
    "dedup": COMMON + DEDUP,
    "autoscaler": AUTOSCALER,
}

_REFRESH_S: Final = 2.0
"""How long a scrape waits for the event loop."""
_BY_PREFIX: Final = {
    "failed": "crawler_dead_letters_total",
    "disregarded": "crawler_dead_letters_total",
    "rejected": "crawler_rejected_urls_total",
}


class Metrics:
    """The declared metrics of one role in one process."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._metrics: dict[str, Any] = {}
        self._children: dict[tuple[str, ...], Any] = {}
        self._refreshers: list[Callable[[Metrics], None]] = []
        self.totals: Tally[str] = Tally()
        """Completion counters since the start, over all crawls, by name."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where refreshers run, since what they read belongs to it; None: with the caller."""
        self.in_flight: Callable[[], int] = int
        """Work under way now, for the log; the stage sets it."""
        for metric in ROLES[role]:
            self._metrics[metric.name] = self._make(metric)

    def _make(self, metric: Metric) -> Any:
        if metric.kind == "histogram":
            return Histogram(
                metric.name,
                metric.help,
                metric.labels,
                buckets=metric.buckets,
                registry=self.registry,
            )
        made = Counter if metric.kind == "counter" else Gauge
        return made(metric.name, metric.help, metric.labels, registry=self.registry)

    def _child(self, name: str, labels: tuple[str, ...]) -> Any:
        key = (name, *labels)
        child = self._children.get(key)
        if child is None:
            metric = self._metrics[name]
            child = self._children[key] = metric.labels(*labels) if labels else metric
        return child

    def inc(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        self._child(name, labels).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._child(name, labels).set(value)

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Put a value into a histogram."""
        self._child(name, labels).observe(value)

    def clear(self, name: str) -> None:
        """Drop all series of a labelled gauge, such as partitions that moved elsewhere."""
        self._metrics[name].clear()
        for key in [key for key in self._children if key[0] == name]:
            del self._children[key]

    def count(self, counts: Counts) -> None:
        """Take in a completion's counters: those named `failed.`, `disregarded.`, `rejected.`."""
        for names in counts.values():
            for name, number in names.items():
                self.totals[name] += number
                prefix, dot, reason = name.partition(".")
                if dot and prefix in _BY_PREFIX:
                    self.inc(_BY_PREFIX[prefix], reason, by=number)

    def on_scrape(self, refresh: Callable[[Metrics], None]) -> None:
        """Call `refresh(self)` before each scrape, to set gauges from present state."""
        self._refreshers.append(refresh)

    def render(self) -> bytes:
        """The exposition text. With a loop that is stuck, the gauges are those of before."""
        loop = self.loop
        if loop is None:
            self._refresh()
        else:
            done: Future[None] = Future()
            try:
                loop.call_soon_threadsafe(self._refresh_for, done)
                done.result(_REFRESH_S)
            except (RuntimeError, TimeoutError) as error:
                log.warning("the gauges are old: the event loop does not answer", error=repr(error))
        return bytes(generate_latest(self.registry))

    def _refresh(self) -> None:
        for refresh in self._refreshers:
            refresh(self)

    def _refresh_for(self, done: Future[None]) -> None:
        try:
            self._refresh()
        except Exception as error:  # noqa: BLE001 - told to whoever waits, not to the loop
            done.set_exception(error)
        else:
            done.set_result(None)


class Health(NamedTuple):
    """Answer of a health check; `problems` is empty when all is well."""

    ready: bool
    problems: tuple[str, ...]


class MetricsServer:
    """`/metrics`, `/healthz` (200 or 503 with the problems) and `/readyz` on one port.

    It runs in a thread, so that it still answers, and says so, when the event loop is stuck.
    """

    def __init__(
        self, metrics: Metrics, health: Callable[[], Health], *, host: str, port: int
    ) -> None:
        """Bind at once. Raises ConfigError when the port is taken."""
        self._metrics = metrics
        self._health = health
        try:
            self._server = ThreadingHTTPServer((host, port), self._handler())
        except OSError as error:
            raise ConfigError(f"CRAWL_METRICS_PORT {port} on {host}: {error}") from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        log.info("metrics", role=self._metrics.role, port=self.port)

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, self._metrics.render()
        if path in ("/healthz", "/readyz"):
            health = self._health()
            well = not health.problems if path == "/healthz" else health.ready
            body = {"role": self._metrics.role, "ready": health.ready, "problems": health.problems}
            return 200 if well else 503, "application/json", json.dumps(body).encode() + b"\n"
        return 404, "text/plain", b"/metrics /healthz /readyz\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, content_type, body = answer(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as above
                log.debug("metrics request", line=format % args)

        return Handler
