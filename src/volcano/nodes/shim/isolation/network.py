"""Pod network: one namespace per pod, connected to the shim's network namespace, which forwards between pods.

Each pod has a veth pair of its own and no neighbours: all its packets are routed, and so filtered, in the
shim's namespace. The addresses of the gateway and of the cluster's services are on the loopback interface there.
"""

import contextlib
import errno
import ipaddress
import os
from collections.abc import Sequence
from typing import Protocol

from volcano.nodes.shim.isolation import firewall, netlink, nftables, syscalls
from volcano.nodes.shim.network_rules import NetworkRules
from volcano.nodes.shim.specs import Failure

GATEWAY = "10.88.0.1"
NETWORK = ipaddress.IPv4Network("10.88.0.0/16")
SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
SERVICE_ADDRESSES = ("10.96.0.1", "10.96.0.10")  # of the API server and of the name server

# Fixed interface indexes, far from those that the kernel assigns in a new namespace.
_LOOPBACK_INDEX, _POD_INTERFACE, _POD_INDEX = 1, "eth0", 88
_FIRST_HOST_INDEX = 1 << 16
_SYSCTLS = {
    # Low ports need no capability, as in container engines.
    "/proc/sys/net/ipv4/ip_unprivileged_port_start": "0",
    # No automatic IPv6 addresses, and no duplicate address detection for them.
    "/proc/sys/net/ipv6/conf/default/addr_gen_mode": "1",
}
_FIRST, _LAST = int(NETWORK.network_address) + 16, int(NETWORK.broadcast_address) - 1


