"""Every exception of httpx and aiohttp has a reason of its own row."""

from __future__ import annotations

import inspect
import ssl
from typing import Any

import aiohttp
import httpx
import pytest

from fetchers.http import faults
from fetchers.http.faults import REASONS_OF, detail_of, from_aiohttp, of_head, reason_of
from schemas.reasons import Reason


def _exceptions(module: Any) -> list[type[BaseException]]:
    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Exception)
    ]


@pytest.mark.parametrize("kind", _exceptions(httpx), ids=lambda kind: kind.__name__)
def test_every_exception_of_httpx_is_mapped(kind: type[Exception]) -> None:
    assert kind in REASONS_OF


@pytest.mark.parametrize(
    "kind",
    [kind for kind in _exceptions(faults) if kind.__module__ == "fetchers.http.faults"],
    ids=lambda kind: kind.__name__,
)
def test_every_fault_of_ours_is_mapped(kind: type[Exception]) -> None:
    assert reason_of(kind("x")) is not Reason.UNEXPECTED


@pytest.mark.parametrize(
    "kind",
    [kind for kind in _exceptions(aiohttp) if issubclass(kind, aiohttp.ClientError)],
    ids=lambda kind: kind.__name__,
)
def test_every_client_exception_of_aiohttp_is_translated(kind: type[Exception]) -> None:
    assert any(issubclass(kind, row) for row, _ in faults._FROM_AIOHTTP)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(111, "refused"), Reason.CONNECT),
        (ConnectionResetError("reset"), Reason.CONNECT),
        (ssl.SSLError("handshake"), Reason.TLS),
        (TimeoutError(), Reason.CONNECT_TIMEOUT),
        (aiohttp.ServerDisconnectedError(), Reason.EMPTY_REPLY),
        (aiohttp.ClientPayloadError(), Reason.INCOMPLETE),
    ],
)
def test_translations(error: Exception, reason: Reason) -> None:
    fault = from_aiohttp(error)
    assert fault is not None
    assert reason_of(fault) is reason


def test_what_is_no_fault_of_the_web_is_not_translated() -> None:
    assert from_aiohttp(ValueError("x")) is None
    assert reason_of(ValueError("x")) is Reason.UNEXPECTED


def test_details_are_short_and_heads_keep_their_reason() -> None:
    assert len(detail_of(faults.NotHttp("x" * 1_000))) == 300
    for reason in (Reason.NOT_HTTP, Reason.TRANSFER_CODING, Reason.PROTOCOL):
        assert reason_of(of_head(reason, "x")) is reason
