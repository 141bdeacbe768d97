"""Targets of notifications: public addresses by default, others only from the allow-list."""

import asyncio
import ipaddress

import pytest

from volcano.base.http.dialer import DialRejected
from volcano.controllers.notifications.targets import Targets


@pytest.mark.parametrize(
    ("entries", "host", "address", "problem"),
    [
        pytest.param((), "example.com", "93.184.215.14", "", id="public by default"),
        pytest.param((), "127.0.0.1", "127.0.0.1", "is a local address", id="loopback"),
        pytest.param((), "innocent.example", "127.0.0.1", "is a local address", id="name of loopback"),
        pytest.param((), "meta.example", "169.254.169.254", "is a local address", id="metadata of a cloud"),
        pytest.param((), "x", "::1", "is a local address", id="loopback of IPv6"),
        pytest.param((), "x", "fe80::1", "is a local address", id="link-local of IPv6"),
        pytest.param((), "x", "::ffff:127.0.0.1", "is a local address", id="mapped loopback"),
        pytest.param((), "x", "64:ff9b::a9fe:a9fe", "is a local address", id="link-local by NAT64"),
        pytest.param((), "x", "2002:7f00:1::", "is a local address", id="loopback by 6to4"),
        pytest.param((), "x", "0.0.0.0", "is a local address", id="unspecified"),
        pytest.param((), "x", "224.0.0.1", "is a local address", id="multicast"),
        pytest.param((), "svc.cluster", "10.96.0.1", "is not a public address", id="private"),
        pytest.param((), "x", "100.64.0.1", "is not a public address", id="shared address space"),
        pytest.param(("10.0.0.0/8",), "svc.cluster", "10.96.0.1", "", id="private, allowed"),
        pytest.param(("10.0.0.0/8",), "example.com", "93.184.215.14", "is not among", id="not on the list"),
        pytest.param(("hooks.example",), "hooks.example", "10.1.2.3", "", id="a name"),
        pytest.param(("hooks.example",), "HOOKS.example", "10.1.2.3", "", id="a name in other letters"),
        pytest.param(("hooks.example",), "hooks.example", "127.0.0.1", "local", id="a name of loopback"),
        pytest.param(("all",), "x", "10.1.2.3", "", id="all"),
        pytest.param(("all",), "x", "127.0.0.1", "local", id="all but local addresses"),
        pytest.param(("all", "127.0.0.0/8"), "x", "127.0.0.1", "", id="loopback by name of its network"),
    ],
)
def test_which_targets_are_permitted(entries: tuple[str, ...], host: str, address: str, problem: str) -> None:
    found = Targets(entries).problem(host, ipaddress.ip_address(address))
    assert problem in found if problem else found == ""


def test_names_are_resolved_before_they_are_checked() -> None:
    with pytest.raises(DialRejected, match=r"localhost \(.*\) is a local address"):
        asyncio.run(Targets().dial("localhost", 80))


def test_an_invalid_entry_is_explained() -> None:
    with pytest.raises(ValueError, match="is not an address, a network"):
        Targets(("https://example.com",))
