"""Which IP addresses may be connected to. Pure: judges addresses, never names.

Only public unicast addresses are open, unless a network was opened by setting. An IPv6 address
that carries an IPv4 address (mapped, NAT64, 6to4, Teredo) is judged by what it carries, since that
is where packets go.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Network = IPv4Network | IPv6Network

_CLOSED_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",
    )
)  # fmt: skip
"""The special-purpose registry of IANA, multicast, and one cloud's metadata address."""
_UNICAST_V6: Final = IPv6Network("2000::/3")
_CLOSED_V6: Final = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_NAT64: Final = IPv6Network("64:ff9b::/96")
_TEREDO: Final = IPv6Network("2001::/32")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")


class AddressRule:
    """The rule of one process: public addresses and the networks opened by setting."""

    def __init__(self, opened: tuple[Network, ...] = ()) -> None:
        self._opened = opened
        self.allows = lru_cache(maxsize=65_536)(self._allows)
        """`allows(text)`: whether a textual IP address may be connected to. False for anything
        that is not the canonical text of one address (names, zones, shortened forms)."""

    def _allows(self, text: str) -> bool:
        try:
            address = ip_address(text)
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.scope_id:
            return False
        return self._open(address)

    def _open(self, address: IPv4Address | IPv6Address) -> bool:
        if any(address in network for network in self._opened):
            return True
        carried = carried_v4(address)
        if carried:
            return all(self._open(inner) for inner in carried)
        if isinstance(address, IPv4Address):
            return not any(address in network for network in _CLOSED_V4)
        return address in _UNICAST_V6 and not any(address in network for network in _CLOSED_V6)


def carried_v4(address: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that an IPv6 address carries; empty for all others."""
    if isinstance(address, IPv4Address):
        return ()
    number = int(address)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(number & 0xFFFFFFFF),)
    if address in _SIX_TO_FOUR:
        return (IPv4Address((number >> 80) & 0xFFFFFFFF),)
    if address in _TEREDO:
        server = IPv4Address((number >> 64) & 0xFFFFFFFF)
        return (server, IPv4Address(~number & 0xFFFFFFFF))
    return ()
