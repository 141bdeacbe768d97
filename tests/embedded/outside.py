"""A program that runs a cluster between network namespaces of its own.

Usage: `python -m tests.embedded.outside RUNTIME DIRECTORY [PROGRAM ...]`, PROGRAMs are hidden from the cluster.

The process leaves the machine's network for a new namespace, which plays the host: it has an address in
203.0.113.0/24 and a name server on its loopback address. A child in another namespace plays the outside network: a
server at 203.0.113.9 and one at the address of cloud metadata servers, 169.254.169.254. It has no route to pods.
Prints as JSON what a pod reaches, and what is left of the cluster's network afterwards.
"""

import asyncio
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.embedded.pods import PodCluster, pod_cluster, until
from volcano.kube.api.kinds import NETWORK_POLICY
from volcano.nodes.runtimes.shim_launch import shim_pid
from volcano.nodes.shim.isolation import netlink, nftables, syscalls

HOST, OUTSIDE, METADATA = "203.0.113.1", "203.0.113.9", "169.254.169.254"
LOOPBACK = 1
REJECTED = "error: No route to host"
RESOLVE = "import socket; print(socket.gethostbyname('outside.example'))"


def main(runtime: str, directory: Path, *hidden: str) -> None:
    syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS)
    syscalls.mount("", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    for path in filter(None, map(shutil.which, hidden)):
        syscalls.mount("/dev/null", path, flags=syscalls.MS_BIND)
    outside = start_outside()
    try:
        build_host(outside, directory)
        sys.stdout.write(json.dumps(asyncio.run(explore(runtime, directory))))
    finally:
        os.kill(outside, signal.SIGKILL)
        os.waitpid(outside, 0)


def start_outside() -> int:
    """A child in a namespace of its own; its servers answer with the address of the peer."""
    ready_read, ready_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            syscalls.unshare(syscalls.CLONE_NEWNET)
            os.write(ready_write, b"1")
            answer_on([(OUTSIDE, 80), (METADATA, 80)])
        finally:
            os._exit(1)
    os.read(ready_read, 1)
    return child


def answer_on(places: list[tuple[str, int]]) -> None:
    def serve(place: tuple[str, int]) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND: the address is added later
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()
        while True:
            peer, source = listener.accept()
            peer.sendall(f"seen {source[0]}".encode())
            peer.close()

    threads = [threading.Thread(target=serve, args=(place,), daemon=True) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def build_host(outside: int, directory: Path) -> None:
    """The host's interface to the outside, a server on all its addresses, and a name server on loopback."""
    routing = netlink.NetlinkSocket()
    namespace = os.open(f"/proc/{outside}/ns/net", os.O_RDONLY)
    pair = netlink.veth("outer", 10, "eth0", 10, b"\x02\x60\0\0\0\1", namespace)
    routing.send([netlink.up(LOOPBACK), pair, netlink.address(10, HOST, 24)])
    routing.send([netlink.link_route(METADATA, 32, 10)])
    run_in(namespace, ["ip", "addr", "add", f"{OUTSIDE}/24", "dev", "eth0"])
    run_in(namespace, ["ip", "addr", "add", f"{METADATA}/32", "dev", "eth0"])
    run_in(namespace, ["ip", "link", "set", "eth0", "up"])
    routing.send([netlink.default_route(OUTSIDE)])
    threading.Thread(target=answer_on, args=([("0.0.0.0", 7000)],), daemon=True).start()
    threading.Thread(target=answer_names, daemon=True).start()
    resolv_conf = directory / "resolv.conf"
    resolv_conf.write_text("nameserver 127.0.0.1\n")
    syscalls.mount(str(resolv_conf), "/etc/resolv.conf", flags=syscalls.MS_BIND)


def run_in(namespace: int, command: list[str]) -> None:
    libc = ctypes.CDLL(None)
    subprocess.run(command, check=True, preexec_fn=lambda: libc.setns(namespace, syscalls.CLONE_NEWNET))


def answer_names() -> None:
    """Answers every question with the outside server's address."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 53))
    while True:
        question, source = listener.recvfrom(512)
        end = question.index(b"\0", 12) + 5
        head = question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question[12:end]
        listener.sendto(head + b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(OUTSIDE), source)


async def explore(runtime: str, directory: Path) -> dict[str, Any]:
    data = directory / "data"
    data.mkdir()
    # A new namespace starts with the value of the host, where another cluster may have enabled forwarding.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
    found: dict[str, Any] = {"forwarding before": forwarding()}
    async with pod_cluster(data, runtime, node_pod_network="nat") as cluster:
        pod = await cluster.pod("pod", labels={"app": "pod"})
        found["limitations"] = limitations(cluster)
        found["outside"] = await cluster.ask(pod, OUTSIDE, 80)
        found["name"] = await cluster.run(pod, "python3", "-c", RESOLVE)
        found["host"] = [await cluster.ask(pod, address, 7000, timeout=2) for address in host_addresses()]
        found["metadata"] = await cluster.ask(pod, METADATA, 80, timeout=2)
        found["unused pod address"] = await cluster.ask(pod, "10.88.200.200", 80, timeout=2)
        found["links"] = uplinks()
        found["tables"] = tables()
        if "no other network" in found["limitations"]:
            return found
        await isolate(cluster)
        await cluster.until_answer(pod, OUTSIDE, 80, REJECTED)
        found["isolated"] = await cluster.ask(pod, OUTSIDE, 80, timeout=2)
        block = {"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.128/25"]}}
        await allow(cluster, block)
        await cluster.until_answer(pod, OUTSIDE, 80, "seen")
        found["allowed"] = await cluster.ask(pod, OUTSIDE, 80)
        found["killed"] = await kill_shim(data)
    found["links after"], found["tables after"] = uplinks(), tables()
    found["forwarding after"] = forwarding()
    return found


def limitations(cluster: PodCluster) -> str:
    nodes = cluster.cluster.local_nodes
    assert nodes is not None
    assert nodes.runtime is not None
    return " ".join(nodes.runtime.features.limitations)


async def isolate(cluster: PodCluster) -> None:
    await cluster.create(NETWORK_POLICY, "closed", spec={"podSelector": {}, "policyTypes": ["Egress"]})


async def allow(cluster: PodCluster, peer: dict[str, Any]) -> None:
    rule = {"to": [peer], "ports": [{"port": 80}]}
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [rule]}
    await cluster.create(NETWORK_POLICY, "open", spec=spec)


async def kill_shim(directory: Path) -> dict[str, Any]:
    """What the kernel has left a moment after the shim was killed, and before it is started again."""
    os.kill(shim_pid(directory), signal.SIGSTOP)  # not restarted while it is looked at
    os.kill(shim_pid(directory), signal.SIGKILL)
    for _ in range(200):
        if not uplinks() or not tables():
            break
        await asyncio.sleep(0.01)
    left = {"tables": tables()}

    async def again() -> bool:
        return bool(shim_pid(directory))

    await until(again, "the shim is not started again")
    return left


def host_addresses() -> list[str]:
    return [HOST, "127.0.0.1", "198.19.255.254"]


def uplinks() -> list[str]:
    return [name for name in netlink.NetlinkSocket().links() if name.startswith("vc-")]


def tables() -> list[str]:
    return nftables.NftSocket().tables()


def forwarding() -> str:
    return Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
