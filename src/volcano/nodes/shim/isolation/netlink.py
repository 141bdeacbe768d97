"""Minimal rtnetlink client: bridges, veth pairs, addresses and routes without external programs."""

import os
import socket
import struct
from collections.abc import Iterable, Iterator

_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK, _RTM_NEWADDR, _RTM_NEWROUTE = 16, 17, 18, 20, 24
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_DUMP, _NLM_F_CREATE, _NLM_F_EXCL = 1, 4, 0x300, 0x400, 0x200
_NLMSG_ERROR, _NLMSG_DONE = 2, 3

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = (
    1,
    3,
    10,
    18,
    28,
)
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_GATEWAY = 5
_IFF_UP = 1
_RT_SCOPE_UNIVERSE, _RT_TABLE_MAIN, _RTPROT_BOOT, _RTN_UNICAST = 0, 254, 3, 1
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
            for kind, body in _messages(self._socket.recv(65536)):
                if kind == _NLMSG_ERROR:
                    waiting -= 1
                    failed = failed or -int(struct.unpack_from("=i", body)[0])
        if failed:
            raise OSError(failed, os.strerror(failed))

    def links(self) -> dict[str, int]:
        """Returns the indexes of all interfaces by name."""
        self._socket.send(
            _encoded(RouteRequest(_RTM_GETLINK, _LINK.pack(0, 0, 0, 0, 0), _NLM_F_DUMP), 1, acknowledge=False)
        )
        found: dict[str, int] = {}
        while True:
            for kind, body in _messages(self._socket.recv(1 << 20)):
                if kind in (_NLMSG_DONE, _NLMSG_ERROR):
                    return found
                name = _attributes(body[_LINK.size :])[_IFLA_IFNAME].rstrip(b"\0").decode()
                found[name] = _LINK.unpack_from(body)[2]


def bridge(name: str, index: int) -> RouteRequest:
    """Creates a bridge with a given index and sets it up."""
    body = (
        _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP)
        + _text(_IFLA_IFNAME, name)
        + _nest(_IFLA_LINKINFO, _kind("bridge"))
    )
    return RouteRequest(_RTM_NEWLINK, body, _NLM_F_CREATE | _NLM_F_EXCL)


def veth(
    name: str, index: int, master: int, peer: str, peer_index: int, mac: bytes, namespace: int
) -> RouteRequest:
    """Creates a veth pair: `name` here as a port of `master`; `peer`, with `mac`, in the namespace of a descriptor."""
    peer_link = (
        _LINK.pack(0, 0, peer_index, 0, 0) + _text(_IFLA_IFNAME, peer) + _attribute(_IFLA_ADDRESS, mac)
    )
    peer_link += _attribute(_IFLA_NET_NS_FD, struct.pack("=I", namespace))
    info = _kind("veth") + _nest(_INFO_DATA, _attribute(_VETH_PEER, peer_link))
    body = _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP) + _text(_IFLA_IFNAME, name)
    body += _attribute(_IFLA_MASTER, struct.pack("=I", master))
    return RouteRequest(_RTM_NEWLINK, body + _nest(_IFLA_LINKINFO, info), _NLM_F_CREATE | _NLM_F_EXCL)


def up(index: int) -> RouteRequest:
    return RouteRequest(_RTM_NEWLINK, _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP))


def delete(name: str) -> RouteRequest:
    return RouteRequest(_RTM_DELLINK, _LINK.pack(0, 0, 0, 0, 0) + _text(_IFLA_IFNAME, name))


def address(index: int, text: str, prefix: int) -> RouteRequest:
    raw = socket.inet_aton(text)
    body = _ADDRESS.pack(socket.AF_INET, prefix, 0, _RT_SCOPE_UNIVERSE, index)
    return RouteRequest(
        _RTM_NEWADDR,
        body + _attribute(_IFA_LOCAL, raw) + _attribute(_IFA_ADDRESS, raw),
        _NLM_F_CREATE | _NLM_F_EXCL,
    )


def default_route(gateway: str) -> RouteRequest:
    body = _ROUTE.pack(
        socket.AF_INET, 0, 0, 0, _RT_TABLE_MAIN, _RTPROT_BOOT, _RT_SCOPE_UNIVERSE, _RTN_UNICAST, 0
    )
    return RouteRequest(
        _RTM_NEWROUTE, body + _attribute(_RTA_GATEWAY, socket.inet_aton(gateway)), _NLM_F_CREATE | _NLM_F_EXCL
    )


def _encoded(request: RouteRequest, sequence: int, *, acknowledge: bool = True) -> bytes:
    flags = _NLM_F_REQUEST | request.flags | (_NLM_F_ACK if acknowledge else 0)
    padding = -len(request.body) % 4
    size = _HEADER.size + len(request.body)
    return _HEADER.pack(size, request.kind, flags, sequence, 0) + request.body + bytes(padding)


def _messages(received: bytes) -> Iterator[tuple[int, bytes]]:
    while received:
        size, kind = _HEADER.unpack_from(received)[:2]
        yield kind, received[_HEADER.size : size]
        received = received[(size + 3) & ~3 :]


def _attributes(encoded: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(encoded) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(encoded)
        found[kind] = encoded[_ATTRIBUTE.size : size]
        encoded = encoded[(size + 3) & ~3 :]
    return found


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def _nest(kind: int, value: bytes) -> bytes:
    return _attribute(kind | _NLA_F_NESTED, value)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _kind(name: str) -> bytes:
    return _attribute(_INFO_KIND, name.encode())
