"""The Faust application: `faust -A streams worker`."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, cast

import structlog
from aiokafka.errors import KafkaError
from faust.app import base

from schemas.errors import ConfigError, TransientInfraError
from schemas.topics import DEDUP_APP, DEDUP_TABLE, SEEN_CHANGELOG, URLS, physical
from streams.dedup.faust_patch import QuietWorker, SoundConsumer, SoundTransport
from streams.dedup.folder import Folder
from streams.dedup.recovery import CheckedRecovery, RecoveredApp, SeenTables
from streams.dedup.store import Memory, SeenTable
from streams.dedup.work import DedupWork
from streams.kafka.clients import bootstrap
from streams.kafka.topics import check_topics_async
from streams.process.die import die
from streams.process.exits import EXIT_CONFIG
from streams.settings import Settings
from streams.telemetry.metrics import Health, Metrics, MetricsServer
from streams.telemetry.pulse import Pulse
from streams.telemetry.tell import tell

log = structlog.get_logger(__name__)

_BUFFER_MESSAGES: Final = 1_000
_STALE_COMMIT_S: Final = 120.0


class Boot(base.BootStrategy):
    """Which of Faust's services run: not its producer (ours is idempotent), not its web server."""

    enable_kafka_producer = False
    enable_web = False


class DedupApp(RecoveredApp):
    """Faust's application with this project's consumer, table and recovery."""

    mundane_level = "debug"

    BootStrategy = Boot

    def __init__(self, settings: Settings, folder: Folder) -> None:
        self.settings = settings
        self.folder = folder
        self.source_topic = physical(URLS, settings.topic_prefix)
        self.pulse = Pulse()
        self._metrics_server: MetricsServer | None = None
        super().__init__(
            physical(DEDUP_APP, settings.topic_prefix),
            broker=";".join(f"kafka://{server}" for server in bootstrap(settings).split(",")),
            store="rocksdb://",
            datadir=folder.path,
            autodiscover=False,
            web_enabled=False,
            key_serializer="raw",
            value_serializer="raw",
            topic_allow_declare=False,
            topic_disable_leader=True,
            topic_partitions=settings.partitions,
            table_standby_replicas=0,
            broker_commit_interval=settings.commit_interval_s,
            broker_session_timeout=settings.session_timeout_s,
            broker_request_timeout=max(90.0, settings.session_timeout_s),
            stream_buffer_maxsize=_BUFFER_MESSAGES,
            stream_wait_empty=True,
            stream_recovery_delay=0.0,
            worker_redirect_stdouts=False,
            TableManager=SeenTables,
            Worker=QuietWorker,
        )

    def _new_transport(self) -> Any:
        return SoundTransport(self.conf.broker_consumer, self)

    @property
    def recovering(self) -> bool:
        """True from an assignment until its tables are complete."""
        return bool(self.rebalancing or self.recovery.in_recovery)

    @property
    def recovery(self) -> CheckedRecovery:
        """The recovery service; its restorer says what remains."""
        return cast("SeenTables", self.tables).recovery

    async def on_first_start(self) -> None:
        """Refuse to start on wrong topics; connect."""
        try:
            problems = await check_topics_async(self.settings)
            if problems:
                die("\n  ".join(["topics:", *problems, "run: crawl topics create"]), EXIT_CONFIG)
            self.work = DedupWork(
                self.settings, self.table.store, lambda: self.consumer, self.pulse
            )
            await self.work.start()
            self._serve_metrics()
            self.add_future(self._observe())
        except ConfigError as error:
            die(str(error), EXIT_CONFIG)
        except (KafkaError, TransientInfraError) as error:
            die(f"Kafka does not answer: {error}")
        await super().on_first_start()

    async def on_stop(self) -> None:
        """Drain, commit, disconnect."""
        await super().on_stop()
        await self.work.stop()
        if self._metrics_server is not None:
            self._metrics_server.stop()
        log.info("stopped", admitted=self.work.new, duplicates=self.work.known)

    def health(self) -> Health:
        """Ready: partitions are assigned and their tables complete."""
        problems = self.pulse.problems()
        age_s = time.monotonic() - self.work.last_commit_at
        if self.work.held and age_s > _STALE_COMMIT_S + self.settings.commit_interval_s:
            problems.append(f"no commit for {age_s:.0f} s with {self.work.held} messages held")
        return Health(not self.recovering, tuple(problems))

    def _serve_metrics(self) -> None:
        if self.settings.metrics_port is None:
            return
        self.work.metrics.loop = asyncio.get_running_loop()
        self.work.metrics.on_scrape(self._refresh)
        self._metrics_server = MetricsServer(
            self.work.metrics,
            self.health,
            host=self.settings.metrics_host,
            port=self.settings.metrics_port,
        )
        self._metrics_server.start()

    def _refresh(self, metrics: Metrics) -> None:
        metrics.set("crawler_table_keys", self.table.store.estimated_keys)
        metrics.set("crawler_table_recovering", self.recovering)
        metrics.set("crawler_pending_messages", self.work.held)
        metrics.set("crawler_commit_age_seconds", time.monotonic() - self.work.last_commit_at)
        metrics.set("crawler_event_loop_lag_seconds", self.pulse.take_lag())
        metrics.clear("crawler_consumer_lag")
        for tp, lag in cast("SoundConsumer", self.consumer).lags(self.source_topic).items():
            metrics.set("crawler_consumer_lag", lag, DEDUP_APP, URLS, str(tp.partition))

    async def _observe(self) -> None:
        """Measure the event loop; tell of the work done now and then."""
        work = self.work

        def present() -> dict[str, int]:
            return {"pending": work.held}

        await asyncio.gather(self.pulse.beat(), tell(work.metrics.totals, "admitted", present))


def build(settings: Settings) -> DedupApp:
    """The application, with its table and agent, ready for `faust worker`.

    Raises ConfigError without a Kafka, or when the instance's folder cannot be had.
    """
    app = DedupApp(settings, Folder.take(settings.data_dir, settings.instance))
    changelog = app.topic(
        physical(SEEN_CHANGELOG, settings.topic_prefix),
        key_type=bytes,
        value_type=bytes,
        partitions=settings.partitions,
    )
    app.table = SeenTable(
        app,
        name=DEDUP_TABLE,
        key_type=bytes,
        value_type=bytes,
        partitions=settings.partitions,
        changelog_topic=changelog,
        memory=Memory(settings.dedup_memory_mb * 1024 * 1024),
    )
    app.tables.add(app.table)
    source = app.topic(
        app.source_topic,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
    )

    @app.agent(source, name="dedup", concurrency=1)
    async def dedup(stream: Any) -> None:
        async for event in stream.noack().events():
            await app.work.accept(event)

    del dedup
    return app
