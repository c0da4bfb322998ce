"""Producing in groups: what goes out when, and that nothing failed is ever called delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from schemas.topics import RECORDS, URLS
from streams.delivery import outputs
from streams.delivery.outputs import KafkaOutputs
from streams.kafka.messages import Out
from streams.settings import load

SETTINGS = load({}, bootstrap_servers="127.0.0.1:1", delivery_timeout_s=1.0)


class FakeProducer:
    def __init__(self) -> None:
        self.groups: list[list[bytes]] = []
        self.futures: list[asyncio.Future[None]] = []
        self.acknowledge = True
        self.refuse: Exception | None = None
        self._open = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def partitions_for(self, topic: str) -> set[int]:
        return {0, 1}

    async def send(self, topic: str, *, value: bytes, **_: Any) -> asyncio.Future[None]:
        if self.refuse is not None:
            raise self.refuse
        loop = asyncio.get_running_loop()
        if not self._open:
            self._open = True
            self.groups.append([])
            loop.call_soon(self._close)
        self.groups[-1].append(value)
        future = loop.create_future()
        if self.acknowledge:
            future.set_result(None)
        self.futures.append(future)
        return future

    def _close(self) -> None:
        self._open = False


class Bench:
    def __init__(self, producer: FakeProducer) -> None:
        self.producer = producer
        self.said: list[str] = []
        self.outputs = KafkaOutputs(SETTINGS, self.said.append)

    def deliver(self, *values: bytes, topic: str = RECORDS) -> asyncio.Task[None]:
        messages = [Out(topic, value, value) for value in values]
        return asyncio.create_task(self.outputs.deliver(messages))


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    producer = FakeProducer()
    monkeypatch.setattr(outputs, "make_producer", lambda settings: producer)
    made = Bench(producer)
    await made.outputs.start()
    return made


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - a fake to watch
            await asyncio.sleep(0.001)


async def test_the_first_goes_at_once_and_the_next_ones_together(bench: Bench) -> None:
    await bench.deliver(b"1")
    tasks = [bench.deliver(b"2", b"3"), bench.deliver(b"4")]
    await asyncio.sleep(0)
    tasks.append(bench.deliver(b"5", topic=URLS))
    await asyncio.gather(*tasks)
    assert bench.producer.groups == [[b"1"], [b"2", b"3", b"4", b"5"]]
    assert bench.outputs.delivered == 5
    assert bench.said == []


async def test_nothing_is_delivered_before_its_acknowledgement(bench: Bench) -> None:
    bench.producer.acknowledge = False
    first, second = bench.deliver(b"1", b"2"), bench.deliver(b"3")
    await until(lambda: len(bench.producer.futures) == 3)
    bench.producer.futures[0].set_result(None)
    await asyncio.sleep(0.01)
    assert not first.done()
    assert not second.done()
    for future in bench.producer.futures[1:]:
        future.set_result(None)
    await asyncio.gather(first, second)


async def test_a_group_on_its_way_does_not_hold_the_next_one_back(bench: Bench) -> None:
    bench.producer.acknowledge = False
    first = bench.deliver(b"1")
    await until(lambda: len(bench.producer.futures) == 1)
    second = bench.deliver(b"2")
    await until(lambda: len(bench.producer.futures) == 2)
    bench.producer.futures[1].set_result(None)
    await second
    assert not first.done()
    first.cancel()


async def test_what_was_cancelled_while_it_waited_is_not_sent(bench: Bench) -> None:
    await bench.deliver(b"1")
    gone, kept = bench.deliver(b"2"), bench.deliver(b"3")
    await asyncio.sleep(0)
    gone.cancel()
    await kept
    assert bench.producer.groups == [[b"1"], [b"3"]]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MessageSizeTooLargeError("big"), "size limit"),
        (KafkaError("refused"), "refused"),
        (RuntimeError("a bug"), "a bug"),
    ],
)
async def test_what_cannot_be_sent_ends_the_process_and_is_never_delivered(
    bench: Bench, error: Exception, said: str
) -> None:
    bench.producer.refuse = error
    task = bench.deliver(b"1")
    await until(lambda: bool(bench.said))
    assert said in bench.said[0]
    assert "records" in bench.said[0]
    await asyncio.sleep(0.01)
    assert not task.done()
    task.cancel()


async def test_a_failed_acknowledgement_ends_the_process(bench: Bench) -> None:
    bench.producer.acknowledge = False
    tasks = [bench.deliver(b"1"), bench.deliver(b"2")]
    await until(lambda: len(bench.producer.futures) == 2)
    bench.producer.futures[0].set_result(None)
    bench.producer.futures[1].set_exception(KafkaError("lost"))
    await until(lambda: bool(bench.said))
    assert "lost" in bench.said[0]
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()


async def test_an_acknowledgement_that_does_not_come_ends_the_process(bench: Bench) -> None:
    bench.producer.acknowledge = False
    task = bench.deliver(b"1")
    await until(lambda: bool(bench.said))
    assert "not acknowledged in 1 s" in bench.said[0]
    assert not task.done()
    task.cancel()


async def test_stop_leaves_no_task_behind(bench: Bench) -> None:
    bench.producer.acknowledge = False
    task = bench.deliver(b"1")
    await until(lambda: len(bench.producer.futures) == 1)
    waiting = bench.deliver(b"2")
    await asyncio.sleep(0)
    await bench.outputs.stop()
    await until(lambda: len(asyncio.all_tasks()) == 3)
    assert bench.producer.groups == [[b"1"]]
    task.cancel()
    waiting.cancel()
