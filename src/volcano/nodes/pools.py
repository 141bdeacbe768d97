"""Pools of simulated nodes: `cpu=32,memory=128Gi,nvidia.com/gpu=8` on the command line becomes Node objects."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from volcano.kube.api import names
from volcano.kube.api.formats.names import dns_subdomain
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.quantity import canonical
from volcano.kube.api.quantity import parse as parse_quantity
from volcano.kube.api.selectors import check_label_key, check_label_value
from volcano.kube.devices.numa.assignment import BEST_EFFORT, CPU_MANAGER_POLICIES, POLICIES, STATIC
from volcano.nodes import pool_devices
from volcano.nodes.pool_devices import PoolDevices

DEFAULT_RESOURCES: Mapping[str, str] = {
    "cpu": "8",
    "memory": "32Gi",
    "ephemeral-storage": "100Gi",
    "pods": "110",
}
NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# leaves space for a dash and the node's number within a label value, as which names are used too
MAX_NAME_LENGTH = 53
MAX_DRIVER_LENGTH = 63
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NUMA_POLICIES = {"topology-policy": POLICIES, "cpu-manager": CPU_MANAGER_POLICIES}
NUMA_KEYS = ("numa", *NUMA_POLICIES)
MAX_NUMA_NODES = 16
FIRST_NODE_ADDRESS = IPv4Address("172.16.0.1")
POD_NETWORK = 10 << 24 | 128 << 16  # 10.128.0.0: each node has the /24 of its number
KUBELET_VERSION = "v1.36.1-volcano"


class PoolError(ValueError):
    """An invalid node specification; the message names the part and what would be right."""


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NumaPool:
    """NUMA nodes of each node, and the policies of its kubelet."""

    nodes: int
    cpus: int
    policy: str = BEST_EFFORT
    cpu_manager: str = STATIC


@dataclass(frozen=True, slots=True)
class Pool:
    """A number of equal nodes."""

    name: str
    count: int
    resources: Mapping[str, str] = field(default_factory=lambda: DEFAULT_RESOURCES)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    shared_devices: PoolDevices = field(default_factory=PoolDevices)
    numa: NumaPool | None = None
    slices: Mapping[str, int] = field(default_factory=dict)  # devices published as ResourceSlices, by driver


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """One node: its name, its number (which gives it its addresses) and its pool."""

    name: str
    number: int
    pool: Pool
    labels: Mapping[str, str] = field(default_factory=dict)  # beside those of its pool

    @property
    def address(self) -> str:
        return str(FIRST_NODE_ADDRESS + self.number)

    def pod_address(self, host: int) -> str:
        """The address of the pod with this host number (1 to 254) on this node."""
        return str(IPv4Address(POD_NETWORK + self.number * 256 + host))


def parse_pool(text: str, *, count: int | None = None, name: str = "") -> Pool:
    """Parses `cpu=32,memory=128Gi,label:zone=a,taint:gpu=true:NoSchedule,count=4,name=gpu`.

    Also devices: `nvidia.com/gpu=8,vgpu=10,gpu-memory=80Gi,gpu-type=A100`, `mig=1g.5gb:7`, `ascend=Ascend310P:8`,
    devices for resource claims: `dra=gpu.example.com:8`, and NUMA nodes: `numa=2`.
    """
    resources: dict[str, str] = dict(DEFAULT_RESOURCES)
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    settings: dict[str, str] = {}  # of devices
    numa: dict[str, str] = {}
    slices: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator and not key.startswith("taint:"):
            raise PoolError(f"node specification {text!r}: {part!r} is not of the form resource=quantity")
        if key.startswith("label:"):
            labels[_label(key.removeprefix("label:"), value, text)] = value
        elif key.startswith("taint:"):
            taints.append(_taint(part.removeprefix("taint:"), text))
        elif key == "dra":
            slices |= _slices(value, text)
        elif key == "count":
            count = _count(value, text)
        elif key == "name":
            name = _name(value, text)
        elif key in pool_devices.KEYS:
            settings[key] = value
        elif key in NUMA_KEYS:
            numa[key] = value
        else:
            resources[key] = _quantity(key, value, text)
    try:
        devices, changed = pool_devices.parse_devices(settings, resources.get(pool_devices.GPU, "0"))
    except ValueError as error:
        raise PoolError(f"node specification {text!r}: {error}") from None
    resources = {key: value for key, value in (resources | changed).items() if value is not None}
    labels = pool_devices.device_labels(settings, devices) | labels
    return Pool(
        name or "node",
        1 if count is None else count,
        resources,
        labels,
        tuple(taints),
        devices,
        _numa(numa, resources["cpu"], text),
        slices,
    )


def parse_pools(counts: Sequence[int], specifications: Sequence[str]) -> list[Pool]:
    """Pairs each `--nodes N` with the `--node SPEC` at the same position; missing ones have defaults."""
    pools = []
    for place in range(max(len(counts), len(specifications))):
        count = counts[place] if place < len(counts) else None
        if count is not None and count < 0:
            raise PoolError(f"--nodes: must be 0 or more (got {count})")
        text = specifications[place] if place < len(specifications) else ""
        several = max(len(counts), len(specifications)) > 1
        pools.append(parse_pool(text, count=count, name=f"pool{place + 1}" if several else ""))
    names_taken = [pool.name for pool in pools]
    for name in names_taken:
        if names_taken.count(name) > 1:
            raise PoolError(
                f"node specification: two pools have name={name}; their nodes would have the same names"
            )
    return pools


def nodes_of(pools: Sequence[Pool]) -> list[SimulatedNode]:
    """The nodes of some pools, numbered consecutively."""
    nodes: list[SimulatedNode] = []
    for pool in pools:
        for index in range(pool.count):
            nodes.append(SimulatedNode(f"{pool.name}-{index}", len(nodes), pool))
    return nodes


def node_manifest(node: SimulatedNode, timestamp: str) -> Manifest:
    """The Node object a kubelet would register."""
    pool = node.pool
    resources = {name: canonical(value) for name, value in pool.resources.items()}
    taints = [
        {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
        for taint in pool.taints
    ]
    cidr = node.pod_address(0) + "/24"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {
                "kubernetes.io/hostname": node.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": "simulated",
                names.SIMULATED: "true",
                **pool.labels,
                **node.labels,
            },
            **(
                {"annotations": registered}
                if (registered := pool.shared_devices.annotations(node.name))
                else {}
            ),
        },
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr], **({"taints": taints} if taints else {})},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": node.address},
                {"type": "Hostname", "address": node.name},
            ],
            "conditions": node_conditions(timestamp, timestamp),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": node.name,
                "containerRuntimeVersion": "simulated://1",
                "kernelVersion": "simulated",
                "kubeProxyVersion": "",
                "kubeletVersion": KUBELET_VERSION,
                "machineID": node.name,
                "operatingSystem": "linux",
                "osImage": "simulated",
                "systemUUID": node.name,
            },
        },
    }


# Status, reason and message of each condition: normal, then abnormal.
_CONDITIONS = {
    "MemoryPressure": (
        ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    ),
    "DiskPressure": (
        ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
    ),
    "PIDPressure": (
        ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ),
    "Ready": (
        ("True", "KubeletReady", "kubelet is posting ready status"),
        ("False", "KubeletNotReady", "the container runtime is down"),
    ),
}


def node_conditions(
    heartbeat: str, transition: str, *, abnormal: Collection[str] = (), before: Manifest | None = None
) -> list[Manifest]:
    """The conditions of a node; those named in `abnormal` are not met. An unchanged one keeps its transition time."""
    known = {c.get("type", ""): c for c in ((before or {}).get("status") or {}).get("conditions") or ()}
    conditions = []
    for kind, texts in _CONDITIONS.items():
        status, reason, message = texts[kind in abnormal]
        same = known.get(kind, {}).get("status") == status
        since = known[kind].get("lastTransitionTime") if same else None
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": heartbeat,
                "lastTransitionTime": since or transition,
            }
        )
    return conditions


def _quantity(name: str, value: str, text: str) -> str:
    try:
        check_label_key(name)
    except ValueError:
        raise PoolError(
            f"node specification {text!r}: {name!r} is not a resource, such as cpu, memory or nvidia.com/gpu"
        ) from None
    try:
        quantity = canonical(value)
    except ValueError:
        raise PoolError(
            f"node specification {text!r}: {name}={value!r} is not a quantity, such as 4, 500m or 16Gi"
        ) from None
    if quantity.startswith("-"):
        raise PoolError(f"node specification {text!r}: {name} must be 0 or more (got {value})")
    return quantity


def _label(key: str, value: str, text: str) -> str:
    """Returns the key of a valid node label."""
    try:
        check_label_key(key)
        check_label_value(value)
    except ValueError as error:
        raise PoolError(f"node specification {text!r}: {error}") from None
    return key


def _name(value: str, text: str) -> str:
    if not NODE_NAME.fullmatch(value) or len(value) > MAX_NAME_LENGTH:
        raise PoolError(
            f"node specification {text!r}: name={value!r} cannot begin the names of nodes; write at most "
            f"{MAX_NAME_LENGTH} lower-case letters, digits or '-', with a letter or digit at both ends"
        )
    return value


def _slices(value: str, text: str) -> dict[str, int]:
    """Parses `gpu.example.com:8`: a driver, which also names the device class, and the devices of each node."""
    driver, _, number = value.rpartition(":")
    if dns_subdomain(driver) or len(driver) > MAX_DRIVER_LENGTH or not number.isdigit() or not int(number):
        raise PoolError(
            f"node specification {text!r}: dra={value!r} is not of the form driver:number, such as gpu.example.com:8"
        )
    return {driver: int(number)}


def _count(value: str, text: str) -> int:
    if not value.isdigit():
        raise PoolError(f"node specification {text!r}: count={value!r} is no number of nodes")
    return int(value)


def _numa(given: Mapping[str, str], cpu: str, text: str) -> NumaPool | None:
    """NUMA nodes from `numa=2,topology-policy=restricted,cpu-manager=static`."""
    if not given:
        return None
    if "numa" not in given:
        raise PoolError(
            f"node specification {text!r}: {next(iter(given))} needs numa=, a number of NUMA nodes"
        )
    count, cpus = given["numa"], parse_quantity(cpu)
    most = min(MAX_NUMA_NODES, int(cpus))
    if not count.isascii() or not count.isdigit() or not 1 <= int(count) <= most or cpus != int(cpus):
        raise PoolError(
            f"node specification {text!r}: numa={count!r} does not divide cpu={cpu}; write 1 to {MAX_NUMA_NODES} "
            "NUMA nodes for at least as many whole cpus"
        )
    for key, allowed in NUMA_POLICIES.items():
        if given.get(key, allowed[0]) not in allowed:
            raise PoolError(
                f"node specification {text!r}: {key}={given[key]!r} is unknown; choose from {', '.join(allowed)}"
            )
    return NumaPool(
        int(count), int(cpus), given.get("topology-policy", BEST_EFFORT), given.get("cpu-manager", STATIC)
    )


def _taint(part: str, text: str) -> Taint:
    rest, _, effect = part.rpartition(":")
    key, _, value = rest.partition("=")
    if effect not in EFFECTS or not key:
        raise PoolError(
            f"node specification {text!r}: taint {part!r} is not of the form key[=value]:effect with one of "
            f"{', '.join(EFFECTS)}"
        )
    return Taint(_label(key, value, text), value, effect)
