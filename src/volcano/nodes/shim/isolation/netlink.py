"""Minimal rtnetlink client: veth pairs, addresses and routes without external programs."""

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping

_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK, _RTM_NEWADDR, _RTM_GETADDR = 16, 17, 18, 20, 22
_RTM_NEWROUTE, _RTM_GETROUTE = 24, 26
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_DUMP, _NLM_F_CREATE, _NLM_F_EXCL = 1, 4, 0x300, 0x400, 0x200
_NLMSG_ERROR, _NLMSG_DONE = 2, 3

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_AF_SPEC, _IFLA_NET_NS_FD = 1, 3, 18, 26, 28
_IFLA_INET_CONF = 1
FORWARDING, RP_FILTER = 1, 8  # settings of an interface, as in /proc/sys/net/ipv4/conf
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC = 1, 4, 5, 7
_IFF_UP = 1
_RT_SCOPE_UNIVERSE, _RT_SCOPE_LINK, _RT_TABLE_MAIN, _RTPROT_BOOT, _RTN_UNICAST = 0, 253, 254, 3, 1
_NLA_F_NESTED = 0x8000

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBi")
_ROUTE = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE = struct.Struct("=HH")


class RouteRequest:
    """A netlink message: type, flags and encoded body."""

    def __init__(self, kind: int, body: bytes, flags: int = 0) -> None:
        self.kind, self.body, self.flags = kind, body, flags


