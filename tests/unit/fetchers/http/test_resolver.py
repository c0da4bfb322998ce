"""Names: found, not found, or not known for now; and each remembered for its time."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from fetchers.http.addresses import AddressRule
from fetchers.http.faults import BlockedAddress, NameNotFound, NameUnavailable, reason_of
from fetchers.http.resolver import Resolver
from fetchers.policy.breaker import COUNTED
from schemas.reasons import REASONS, Reason
from tests.cases import given

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PUBLIC = "93.184.215.14"


class Names(Resolver):
    """Answers from a list, one a look-up."""

    def __init__(self, *answers: Any, ttl_s: float = 60.0, timeout_s: float = 2.0) -> None:
        super().__init__(AddressRule(), ttl_s=ttl_s, timeout_s=timeout_s)
        self.answers = list(answers)
        self.asked = 0

    def _system(self, host: str) -> list[str]:  # type: ignore[override]
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer()
        if isinstance(answer, Exception):
            raise answer
        found: list[str] = answer
        return found


@pytest.fixture
async def closing() -> AsyncIterator[list[Resolver]]:
    made: list[Resolver] = []
    yield made
    for resolver in made:
        await resolver.close()


TMO_04 = {
    "NXDOMAIN": socket.gaierror(socket.EAI_NONAME, "unknown"),
    "SERVFAIL or resolver timeout": socket.gaierror(socket.EAI_AGAIN, "try again"),
    "resolver overload (many hosts at once)": OSError(24, "too many open files"),
}


@pytest.mark.parametrize(("row", "expected"), given("tmo-04"))
async def test_tmo_04(closing: list[Resolver], row: str, expected: str) -> None:
    names = Names(TMO_04[row])
    closing.append(names)
    with pytest.raises((NameNotFound, NameUnavailable)) as caught:
        await names.addresses("x.example")
    reason = reason_of(caught.value)
    if expected.startswith("permanent"):
        assert reason is Reason.DNS_NOT_FOUND
        assert REASONS[reason].max_attempts == 2
        with pytest.raises(NameNotFound):
            await names.addresses("x.example")
        assert names.asked == 1
    else:
        assert reason is Reason.DNS_TEMPORARY
        assert reason not in COUNTED


async def test_overload_is_temporary_and_not_remembered(closing: list[Resolver]) -> None:
    release = threading.Event()

    def slow() -> list[str]:
        release.wait(5)
        return [PUBLIC]

    names = Names(slow, timeout_s=0.05)
    closing.append(names)
    results = await asyncio.gather(
        *(names.addresses(f"h{number}.example") for number in range(40)), return_exceptions=True
    )
    assert all(isinstance(result, NameUnavailable) for result in results)
    release.set()
    names.answers = [[PUBLIC]]
    names._timeout_s = 30.0
    assert await names.addresses("h0.example") == (PUBLIC,)


async def test_one_look_up_for_all_who_wait(closing: list[Resolver]) -> None:
    def slow() -> list[str]:
        time.sleep(0.05)
        return [PUBLIC]

    names = Names(slow)
    closing.append(names)
    await asyncio.gather(*(names.addresses("x.example") for _ in range(20)))
    await names.addresses("x.example")
    assert names.asked == 1


async def test_addresses_and_failures_have_their_times(
    closing: list[Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names([PUBLIC], socket.gaierror(socket.EAI_NONAME, "gone"), [PUBLIC])
    closing.append(names)
    now = 1_000.0
    monkeypatch.setattr("fetchers.http.resolver.time.monotonic", lambda: now)
    await names.addresses("x.example")
    now += 59
    await names.addresses("x.example")
    assert names.asked == 1
    now += 2
    with pytest.raises(NameNotFound):
        await names.addresses("x.example")
    now += 5
    with pytest.raises(NameNotFound):
        await names.addresses("x.example")
    assert names.asked == 2
    now += 2
    assert await names.addresses("x.example") == (PUBLIC,)


async def test_only_allowed_addresses_are_given(closing: list[Resolver]) -> None:
    names = Names(["10.0.0.1", PUBLIC, "::1"])
    closing.append(names)
    assert await names.addresses("mixed.example") == (PUBLIC,)
    (found,) = await names.resolve("mixed.example", 80)
    assert (found["host"], found["port"]) == (PUBLIC, 80)


async def test_private_only_is_blocked_and_says_what_it_is(closing: list[Resolver]) -> None:
    names = Names(["10.0.0.1", "::ffff:127.0.0.1"])
    closing.append(names)
    with pytest.raises(BlockedAddress, match=r"10\.0\.0\.1"):
        await names.addresses("inside.example")


async def test_names_that_dns_cannot_hold(closing: list[Resolver]) -> None:
    resolver = Resolver(AddressRule(), ttl_s=60.0, timeout_s=2.0)
    closing.append(resolver)
    with pytest.raises((NameNotFound, NameUnavailable)):
        await resolver.addresses("x" * 70 + ".example")
