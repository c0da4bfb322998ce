"""A real broker for all integration tests, and a deployment of its own for each of them."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.broker import EmbeddedBroker
from streams.settings import Settings, load

MakeSettings = Callable[..., Settings]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap address of a broker with empty data, or of `KAFKA_BOOTSTRAP_SERVERS`.

    A broker that does not come up fails the tests: a skip would look like a success.
    """
    if external := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield external
        return
    with EmbeddedBroker(tmp_path_factory.mktemp("kafka"), heap_mb=512) as broker:
        yield broker.bootstrap


@pytest.fixture
def settings(kafka: str, tmp_path: Path) -> MakeSettings:
    """Makes settings of a deployment that shares the broker with nobody.

    All settings made in one test have one topic prefix and one data folder, unless told
    otherwise: they are the processes of one deployment.
    """
    prefix = f"t{next(_numbers)}-{secrets.token_hex(3)}."
    data_dir = tmp_path / "data"

    def make(**overrides: Any) -> Settings:
        values: dict[str, Any] = {
            "agent": "testbot",
            "contact": "https://bot.example/",
            "bootstrap_servers": kafka,
            "topic_prefix": prefix,
            "partitions": 4,
            "data_dir": data_dir,
            "session_timeout_s": 6.0,
            "commit_interval_s": 0.2,
            "drain_timeout_s": 5.0,
            "allow_networks": "127.0.0.0/8",
        }
        return load({}, **(values | overrides))

    return make
