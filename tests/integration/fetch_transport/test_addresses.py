"""Addresses that are never connected to, whatever name leads there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from fetchers.http.addresses import AddressRule
from fetchers.http.resolver import Resolver
from fetchers.http.transport import Transport
from schemas.reasons import Reason
from tests.integration.fetch_transport.exchange import PLAIN, fetch
from tests.unit.fetchers.fakes import Web, html, settings_for


async def test_private_literals_are_never_connected_to(web: Web, tmp_path: Path) -> None:
    closed = Transport(settings_for(tmp_path, allow_networks=""))
    got = await fetch(closed, web.url())
    await closed.close()
    assert got.reason is Reason.BLOCKED_ADDRESS
    assert web.requests == []


class _Names(Resolver):
    """A resolver whose system look-up the test decides."""

    def __init__(self, rule: AddressRule, answers: list[Any], **times: float) -> None:
        super().__init__(rule, **{"ttl_s": 60.0, "timeout_s": 1.0, **times})
        self.answers = answers
        self.asked: list[str] = []

    def _system(self, host: str) -> list[str]:  # type: ignore[override]
        self.asked.append(host)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            time.sleep(answer)
            return ["127.0.0.1"]
        found: list[str] = answer
        return found


async def test_ssr_04_rebinding_cannot_change_what_was_checked(tmp_path: Path, web: Web) -> None:
    web.default = html(PLAIN)
    rule = AddressRule((*settings_for(tmp_path, allow_networks="127.0.0.0/31").allow_networks,))
    names = _Names(rule, [["127.0.0.1"], ["127.0.0.9"]])
    made = Transport(settings_for(tmp_path, allow_networks="127.0.0.0/31"), resolver=names)
    got = await fetch(made, web.url("/", host="r.example"))
    await made.close()
    assert got.reason is None
    assert got.answer.address == "127.0.0.1"
    assert names.asked == ["r.example"]


async def test_ssr_01_names_of_private_addresses_are_blocked(tmp_path: Path, web: Web) -> None:
    rule = AddressRule()
    names = _Names(rule, [["169.254.169.254", "::1"]])
    made = Transport(settings_for(tmp_path, allow_networks=""), resolver=names)
    got = await fetch(made, web.url("/", host="meta.example"))
    await made.close()
    assert got.reason is Reason.BLOCKED_ADDRESS


@pytest.mark.parametrize("host", ["localhost", "localhost.", "LOCALHOST".lower()])
async def test_ssr_03_localhost_is_blocked(tmp_path: Path, web: Web, host: str) -> None:
    made = Transport(settings_for(tmp_path, allow_networks=""))
    got = await fetch(made, web.url("/", host=host))
    await made.close()
    assert got.reason is Reason.BLOCKED_ADDRESS
    assert web.requests == []
