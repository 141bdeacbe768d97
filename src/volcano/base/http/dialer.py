"""Dials the TCP connections that API requests cause: webhooks and the proxies of pods, Services and nodes.

One `Dialer` serves a whole process. `await dialer.dial(host, port)` returns a connected, non-blocking
socket, to be wrapped with `asyncio.open_connection(sock=...)`, or with `ConnectionPool(url,
dial=dialer.dial)`, which adds TLS and HTTP. It

1. asks each route, in order: a route connects to addresses that the host's routing table does not know, such
   as those of pods, whose network is a namespace of its own (`LocalNodes.dial_pod`);
2. connects to loopback addresses directly, other than those of pods (`PLAIN_PODS`);
3. connects to other addresses and names only if they are allowed (`volcano up --allow-egress`), since users
   of the API must not reach this host's networks through the API server.

Everything else raises `DialRejected`, an OSError. A Service is resolved to the address and port of a ready
endpoint first, with `volcano.apiserver.service_endpoints.resolve`.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Dial = Callable[[str, int], Awaitable[socket.socket]]
# Connects to some addresses in another way than through the host's network: returns a connected, non-blocking socket,
# or None when it does not lead to the host. Raises OSError.
Route = Callable[[str, int], Awaitable[socket.socket | None]]
ALL = "all"
LOCALHOST = "localhost"
# Addresses of pods that share this host's network (runtime plain), and may be endpoints of Services. They are reached
# by routes only: anything on this host that listens on all addresses would answer there.
PLAIN_PODS = ipaddress.ip_network("127.88.0.0/16")


class DialRejected(OSError):
    """The target may not be dialled."""


@dataclass(frozen=True, slots=True)
class AllowedTargets:
    """Targets outside this machine that may be dialled."""

    networks: tuple[Network, ...] = ()
    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "AllowedTargets":
        """Parses addresses, networks in CIDR notation, host names, and `all`; raises ValueError."""
        networks: list[Network] = []
        names: set[str] = set()
        for entry in entries:
            if entry == ALL:
                networks += [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]
            elif _looks_like_address(entry):
                try:
                    networks.append(ipaddress.ip_network(entry, strict=False))
                except ValueError as error:
                    raise ValueError(
                        f"{entry!r} is not an address, a network or a host name: {error}"
                    ) from None
            elif entry and all(part and part.replace("-", "").isalnum() for part in entry.split(".")):
                names.add(entry.lower())
            else:
                raise ValueError(
                    f"{entry!r} is not an address, a network such as 10.0.0.0/8, a host name or 'all'"
                )
        return cls(tuple(networks), frozenset(names))

    def allow_address(self, address: Address) -> bool:
        return any(address in network for network in self.networks)

    def allow_name(self, name: str) -> bool:
        return name.lower() in self.names

    @property
    def any_address(self) -> bool:
        """Whether any name may turn out to have an allowed address."""
        return bool(self.networks)


NOTHING_ALLOWED = AllowedTargets()


class Dialer:
    """Connects by routes, to loopback and to allowed targets. Routes may be added at any time."""

    def __init__(self, allowed: AllowedTargets = NOTHING_ALLOWED, routes: Iterable[Route] = ()) -> None:
        self._allowed = allowed
        self.routes: list[Route] = list(routes)

    async def dial(self, host: str, port: int) -> socket.socket:
        """A connected, non-blocking socket. Raises OSError; `DialRejected` if the target is not allowed."""
        for route in self.routes:
            connected = await route(host, port)
            if connected is not None:
                return connected
        failure: OSError = DialRejected(f"{host} has no address")
        for address in await self._addresses(host, port):
            try:
                return await connect_to(address, port)
            except OSError as error:
                failure = error
        raise failure

    async def dial_node(self, host: str, port: int) -> socket.socket:
        """Connects to an address that a Node has registered, which is where its kubelet listens; raises OSError.

        Loopback addresses are those of a kubelet on this host. Link-local ones are not, but may be a cloud's metadata
        service.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        failure: OSError = DialRejected(f"{host} has no address")
        for address in dict.fromkeys(str(entry[4][0]) for entry in found):
            real = ipaddress.ip_address(address)
            if real.is_link_local or real.is_multicast or real.is_unspecified or real in PLAIN_PODS:
                raise DialRejected(
                    f"connecting to {host}:{port} is not allowed: {real} is no address of a node"
                )
            try:
                return await connect_to(address, port)
            except OSError as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The permitted addresses of a host. Names are looked up only if an answer could be permitted."""
        literal = _parse_address(host)
        if literal is not None:
            self._check(host, port, literal)
            return [host]
        if host == LOCALHOST:
            return ["127.0.0.1", "::1"]
        named = self._allowed.allow_name(host)
        if not named and not self._allowed.any_address:
            raise _rejected(host, port, host)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in found]
        for address in addresses:
            if not named:
                self._check(host, port, ipaddress.ip_address(address))
        return addresses

    def _check(self, host: str, port: int, address: Address) -> None:
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        real = mapped or address
        if real in PLAIN_PODS:
            raise DialRejected(f"connecting to {host}:{port} is not allowed: no running pod has this address")
        if not real.is_loopback and not self._allowed.allow_address(real):
            raise _rejected(host, port, str(real))


async def connect_to(address: str, port: int) -> socket.socket:
    """A connected, non-blocking socket to an address; raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as unless_connected:
        made = unless_connected.enter_context(socket.socket(family, socket.SOCK_STREAM))
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
        unless_connected.pop_all()
    return made


def _rejected(host: str, port: int, target: str) -> DialRejected:
    return DialRejected(
        f"connecting to {host}:{port} is not allowed: it is neither a loopback address nor a pod that runs on a "
        f"local node; to allow it, start the cluster with `volcano up --allow-egress {target}`"
    )


def _parse_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _looks_like_address(entry: str) -> bool:
    return "/" in entry or ":" in entry or entry.replace(".", "").isdigit()
