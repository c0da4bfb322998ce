"""Closing a consumer whose broker is away does not cancel whoever closes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import Fetcher

from streams.kafka import clients
from streams.settings import load


async def test_a_fetch_in_its_pause_after_a_failure_is_ended_quietly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = clients.make_consumer(load({}, bootstrap_servers="127.0.0.1:1"))
    began = asyncio.Event()

    async def ask(assignment: Any, node: Any, request: Any) -> bool:
        began.set()
        await asyncio.sleep(60)
        return True

    fetcher = Fetcher.__new__(Fetcher)
    fetcher._proc_fetch_request = ask

    async def start(_: Any) -> None:
        consumer._fetcher = fetcher

    consumer._client.close = asyncio.Event().set
    monkeypatch.setattr(AIOKafkaConsumer, "start", start)
    await consumer.start()
    task = asyncio.ensure_future(fetcher._proc_fetch_request(None, None, None))
    await began.wait()
    task.cancel()
    assert await task is False
    consumer._closed = True
