"""What a first start would otherwise wait for: the jars, and the start cache.

The start cache is an ahead-of-time cache of the JVM (JEP 483, 514): a broker that runs once in a
temporary folder, under a little load, leaves its classes loaded, linked and profiled in a file.
It takes two thirds of the time and of the CPU off every later start, for some 70 MB of disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from streams.broker import jars, java
from streams.broker.embedded import EmbeddedBroker, start_cache
from streams.broker.errors import BrokerError

_TOPIC: Final = "warm-up"
_MESSAGES: Final = 2_000
_DUMP_TIMEOUT_S: Final = 180.0


def prepare(say: Callable[[str], None] = lambda _: None) -> None:
    """Fetch the jars and make the start cache, unless they are there. Safe to call always.

    Without a Java that can make one (before 25), or when making it fails, there is no start
    cache and nothing else changes. Raises BrokerError when the jars or Java are missing.
    """
    if jars.missing(jars.locked(), start_cache().parent):
        say("fetching Kafka (45 MB, once)")
    jars.ensure()
    if not java.find().caches_start or start_cache().is_file():
        return
    with jars.exclusive(start_cache().with_suffix(".lock")):
        if not start_cache().is_file():
            say("making the broker's start cache (once)")
            _train(start_cache())


def _train(cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".train-", dir=cache.parent) as folder:
        made = Path(folder) / cache.name
        broker = EmbeddedBroker(Path(folder), jvm_options=(f"-XX:AOTCacheOutput={made}",))
        # A broker that cannot run here says so at its real start, in a data folder of the user's.
        with contextlib.suppress(BrokerError):
            bootstrap = broker.start()
            try:
                with _quiet("aiokafka"):
                    asyncio.run(_exercise(bootstrap))
            finally:
                broker.stop(_DUMP_TIMEOUT_S)
        if made.is_file():
            made.replace(cache)


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without a library's lines: what a fresh broker cannot do yet is tried again, not news."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


async def _exercise(bootstrap: str) -> None:
    """Create a topic, produce to it, consume it as a group, commit: what a crawl asks of it."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.errors import KafkaError

    with contextlib.suppress(KafkaError, TimeoutError):
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(_TOPIC, 4, 1)])
        await admin.close()
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        async with producer, asyncio.timeout(30):
            for at in range(_MESSAGES):
                await producer.send(_TOPIC, b"%d" % at * 50)
            await producer.flush()
        consumer = AIOKafkaConsumer(
            _TOPIC,
            bootstrap_servers=bootstrap,
            group_id=_TOPIC,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer, asyncio.timeout(30):
            seen = 0
            while seen < _MESSAGES:
                seen += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
                await consumer.commit()
