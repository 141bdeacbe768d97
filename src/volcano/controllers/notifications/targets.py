"""Targets that notifications may be sent to: public addresses, or those of an allow-list.

Names are resolved here, and connections are made to the addresses that were checked: a name that resolves to another
address later has no effect. Redirects are not followed.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

from volcano.net.dialer import Address, AllowedTargets, DialRejected, connect_to

NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Targets:
    """Connects to permitted targets.

    Without entries, all public addresses are permitted. With entries, only those addresses, networks and names are.
    Loopback, link-local and similar addresses are permitted only if an entry names them by address or network; `all`
    does not.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        """Raises ValueError for entries that are neither address, network, host name nor `all`."""
        self._entries = tuple(entries)
        self._allowed = AllowedTargets.parse(self._entries)

    async def dial(self, host: str, port: int) -> socket.socket:
        """A connected, non-blocking socket. Raises OSError; `DialRejected` if the target is not permitted."""
        addresses = await _resolve(host, port)
        for address in addresses:
            if problem := self.problem(host, ipaddress.ip_address(address)):
                raise DialRejected(problem)
        failure: OSError = OSError(f"{host} has no address")
        for address in addresses:
            try:
                return await connect_to(address, port)
            except OSError as error:
                failure = error
        raise failure

    def problem(self, host: str, address: Address) -> str:
        """Why a host with this address may not be connected to; empty if it may."""
        real = embedded(address)
        shown = host if host == str(address) else f"{host} ({address})"
        if is_local(real):
            explicit = any(real in network for network in self._allowed.networks if network.prefixlen)
            return "" if explicit else f"{shown} is a local address; allow it with --notify-allow={real}"
        if not self._entries:
            text = f"{shown} is not a public address; allow it with --notify-allow={real}"
            return "" if real.is_global else text
        if self._allowed.allow_name(host) or self._allowed.allow_address(real):
            return ""
        return f"{shown} is not among the allowed targets: {', '.join(self._entries)} (--notify-allow)"


def is_local(address: Address) -> bool:
    """Whether an address is of this host, its link, or of no single host."""
    is_of_link = address.is_loopback or address.is_link_local or address.is_multicast
    return is_of_link or address.is_unspecified or address == ipaddress.ip_address("255.255.255.255")


def embedded(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that leads there, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


async def _resolve(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries))
