"""One request, one answer, within limits: the only place where bytes come from the web.

Connections are aiohttp's (pool, TLS, racing addresses), the exchange on them is
`fetchers.http.wire`, faults are in httpx's words. Nothing is followed, kept or decided here: no
redirects, cookies, proxies or credentials from the environment, and no second try but one: a
request on a kept-alive connection that the server had already closed, or a 421, is sent again on a
new connection, since neither says anything about the page.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import OrderedDict
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiohttp
import certifi
import httpx
from aiohttp.client_reqrep import ConnectionKey

from fetchers.http.addresses import AddressRule
from fetchers.http.answer import Answer, Limits, Sink, on_deadline, take
from fetchers.http.faults import (
    BlockedAddress,
    Incomplete,
    StaleConnection,
    detail_of,
    from_aiohttp,
    reason_of,
)
from fetchers.http.resolver import Resolver
from fetchers.http.wire import Wire
from schemas.url import origin_of, path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fetchers.policy.head import Head
    from schemas.reasons import Reason
    from streams.settings import Settings

MAX_ENDPOINTS: Final = 20_000
MAX_IDLE_ENDPOINTS: Final = 512
"""Endpoints with kept-alive connections; beyond this, connections are closed after use."""
KEEPALIVE_S: Final = 30.0
_NO_LIMIT = aiohttp.ClientTimeout(total=None)


class _Host(NamedTuple):
    raw_host: str


class Endpoint:
    """Scheme, host and port: what the connector wants to know of a request."""

    proxy = None
    proxy_headers = None
    server_hostname = None

    def __init__(self, origin: str, context: ssl.SSLContext | None) -> None:
        scheme, _, authority = origin.partition("://")
        host, port = _split_authority(authority)
        secure = scheme == "https"
        self.host = host
        self.port = port or (443 if secure else 80)
        self.ssl: Any = context if secure and context is not None else True
        self.url = _Host(host)
        self.authority = authority
        self.secure = secure
        self.connection_key = ConnectionKey(
            host, self.port, secure, self.ssl, None, None, None, None
        )

    def is_ssl(self) -> bool:
        """Whether to shake hands."""
        return self.secure


class Transport:
    """Fetches. One per process; make it on the running event loop."""

    def __init__(self, settings: Settings, *, resolver: Resolver | None = None) -> None:
        self._rule = AddressRule(settings.allow_networks)
        self.resolver = resolver or Resolver(
            self._rule, ttl_s=settings.dns_ttl_s, timeout_s=settings.connect_timeout_s
        )
        self._context = _tls_context(verify=settings.verify_tls)
        self._pool = _Connector(self._rule, self.resolver, force_close=False)
        self._unpooled = _Connector(self._rule, self.resolver, force_close=True)
        self._endpoints: OrderedDict[str, Endpoint] = OrderedDict()
        self.limits = Limits(
            settings.fetch_deadline_s,
            settings.connect_timeout_s,
            settings.first_byte_timeout_s,
            settings.idle_timeout_s,
            settings.max_header_bytes,
            settings.max_wire_bytes,
            settings.max_body_bytes,
            settings.max_inflate_ratio,
        )

    async def fetch(
        self,
        href: str,
        fields: bytes,
        sink: Sink,
        *,
        limits: Limits | None = None,
        judge: Callable[[Head], Reason | bool] | None = None,
        method: str = "GET",
    ) -> Answer:
        """Send one request and take its answer. Never raises for what the web does.

        Args:
            href: serialised URL; what follows its authority is sent as it is.
            fields: header lines of the request with their line ends, but for Host.
            sink: takes the decoded body.
            limits: of this exchange; None: those of the settings.
            judge: asked once the head is there; True: read the body, False: leave it, a reason:
                leave it and fail with that.
            method: GET or HEAD.
        """
        limits = limits or self.limits
        answer = Answer(time.monotonic())
        endpoint = self._endpoint(origin_of(href))
        request = b"%b %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (
            method.encode(),
            path_of(href).encode(),
            endpoint.authority.encode(),
            fields,
        )
        try:
            async with asyncio.timeout(limits.deadline_s):
                await self._exchange(endpoint, request, sink, limits, judge, answer, method)
        except TimeoutError:
            on_deadline(answer, sink, limits)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as fault:
            answer.reason = reason_of(fault)
            answer.detail = detail_of(fault)
            answer.partial = isinstance(fault, Incomplete) and sink.size > 0
        answer.ended_at = time.monotonic()
        return answer

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()
        await self._unpooled.close()
        await self.resolver.close()

    async def _exchange(
        self,
        endpoint: Endpoint,
        request: bytes,
        sink: Sink,
        limits: Limits,
        judge: Callable[[Head], Reason | bool] | None,
        answer: Answer,
        method: str,
    ) -> None:
        for connector in (self._pool, self._unpooled):
            last = connector is self._unpooled
            connection = await self._connect(connector, endpoint, limits, answer)
            wire: Any = connection.protocol
            assert isinstance(wire, Wire)
            try:
                wire.send(
                    request,
                    body_expected=method != "HEAD",
                    first_byte_s=limits.first_byte_s,
                    idle_s=limits.idle_s,
                    max_header_bytes=limits.max_header_bytes,
                )
                answer.sent_at = time.monotonic()
                head = await wire.head()
                if head.status == 421 and not last:
                    continue
                await take(wire, head, sink, limits, judge, answer)
            except StaleConnection:
                if last:
                    raise
                continue
            finally:
                if self._pool.crowded:
                    wire.force_close()
                connection.release()
            return

    async def _connect(
        self, connector: _Connector, endpoint: Endpoint, limits: Limits, answer: Answer
    ) -> aiohttp.connector.Connection:
        try:
            connection = await connector.connect_within(endpoint, limits.connect_s)
        except httpx.TransportError:
            raise
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            fault = from_aiohttp(error)
            assert fault is not None
            raise fault from error
        except ValueError as error:  # a host that TLS or the resolver cannot be given
            raise httpx.LocalProtocolError(str(error)) from error
        transport = connection.transport
        if transport is not None:
            peer = transport.get_extra_info("peername")
            answer.address = peer[0] if peer else ""
        return connection

    def _endpoint(self, origin: str) -> Endpoint:
        endpoint = self._endpoints.get(origin)
        if endpoint is None:
            endpoint = self._endpoints[origin] = Endpoint(origin, self._context)
            if len(self._endpoints) > MAX_ENDPOINTS:
                self._endpoints.popitem(last=False)
        return endpoint


class _Connector(aiohttp.TCPConnector):
    """aiohttp's connector with our protocol on top and our address rule below.

    The resolver checks names; hosts that are addresses never reach a resolver, so they are
    checked here, and so is the peer of each new connection.
    """

    def __init__(self, rule: AddressRule, resolver: Resolver, *, force_close: bool) -> None:
        keepalive: dict[str, Any] = {} if force_close else {"keepalive_timeout": KEEPALIVE_S}
        super().__init__(
            resolver=resolver,
            use_dns_cache=False,
            limit=0,
            force_close=force_close,
            **keepalive,
        )
        self._rule = rule
        self._factory: Any = partial(Wire, loop=self._loop)

    @property
    def crowded(self) -> bool:
        """Whether enough endpoints have idle connections."""
        return len(self._conns) >= MAX_IDLE_ENDPOINTS

    async def connect_within(
        self, endpoint: Endpoint, limit_s: float
    ) -> aiohttp.connector.Connection:
        """A connection from the pool, or a new one within a time limit.

        Raises aiohttp's and the operating system's exceptions, BlockedAddress, or
        httpx.ConnectTimeout.
        """
        request: Any = endpoint
        pooled = await self._get(endpoint.connection_key, [])
        if pooled is not None:
            return pooled
        host = endpoint.host
        if (":" in host or host[-1:].isdigit()) and not self._rule.allows(host):
            raise BlockedAddress(f"{host} is not a public address")
        try:
            async with asyncio.timeout(limit_s):
                connection = await self.connect(request, [], _NO_LIMIT)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection in {limit_s:g} s") from error
        transport = connection.transport
        peer = transport.get_extra_info("peername") if transport is not None else None
        if peer and not self._rule.allows(peer[0]):
            connection.close()
            raise BlockedAddress(f"connected to {peer[0]}, which is not a public address")
        return connection


def _split_authority(authority: str) -> tuple[str, int | None]:
    """Host without brackets and port of a serialised authority."""
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        return host, int(rest[1:]) if rest[1:] else None
    host, _, port = authority.partition(":")
    return host, int(port) if port else None


@cache
def _tls_context(*, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
