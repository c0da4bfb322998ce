"""The address rule: what is public, in every spelling."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from fetchers.http.addresses import AddressRule
from schemas.url import CrawlUrl, Rejected, parse
from tests.cases import case


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255",
        "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.8",
        "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1",
        "255.255.255.255", "168.63.129.16",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
        "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1",
        "2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::", "fe80::1", "fe80::1%eth0",
        "fec0::1", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1", "3fff::1", "100::1",
        "2001:2::1", "2001:10::1", "2001:0:7f00:1::", "5f00::1", "4000::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "127.1", "2130706433", "0x7f.1", "localhost", "", "1.2.3.4 ", "[::1]",
    ],
)  # fmt: skip
def test_closed(address: str) -> None:
    assert not AddressRule().allows(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "100.128.0.1", "198.20.0.1",
        "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
        "2002:808:808::1",
        "2001:0:808:808:8000:63bf:f7f7:f7f7",
    ],
)  # fmt: skip
def test_open(address: str) -> None:
    assert AddressRule().allows(address)


def test_networks_opened_by_setting() -> None:
    rule = AddressRule((ip_network("10.0.0.0/8"), ip_network("fd00::/8")))
    assert rule.allows("10.9.8.7")
    assert rule.allows("::ffff:10.9.8.7")
    assert rule.allows("fd00::1")
    assert not rule.allows("192.168.0.1")
    assert not rule.allows("::ffff:192.168.0.1")
    assert rule.allows("8.8.8.8")


@pytest.mark.parametrize("host", case("ssr-03")["input"]["hosts"])
def test_ssr_03_no_spelling_gets_through(host: str) -> None:
    parsed = parse(f"http://{host}/")
    assert isinstance(parsed, CrawlUrl)
    name = parsed.host.rstrip(".")
    assert name == "localhost" or not AddressRule().allows(name)
    assert name in ("localhost", "127.0.0.1", "0.0.0.0")


@pytest.mark.parametrize("host", case("ssr-03")["input"]["invalid_hosts"])
def test_ssr_03_invalid_hosts(host: str) -> None:
    assert isinstance(parse(f"http://{host}/"), Rejected)
