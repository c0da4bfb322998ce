"""A server and a transport for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fetchers.http.transport import Transport
from tests.unit.fetchers.fakes import Web, settings_for


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as server:
        yield server


@pytest.fixture
async def transport(tmp_path: Path) -> AsyncIterator[Transport]:
    made = Transport(settings_for(tmp_path))
    yield made
    await made.close()
