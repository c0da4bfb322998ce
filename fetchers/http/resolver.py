"""Names to addresses that may be connected to: looked up once, checked, remembered.

The connector connects to exactly the addresses given here, so what was checked is what is
dialled; a second look-up cannot change it.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult

from fetchers.http.faults import BlockedAddress, NameNotFound, NameUnavailable

if TYPE_CHECKING:
    from fetchers.http.addresses import AddressRule

MAX_NAMES = 50_000
THREADS = 16
_NOT_FOUND = frozenset(
    code
    for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
    if (code := getattr(socket, name, None)) is not None
)


class _Known(NamedTuple):
    expires_at: float
    addresses: tuple[str, ...]
    fault: type[NameNotFound | NameUnavailable | BlockedAddress] | None
    detail: str


class Resolver(AbstractResolver):
    """aiohttp's resolver: system look-ups in threads, a cache, and the address rule.

    Failures are remembered for a tenth of the time that addresses are. A look-up that does not
    end in time is temporary and not remembered: it may be our own resolver that is slow.
    """

    def __init__(self, rule: AddressRule, *, ttl_s: float, timeout_s: float) -> None:
        self._rule = rule
        self._ttl_s = ttl_s
        self._timeout_s = timeout_s
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._pending: dict[str, asyncio.Future[_Known]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "resolve")

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - aiohttp's signature
    ) -> list[ResolveResult]:
        """Addresses of a host in the order to try them; only those that the rule allows.

        Raises NameNotFound, NameUnavailable or BlockedAddress.
        """
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self.addresses(host)
        ]

    async def addresses(self, host: str) -> tuple[str, ...]:
        """The same as bare texts."""
        known = self._known.get(host)
        if known is None or known.expires_at <= time.monotonic():
            known = await self._look_up_once(host)
        if known.fault is not None:
            raise known.fault(known.detail)
        return known.addresses

    async def close(self) -> None:
        """Give up look-ups that have not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up_once(self, host: str) -> _Known:
        pending = self._pending.get(host)
        if pending is None:
            pending = asyncio.ensure_future(self._look_up(host))
            self._pending[host] = pending
            pending.add_done_callback(lambda _: self._pending.pop(host, None))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(pending)
        except TimeoutError as error:
            raise NameUnavailable(f"{host}: no answer in {self._timeout_s:g} s") from error

    async def _look_up(self, host: str) -> _Known:
        loop = asyncio.get_running_loop()
        fault: type[NameNotFound | NameUnavailable | BlockedAddress] | None = None
        detail = ""
        addresses: tuple[str, ...] = ()
        try:
            found = await loop.run_in_executor(self._threads, self._system, host)
        except socket.gaierror as error:
            fault = NameNotFound if error.errno in _NOT_FOUND else NameUnavailable
            detail = f"{host}: {error.strerror}"
        except UnicodeError:
            fault, detail = NameNotFound, f"{host}: not a name that DNS can hold"
        except OSError as error:
            fault, detail = NameUnavailable, f"{host}: {error}"
        else:
            addresses = tuple(address for address in found if self._rule.allows(address))
            if not addresses:
                fault = BlockedAddress if found else NameNotFound
                detail = f"{host} is {', '.join(found[:4])}" if found else f"{host}: no address"
        ttl_s = self._ttl_s / 10 if fault else self._ttl_s
        known = _Known(time.monotonic() + ttl_s, addresses, fault, detail)
        self._known[host] = known
        self._known.move_to_end(host)
        if len(self._known) > MAX_NAMES:
            self._known.popitem(last=False)
        return known

    @staticmethod
    def _system(host: str) -> list[str]:
        infos = socket.getaddrinfo(host.rstrip("."), None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in infos))
