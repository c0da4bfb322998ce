"""A process that runs one stage: signals, metrics server, exit code."""

from __future__ import annotations

import asyncio
import signal

import structlog
from aiokafka.errors import KafkaError

from schemas.errors import ConfigError, TransientInfraError
from streams.delivery.runtime import Runtime
from streams.delivery.stage import Stage
from streams.kafka.topics import check_topics_async
from streams.process.collector import relax
from streams.process.exits import EXIT_BUG, EXIT_CONFIG, EXIT_RETRY
from streams.process.loops import loop_factory
from streams.settings import Settings
from streams.telemetry.logs import configure
from streams.telemetry.metrics import MetricsServer

log = structlog.get_logger(__name__)


async def _run(stage: Stage, settings: Settings) -> int:
    problems = await check_topics_async(settings)
    if problems:
        raise ConfigError("\n  ".join(["topics:", *problems, "run: crawl topics create"]))
    runtime = Runtime(stage, settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.stop)
    if settings.metrics_port is None:
        return await runtime.run()
    runtime.metrics.loop = loop
    runtime.metrics.on_scrape(runtime.refresh)
    server = MetricsServer(
        runtime.metrics, runtime.health, host=settings.metrics_host, port=settings.metrics_port
    )
    server.start()
    try:
        return await runtime.run()
    finally:
        server.stop()


def run_worker(stage: Stage, settings: Settings) -> int:
    """Run a stage as this process's job; the exit code.

    0: stopped by SIGTERM or SIGINT after draining. 2: a setting or topic is wrong. 70: a bug.
    75: Kafka did not answer in time; start it again and it goes on where it was.
    """
    configure(settings, stage.name)
    relax()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_run(stage, settings))
    except ConfigError as error:
        log.error("cannot start", error=str(error))
        return EXIT_CONFIG
    except (KafkaError, TransientInfraError) as error:
        log.error("Kafka does not answer", error=repr(error))
        return EXIT_RETRY
    except Exception:
        log.exception("unexpected failure")
        return EXIT_BUG
