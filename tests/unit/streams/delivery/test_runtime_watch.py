"""A background task that fails ends the worker: work that nobody does is never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from parsers.worker.stage import ParseStage
from schemas.errors import TransientInfraError
from streams.delivery.runtime import Runtime
from streams.delivery.stage import Context
from streams.process.exits import EXIT_BUG, EXIT_RETRY
from streams.settings import load
from streams.telemetry.metrics import Metrics

SETTINGS = load({}, bootstrap_servers="127.0.0.1:1", agent="testbot", contact="https://b.example/")


async def fail(error: BaseException) -> None:
    raise error


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    made = Runtime(ParseStage(), SETTINGS)
    yield made
    await made._consumer.stop()
    await made.directory.stop()
    await made.outputs.stop()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("a bug"), EXIT_BUG),
        (KafkaError("away"), EXIT_RETRY),
        (TransientInfraError("disk"), EXIT_RETRY),
    ],
)
async def test_a_failed_task_ends_the_worker(runtime: Runtime, error: Exception, code: int) -> None:
    task = asyncio.create_task(fail(error), name="deliverer")
    runtime.watch(task)
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert runtime._failed.is_set()
    assert runtime._stopping.is_set()
    assert runtime._exit_code == code


async def test_a_cancelled_task_does_not(runtime: Runtime) -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    runtime.watch(task)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert not runtime._failed.is_set()


class Refusing:
    async def deliver(self, messages: Any) -> None:
        raise RuntimeError("a bug in delivery")


async def test_a_parser_that_cannot_deliver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[str] = []
    stage = ParseStage()
    monkeypatch.setattr("parsers.worker.pool.Pool.start", lambda pool: asyncio.sleep(0))

    def watch(task: asyncio.Task[Any]) -> None:
        task.add_done_callback(
            lambda ended: None if ended.cancelled() else failed.append(repr(ended.exception()))
        )

    crawls: Any = None
    await stage.start(Context(SETTINGS, Refusing(), crawls, Metrics("parser"), watch))
    finished: Any = type("F", (), {"outs": (), "counts": {}})()
    stage._finish(finished)
    async with asyncio.timeout(5):
        while not failed:  # noqa: ASYNC110 - a list to watch
            await asyncio.sleep(0.001)
    assert "a bug in delivery" in failed[0]
    await stage.stop()