class AddressPool:
    """Addresses of pods, allocated round robin so that a released one is not reused at once."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._next = _FIRST

    def allocate(self, wanted: str = "") -> str:
        """Returns `wanted` if it is a free address of the network, else the next free one."""
        number = _as_number(wanted)
        if number is None or number in self._taken:
            number = self._next_free()
        self._taken.add(number)
        return str(ipaddress.IPv4Address(number))

    def release(self, address: str) -> None:
        self._taken.discard(int(ipaddress.IPv4Address(address)))

    def _next_free(self) -> int:
        for _ in range(_LAST - _FIRST + 1):
            number = self._next
            self._next = number + 1 if number < _LAST else _FIRST
            if number not in self._taken:
                return number
        raise Failure("FailedCreatePodSandBox", f"every address of the pods' network {NETWORK} is taken")


class Uplink(Protocol):
    """A way to connect a network namespace with other networks."""

    def connect(self, namespace: int, shim: netlink.NetlinkSocket) -> int:
        """Creates an interface in the namespace and returns its index. Raises OSError."""
        ...

    def close(self) -> None: ...


class PodNetwork:
    """The gateway and the pods' interfaces; created in the shim's network namespace."""

    def __init__(self) -> None:
        self.namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._netlink = netlink.NetlinkSocket()
        self._nftables: nftables.NftSocket | None = None
        self.uplink = 0  # index of the interface that leads to other networks

    def build(self) -> None:
        """Creates the addresses of the gateway and of the services."""
        apply_sysctls()
        own = [netlink.address(_LOOPBACK_INDEX, each, 32) for each in (GATEWAY, *SERVICE_ADDRESSES)]
        # Makes the other addresses of Services known here, so that connections to them are refused at once.
        services = netlink.link_route(
            str(SERVICE_NETWORK.network_address), SERVICE_NETWORK.prefixlen, _LOOPBACK_INDEX, GATEWAY
        )
        self._netlink.send([netlink.up(_LOOPBACK_INDEX), *own, services])

    def start_firewall(self) -> str:
        """Prepares the kernel for rules; returns the reason why they are not possible, if so."""
        try:
            self._nftables = nftables.NftSocket()
            self.apply(NetworkRules())
        except OSError as error:
            if self._nftables is not None:
                self._nftables.close()
            self._nftables = None
            return error.strerror or str(error)
        return ""

    def add_uplink(self, uplink: Uplink, host_addresses: Sequence[str]) -> str:
        """Connects pods to other networks; returns the reason why that is not possible, if so."""
        if self._nftables is None:
            return "nftables is not available"
        try:
            index = uplink.connect(self.namespace, self._netlink)
            self.uplink = index
            self.apply(NetworkRules(host_addresses=tuple(host_addresses)))
        except (OSError, Failure) as error:
            self.uplink = 0
            return str(getattr(error, "strerror", "") or error)
        return ""

    def apply(self, rules: NetworkRules) -> None:
        """Replaces the rules of the network at once."""
        if self._nftables is None:
            raise Failure("NetworkRulesNotApplied", "the kernel has no nftables")
        table = firewall.pod_table(
            rules,
            gateway=GATEWAY,
            pods=str(NETWORK),
            services=str(SERVICE_NETWORK),
            name_server=SERVICE_ADDRESSES[1],
            uplink=self.uplink,
        )
        try:
            self._nftables.install(table)
        except OSError as error:
            message = f"the kernel rejects the rules of the pod network: {error.strerror}"
            raise Failure("NetworkRulesNotApplied", message) from error

    def connect(self, namespace: int, pod: netlink.NetlinkSocket, address: str) -> None:
        """Creates an interface with an address in a pod's namespace, given the namespace and its netlink socket."""
        number = int(ipaddress.IPv4Address(address))
        mac = b"\x02\x58" + number.to_bytes(4, "big")  # locally administered; unique per address
        host_index = _FIRST_HOST_INDEX + (number & 0xFFFF)
        pair = netlink.veth(host_interface(address), host_index, _POD_INTERFACE, _POD_INDEX, mac, namespace)
        # A pod can send from its own address only.
        settings = {netlink.FORWARDING: 1, netlink.RP_FILTER: 1}
        own_end = [
            netlink.configure(host_index, settings),
            netlink.link_route(address, 32, host_index, GATEWAY),
        ]
        try:
            self._connect([pair, *own_end], address)
            pod.send(
                [
                    netlink.up(_LOOPBACK_INDEX),
                    netlink.address(_POD_INDEX, address, 32),
                    netlink.up(_POD_INDEX),
                    netlink.link_route(GATEWAY, 32, _POD_INDEX),
                    netlink.default_route(GATEWAY),
                ]
            )
        except OSError as error:
            message = f"cannot connect the pod to its network at {address}: {error.strerror}"
            raise Failure("FailedCreatePodSandBox", message) from error

    def _connect(self, requests: Sequence[netlink.RouteRequest], address: str) -> None:
        """Creates the pair. An interface of the same name may be left: the kernel removes namespaces with a delay."""
        try:
            self._netlink.send(requests)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.EBUSY):
                raise
            with contextlib.suppress(OSError):  # removed meanwhile
                self._netlink.send([netlink.delete(host_interface(address))])
            self._netlink.send(requests)

    def interfaces(self) -> list[str]:
        """Names of the existing pod interfaces."""
        return [name for name in self._netlink.links() if name.startswith("pod")]

    def close(self) -> None:
        self._netlink.close()
        if self._nftables is not None:
            self._nftables.close()
        os.close(self.namespace)


def host_interface(address: str) -> str:
    """Name of the shim's end of a pod's veth pair."""
    return f"pod{int(ipaddress.IPv4Address(address)) & 0xFFFF:04x}"


def apply_sysctls() -> None:
    """Sets the sysctls of a new network namespace, before it has interfaces."""
    for path, value in _SYSCTLS.items():
        # Pods work without IPv6 and with a read-only /proc/sys.
        with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as setting:
            setting.write(value)


def join(descriptor: int) -> None:
    """Joins a network namespace: the caller's new sockets are created in it."""
    syscalls.setns(descriptor, syscalls.CLONE_NEWNET)


def _as_number(text: str) -> int | None:
    try:
        number = int(ipaddress.IPv4Address(text))
    except ValueError:
        return None
    return number if _FIRST <= number <= _LAST else None
