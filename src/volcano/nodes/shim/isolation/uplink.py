"""The way from the pod network to other networks (`--pod-network=nat`).

As root, a veth pair connects the shim's network namespace with the host's, which forwards and masquerades. The host's
rules are in a table that the kernel removes when the shim ends, and accept nothing from pods for the host
itself. In a user namespace pasta or slirp4netns, run by the host network helper, connects to other networks for the
pods, with the rights of the user.
"""

import contextlib
import os
import select
import shutil
import socket
import sys
from collections.abc import Callable

from volcano.nodes.shim.isolation import netlink, nftables, syscalls
from volcano.nodes.shim.isolation.nftables import BaseChain, Chain, Hook, Outcome, Table

INTERFACE = "uplink"  # in the shim's namespace
HOST_PREFIX = "vc-"  # of interfaces in the host's namespace
HOST_ADDRESS = "198.19.255.254"  # of the host's end; this network is not routed on the Internet
_FIRST_ADDRESS = int.from_bytes(socket.inet_aton("198.18.0.0"), "big")
_ADDRESSES, _ATTEMPTS = 1 << 16, 16
_MARKER = "forwarding-enabled"  # a file in the data directory, while this host forwards for the cluster
_FORWARDING = "/proc/sys/net/ipv4/ip_forward"
_INPUT_NAME, _OUTPUT_NAME = 6, 7  # keys of `load_meta`
_NAME_LENGTH = 16
_READY_TIMEOUT, _POLL = 3.0, 0.02
PROGRAMS = ("pasta", "slirp4netns")


class MasqueradedUplink:
    """A veth pair to the host's network; must be created there, before the shim leaves it."""

    def __init__(self, cluster: str, directory: str) -> None:
        self._marker = os.path.join(directory, _MARKER)
        self._name = f"{HOST_PREFIX}{cluster[:8]}"
        self._seed = int(cluster[:8], 16)
        self._table = f"volcano-{cluster[:8]}"
        self._netlink = netlink.NetlinkSocket()
        self._nftables = nftables.NftSocket()
        self._forwarding = os.open(_FORWARDING, os.O_RDWR | os.O_CLOEXEC)

    def connect(self, namespace: int, shim: netlink.NetlinkSocket) -> int:
        """Connects the shim's namespace and returns the index of its interface. Raises OSError."""
        mac = b"\x02\x59" + self._seed.to_bytes(4, "big")
        with contextlib.suppress(OSError):  # left by a shim that was killed just now
            self._netlink.send([netlink.delete(self._name)])
        self._netlink.send([netlink.veth(self._name, 0, INTERFACE, 0, mac, namespace)])
        index, own = self._netlink.links()[self._name], shim.links()[INTERFACE]
        self._netlink.send(
            [netlink.address(index, HOST_ADDRESS, 32), netlink.configure(index, {netlink.FORWARDING: 1})]
        )
        address = self._route(index)
        self._install(address)
        shim.send(
            [
                netlink.address(own, address, 32),
                netlink.up(own),
                netlink.configure(own, {netlink.FORWARDING: 1}),
                netlink.link_route(HOST_ADDRESS, 32, own),
                netlink.default_route(HOST_ADDRESS),
            ]
        )
        self._enable_forwarding()
        return own

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._netlink.send([netlink.delete(self._name)])
        _restore_forwarding(self._marker, self._forwarding, self._netlink)
        self._netlink.close()
        self._nftables.close()  # removes the table
        os.close(self._forwarding)

    def _route(self, index: int) -> str:
        """Chooses an address that no other cluster of this host has, and routes it to the shim."""
        for attempt in range(_ATTEMPTS):
            number = _FIRST_ADDRESS + 1 + (self._seed + attempt) % (_ADDRESSES - 2)
            address = socket.inet_ntoa(number.to_bytes(4, "big"))
            try:
                self._netlink.send([netlink.link_route(address, 32, index, HOST_ADDRESS)])
            except FileExistsError:
                continue
            return address
        raise OSError("no address for the pod network is free on this host")

    def _install(self, address: str) -> None:
        source = [nftables.load_source(), nftables.equals(socket.inet_aton(address))]
        from_pods = self._interface(_INPUT_NAME)
        replies = [
            nftables.load_conntrack_state(),
            nftables.masked((2 | 4).to_bytes(4, sys.byteorder)),
            nftables.equals(bytes(4), inverted=True),
        ]
        drop, accept = nftables.outcome(Outcome.DROP), nftables.outcome(Outcome.ACCEPT)
        to_pods = self._interface(_OUTPUT_NAME)
        chains = [
            Chain("postrouting", BaseChain("nat", Hook.POSTROUTING, 100), [[*source, nftables.masquerade()]]),
            Chain("input", BaseChain("filter", Hook.INPUT, 0), [[*from_pods, drop]]),
            Chain(
                "forward",
                BaseChain("filter", Hook.FORWARD, 0),
                [[*to_pods, *replies, accept], [*to_pods, drop]],
            ),
        ]
        self._nftables.install(Table(self._table, chains=chains, owned=True))

    def _interface(self, key: int) -> list[nftables.Expression]:
        name = self._name.encode().ljust(_NAME_LENGTH, b"\0")
        return [nftables.load_meta(key), nftables.equals(name)]

    def _enable_forwarding(self) -> None:
        if os.pread(self._forwarding, 1, 0) == b"0":
            with open(self._marker, "wb"):
                os.pwrite(self._forwarding, b"1", 0)


