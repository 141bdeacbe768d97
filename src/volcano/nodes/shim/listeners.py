"""Addresses on which the processes of a pod listen, for pods that share the network of the host."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator

_LISTENING = "0A"
_SOCKET = "socket:["


def addresses(pids: Iterable[int], port: int, own: str) -> list[str]:
    """Returns the addresses at which these processes accept connections to a port; `own` stands for any address."""
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    if not inodes:
        return []
    found = [address for address, at, inode in _listening() if at == port and inode in inodes]
    return [{"0.0.0.0": own, "::": own}.get(address, address) for address in dict.fromkeys(found)]


def _sockets(pid: int) -> Iterator[str]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target.startswith(_SOCKET):
                yield target[len(_SOCKET) : -1]


def _listening() -> Iterator[tuple[str, int, str]]:
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            with open(f"/proc/net/{table}") as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        for row in rows:
            if row[3] == _LISTENING:
                host, _, port = row[1].partition(":")
                yield _address(host, family), int(port, 16), row[9]


def _address(text: str, family: int) -> str:
    """Decodes an address of /proc/net/tcp: 32-bit words in the byte order of the machine."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    address = socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))
    return address.removeprefix("::ffff:")
