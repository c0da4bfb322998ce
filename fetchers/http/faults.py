"""What can go wrong on the wire, in httpx's words, and the reason that each gives.

httpx's exception tree names what happened and not which library noticed, so it is the vocabulary
here; where it has no word for a case that policy must tell apart, a subclass below adds it.
aiohttp, whose connector opens our connections, speaks through `from_aiohttp`.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

import aiohttp
import httpx

from schemas.reasons import Reason


class NameNotFound(httpx.ConnectError):
    """The name does not exist, or has no address."""


class NameUnavailable(httpx.ConnectError):
    """The resolver did not answer, or said that it could not tell."""


class BlockedAddress(httpx.ConnectError):
    """No address of the host may be connected to."""


class TlsFault(httpx.ConnectError):
    """The handshake or the certificate failed."""


class EmptyReply(httpx.RemoteProtocolError):
    """The connection was closed before any byte of an answer."""


class StaleConnection(EmptyReply):
    """The same on a connection that had been used before: the server closed it while idle."""


class NotHttp(httpx.RemoteProtocolError):
    """The first bytes are not those of an HTTP/1 response."""


class BadTransferCoding(httpx.RemoteProtocolError):
    """A Transfer-Encoding other than `chunked`."""


class HeadersTooLarge(httpx.RemoteProtocolError):
    """Status line and headers exceed the cap."""


class Incomplete(httpx.ReadError):
    """The body ended before its length, its last chunk, or the end of its coding."""


class FirstByteTimeout(httpx.ReadTimeout):
    """No complete headers in time."""


class IdleTimeout(httpx.ReadTimeout):
    """Too long a silence within the body."""


class DeadlinePassed(httpx.ReadTimeout):
    """The time for the whole attempt is over."""


class BadContentCoding(httpx.DecodingError):
    """The body is not what its Content-Encoding says."""


class InflationBomb(httpx.DecodingError):
    """The body inflates beyond all proportion."""


REASONS_OF: Final[dict[type[Exception], Reason]] = {
    NameNotFound: Reason.DNS_NOT_FOUND,
    NameUnavailable: Reason.DNS_TEMPORARY,
    BlockedAddress: Reason.BLOCKED_ADDRESS,
    TlsFault: Reason.TLS,
    EmptyReply: Reason.EMPTY_REPLY,
    NotHttp: Reason.NOT_HTTP,
    BadTransferCoding: Reason.TRANSFER_CODING,
    HeadersTooLarge: Reason.HEADERS_TOO_LARGE,
    Incomplete: Reason.INCOMPLETE,
    FirstByteTimeout: Reason.FIRST_BYTE_TIMEOUT,
    IdleTimeout: Reason.IDLE_TIMEOUT,
    DeadlinePassed: Reason.DEADLINE,
    BadContentCoding: Reason.CONTENT_CODING,
    InflationBomb: Reason.BOMB,
    httpx.ConnectTimeout: Reason.CONNECT_TIMEOUT,
    httpx.PoolTimeout: Reason.CONNECT_TIMEOUT,
    httpx.ReadTimeout: Reason.FIRST_BYTE_TIMEOUT,
    httpx.WriteTimeout: Reason.FIRST_BYTE_TIMEOUT,
    httpx.TimeoutException: Reason.DEADLINE,
    httpx.ConnectError: Reason.CONNECT,
    httpx.ReadError: Reason.INCOMPLETE,
    httpx.WriteError: Reason.EMPTY_REPLY,
    httpx.CloseError: Reason.EMPTY_REPLY,
    httpx.NetworkError: Reason.CONNECT,
    httpx.ProxyError: Reason.CONNECT,
    httpx.UnsupportedProtocol: Reason.UNSUPPORTED_SCHEME,
    httpx.RemoteProtocolError: Reason.PROTOCOL,
    httpx.LocalProtocolError: Reason.INVALID_URL,
    httpx.ProtocolError: Reason.PROTOCOL,
    httpx.TransportError: Reason.CONNECT,
    httpx.DecodingError: Reason.CONTENT_CODING,
    httpx.TooManyRedirects: Reason.TOO_MANY_REDIRECTS,
    httpx.RequestError: Reason.CONNECT,
    httpx.HTTPStatusError: Reason.HTTP_ODD,
    httpx.InvalidURL: Reason.INVALID_URL,
    httpx.CookieConflict: Reason.UNEXPECTED,
    httpx.StreamConsumed: Reason.UNEXPECTED,
    httpx.StreamClosed: Reason.UNEXPECTED,
    httpx.ResponseNotRead: Reason.UNEXPECTED,
    httpx.RequestNotRead: Reason.UNEXPECTED,
    httpx.StreamError: Reason.UNEXPECTED,
    httpx.HTTPError: Reason.UNEXPECTED,
}

_FROM_AIOHTTP: Final[tuple[tuple[type[BaseException], type[httpx.TransportError]], ...]] = (
    (aiohttp.ClientConnectorDNSError, NameUnavailable),
    (aiohttp.ClientConnectorCertificateError, TlsFault),
    (aiohttp.ClientSSLError, TlsFault),
    (aiohttp.ServerFingerprintMismatch, TlsFault),
    (aiohttp.ServerDisconnectedError, EmptyReply),
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ServerConnectionError, httpx.ConnectError),
    (aiohttp.ClientConnectionError, httpx.ConnectError),
    (aiohttp.ClientPayloadError, Incomplete),
    (aiohttp.InvalidURL, httpx.LocalProtocolError),
    (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
    (aiohttp.ClientError, httpx.ConnectError),
    (ssl.SSLError, TlsFault),
    (ssl.CertificateError, TlsFault),
    (asyncio.TimeoutError, httpx.ConnectTimeout),
    (OSError, httpx.ConnectError),
)


def from_aiohttp(error: BaseException) -> httpx.TransportError | None:
    """The fault in httpx's words for an exception of opening a connection; None: not one."""
    for kind, fault in _FROM_AIOHTTP:
        if isinstance(error, kind):
            return fault(_text(error))
    return None


def reason_of(error: BaseException) -> Reason:
    """The reason of a fault: that of its class or of the nearest class above it."""
    for kind in type(error).__mro__:
        reason = REASONS_OF.get(kind)
        if reason is not None:
            return reason
    return Reason.UNEXPECTED


def of_head(reason: Reason, detail: str) -> httpx.RemoteProtocolError:
    """The fault for a head or a chunk that cannot be read."""
    kind = {
        Reason.NOT_HTTP: NotHttp,
        Reason.TRANSFER_CODING: BadTransferCoding,
    }.get(reason, httpx.RemoteProtocolError)
    return kind(detail)


def is_tls(error: BaseException) -> bool:
    """Whether a lost connection was lost to TLS."""
    return isinstance(error, ssl.SSLError)


def detail_of(error: BaseException) -> str:
    """What a fault said, in at most 300 characters."""
    return f"{type(error).__name__}: {_text(error)}"[:300]


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