class UserUplink:
    """Connections made by pasta or slirp4netns, which `start` runs in the host's network."""

    def __init__(self, start: Callable[[list[str]], int], directory: str) -> None:
        """The namespace is mounted in `directory`: pasta may not open it by the pid of the shim."""
        self._start = start
        self._path = os.path.join(directory, "netns")

    def connect(self, namespace: int, shim: netlink.NetlinkSocket) -> int:
        """Starts the first program that works and returns the index of its interface. Raises OSError."""
        programs = [path for path in map(shutil.which, PROGRAMS) if path]
        if not programs:
            raise OSError("neither pasta nor slirp4netns is installed")
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with open(self._path, "wb"):
            syscalls.mount(f"/proc/self/fd/{namespace}", self._path, flags=syscalls.MS_BIND)
        for program in programs:
            pid = self._start(command(program, self._path))
            index = _wait_for_interface(shim, pid)
            if index:
                shim.send([netlink.configure(index, {netlink.FORWARDING: 1})])
                return index
        names = " and ".join(os.path.basename(program) for program in programs)
        raise OSError(f"{names} could not connect the pod network")

    def close(self) -> None:
        """The program ends with the host network helper."""
        with contextlib.suppress(OSError):  # not mounted
            syscalls.unmount(self._path)


def _wait_for_interface(shim: netlink.NetlinkSocket, pid: int) -> int:
    """The index of the interface once it is configured; 0 when the program has ended or takes too long."""
    program = os.pidfd_open(pid)
    try:
        for _ in range(int(_READY_TIMEOUT / _POLL)):
            index = shim.links().get(INTERFACE)
            if index is not None and shim.has_default_route():
                return index
            ended, _, _ = select.select([program], [], [], _POLL)
            if ended:
                return 0
    finally:
        os.close(program)
    return 0


def command(program: str, namespace: str) -> list[str]:
    """The command line of pasta or slirp4netns for a namespace; neither leads to this host's loopback address."""
    if os.path.basename(program) == "pasta":
        ports = [option for kind in "tuTU" for option in (f"-{kind}", "none")]
        options = ["--config-net", "--foreground", "--quiet", "--no-map-gw", "--ipv4-only", *ports]
        options += (
            ["--runas", "0"] if _is_root() else []
        )  # by default root drops its rights, and may not join
        return [program, *options, "--ns-ifname", INTERFACE, "--netns-only", "--netns", namespace]
    options = ["--configure", "--mtu=65520", "--disable-host-loopback", "--disable-dns"]
    return [program, *options, "--cidr=198.18.0.0/24", "--netns-type=path", namespace, INTERFACE]


def _is_root() -> bool:
    """Whether root of this user namespace is root of the host."""
    with open("/proc/self/uid_map", encoding="ascii") as lines:
        return lines.readline().split()[:2] == ["0", "0"]


def restore_forwarding(directory: str) -> bool:
    """Disables forwarding on this host if a killed shim of a data directory had enabled it; returns whether it had."""
    marker = os.path.join(directory, _MARKER)
    if not os.path.exists(marker):
        return False
    forwarding = os.open(_FORWARDING, os.O_RDWR | os.O_CLOEXEC)
    with contextlib.closing(netlink.NetlinkSocket()) as routing:
        _restore_forwarding(marker, forwarding, routing)
    os.close(forwarding)
    return True


def _restore_forwarding(marker: str, forwarding: int, routing: netlink.NetlinkSocket) -> None:
    """Another cluster of this host may still need it: the last one, or the next start of the system, disables it."""
    if os.path.exists(marker):
        if not any(name.startswith(HOST_PREFIX) for name in routing.links()):
            os.pwrite(forwarding, b"0", 0)
        os.unlink(marker)