class NetlinkSocket:
    """A route socket of the network namespace in which it is opened."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    def send(self, requests: Iterable[RouteRequest]) -> None:
        """Sends all requests at once; the first error of the kernel is raised as an OSError."""
        encoded = [_encoded(each, index) for index, each in enumerate(requests, 1)]
        self._socket.send(b"".join(encoded))
        waiting, failed = len(encoded), 0
        while waiting:
            for kind, body in messages(self._socket.recv(65536)):
                if kind == _NLMSG_ERROR:
                    waiting -= 1
                    failed = failed or -int(struct.unpack_from("=i", body)[0])
        if failed:
            raise OSError(failed, os.strerror(failed))

    def links(self) -> dict[str, int]:
        """Returns the indexes of all interfaces by name."""
        found: dict[str, int] = {}
        for body in self._dump(RouteRequest(_RTM_GETLINK, _LINK.pack(0, 0, 0, 0, 0), _NLM_F_DUMP)):
            name = attributes(body[_LINK.size :])[_IFLA_IFNAME].rstrip(b"\0").decode()
            found[name] = _LINK.unpack_from(body)[2]
        return found

    def addresses(self) -> list[str]:
        """Returns the IPv4 addresses of all interfaces."""
        request = RouteRequest(_RTM_GETADDR, _ADDRESS.pack(socket.AF_INET, 0, 0, 0, 0), _NLM_F_DUMP)
        found = (attributes(body[_ADDRESS.size :]) for body in self._dump(request))
        return [socket.inet_ntoa(each[_IFA_LOCAL]) for each in found if _IFA_LOCAL in each]

    def has_default_route(self) -> bool:
        request = RouteRequest(
            _RTM_GETROUTE, _ROUTE.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0), _NLM_F_DUMP
        )
        routes = [_ROUTE.unpack_from(body) for body in self._dump(request)]
        return any(prefix == 0 and table == _RT_TABLE_MAIN for _, prefix, _, _, table, *_ in routes)

    def _dump(self, request: RouteRequest) -> Iterator[bytes]:
        """Yields the body of each object that a dump request returns."""
        self._socket.send(_encoded(request, 1, acknowledge=False))
        while True:
            for kind, body in messages(self._socket.recv(1 << 20)):
                if kind in (_NLMSG_DONE, _NLMSG_ERROR):
                    return
                yield body


def veth(name: str, index: int, peer: str, peer_index: int, mac: bytes, namespace: int) -> RouteRequest:
    """Creates a veth pair: `name` here; `peer`, with `mac`, in the namespace of a descriptor."""
    peer_link = _LINK.pack(0, 0, peer_index, 0, 0) + text(_IFLA_IFNAME, peer) + attribute(_IFLA_ADDRESS, mac)
    peer_link += attribute(_IFLA_NET_NS_FD, struct.pack("=I", namespace))
    info = _kind("veth") + nest(_INFO_DATA, attribute(_VETH_PEER, peer_link))
    body = _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP) + text(_IFLA_IFNAME, name)
    return RouteRequest(_RTM_NEWLINK, body + nest(_IFLA_LINKINFO, info), _NLM_F_CREATE | _NLM_F_EXCL)


def configure(index: int, settings: Mapping[int, int]) -> RouteRequest:
    """Changes IPv4 settings of an interface; works where /proc/sys is read-only."""
    values = b"".join(attribute(each, struct.pack("=I", value)) for each, value in settings.items())
    inet = nest(socket.AF_INET, nest(_IFLA_INET_CONF, values))
    return RouteRequest(_RTM_NEWLINK, _LINK.pack(0, 0, index, 0, 0) + nest(_IFLA_AF_SPEC, inet))


def up(index: int) -> RouteRequest:
    return RouteRequest(_RTM_NEWLINK, _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP))


def delete(name: str) -> RouteRequest:
    return RouteRequest(_RTM_DELLINK, _LINK.pack(0, 0, 0, 0, 0) + text(_IFLA_IFNAME, name))


def address(index: int, text: str, prefix: int) -> RouteRequest:
    raw = socket.inet_aton(text)
    body = _ADDRESS.pack(socket.AF_INET, prefix, 0, _RT_SCOPE_UNIVERSE, index)
    return RouteRequest(
        _RTM_NEWADDR,
        body + attribute(_IFA_LOCAL, raw) + attribute(_IFA_ADDRESS, raw),
        _NLM_F_CREATE | _NLM_F_EXCL,
    )


def default_route(gateway: str) -> RouteRequest:
    return _route(0, _RT_SCOPE_UNIVERSE, attribute(_RTA_GATEWAY, socket.inet_aton(gateway)))


def link_route(destination: str, prefix: int, index: int, source: str = "") -> RouteRequest:
    """A route to a directly connected network; `source` is the address of packets that this host sends there."""
    attributes = attribute(_RTA_DST, socket.inet_aton(destination))
    attributes += attribute(_RTA_OIF, struct.pack("=I", index))
    attributes += attribute(_RTA_PREFSRC, socket.inet_aton(source)) if source else b""
    return _route(prefix, _RT_SCOPE_LINK, attributes)


def _route(prefix: int, scope: int, attributes: bytes) -> RouteRequest:
    body = _ROUTE.pack(socket.AF_INET, prefix, 0, 0, _RT_TABLE_MAIN, _RTPROT_BOOT, scope, _RTN_UNICAST, 0)
    return RouteRequest(_RTM_NEWROUTE, body + attributes, _NLM_F_CREATE | _NLM_F_EXCL)


def _encoded(request: RouteRequest, sequence: int, *, acknowledge: bool = True) -> bytes:
    flags = _NLM_F_REQUEST | request.flags | (_NLM_F_ACK if acknowledge else 0)
    padding = -len(request.body) % 4
    size = _HEADER.size + len(request.body)
    return _HEADER.pack(size, request.kind, flags, sequence, 0) + request.body + bytes(padding)


def messages(received: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the type and body of each message."""
    while received:
        size, kind = _HEADER.unpack_from(received)[:2]
        yield kind, received[_HEADER.size : size]
        received = received[(size + 3) & ~3 :]


def attributes(encoded: bytes) -> dict[int, bytes]:
    """Decodes attributes that occur once."""
    found: dict[int, bytes] = {}
    while len(encoded) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(encoded)
        found[kind] = encoded[_ATTRIBUTE.size : size]
        encoded = encoded[(size + 3) & ~3 :]
    return found


def attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def nest(kind: int, value: bytes) -> bytes:
    return attribute(kind | _NLA_F_NESTED, value)


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def _kind(name: str) -> bytes:
    return attribute(_INFO_KIND, name.encode())
