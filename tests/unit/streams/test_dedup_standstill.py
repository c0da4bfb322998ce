"""A dedup worker that stood still for a session time-out sends nothing more."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NoReturn

import pytest

from streams.dedup import outlet as outlets
from streams.pulse import Pulse
from streams.settings import load


class Died(Exception):  # noqa: N818 - it stands for the end of the process
    pass


def _die(message: str, code: int = 75) -> NoReturn:
    raise Died(message)


async def _send(sent: list[str]) -> None:
    sent.append("sent")


def _stand_still(outlet: outlets.KafkaOutlet, seconds: float) -> None:
    outlet._pulse._last = time.monotonic() - seconds


@pytest.fixture
async def outlet(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(outlets, "die", _die)
    monkeypatch.setattr(outlets, "make_producer", lambda *_, **__: None)
    return outlets.KafkaOutlet(load({}, session_timeout_s=6.0))


async def test_it_sends_while_the_event_loop_runs(outlet: outlets.KafkaOutlet) -> None:
    sent: list[str] = []
    await outlet.in_time(_send(sent), "a message")
    assert sent == ["sent"]


async def test_it_dies_before_it_sends_after_a_standstill(outlet: outlets.KafkaOutlet) -> None:
    sent: list[str] = []
    _stand_still(outlet, 6.5)
    delivery = _send(sent)
    with pytest.raises(Died, match="stood still"):
        await outlet.in_time(delivery, "a message")
    delivery.close()
    assert not sent


async def test_a_standstill_is_remembered_when_the_pulse_beats_first() -> None:
    pulse = Pulse()
    beat = asyncio.create_task(pulse.beat(0.01))
    await asyncio.sleep(0.02)
    time.sleep(0.3)  # noqa: ASYNC251 - the standstill
    await asyncio.sleep(0.03)
    beat.cancel()
    assert pulse.take_lag() > 0.2
    assert pulse.longest_standstill_s() > 0.2
