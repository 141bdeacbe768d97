"""Nodes of a cluster as a submission sees them: on this machine, simulated, or elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volcano.kube.api import quantity
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import NODE
from volcano.kube.api.manifest import Manifest, labels_of
from volcano.kube.api.names import SIMULATED
from volcano.kube.client.protocol import Client

RUNTIME_PREFIX = "volcano-"
PROCESS_RUNTIMES = frozenset(("netns", "userns", "plain"))


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Nodes by where their pods run. Nothing is known to a user who may not list nodes."""

    here: Sequence[Manifest] = ()  # on this machine
    local: Sequence[Manifest] = ()  # of `volcano up`, on this machine or another
    simulated: int = 0
    others: int = 0

    @property
    def runtime(self) -> str:
        """Runtime of the nodes of `volcano up`; empty when there are none."""
        return _runtime_of(self.local[0]) if self.local else ""

    @property
    def uses_programs_of_host(self) -> bool:
        """Whether pods run programs of the host, not of an image."""
        return self.runtime in PROCESS_RUNTIMES

    @property
    def only_simulated(self) -> bool:
        return self.simulated > 0 and not self.local and not self.others

    def fits_locally(self, requests: dict[str, str]) -> bool:
        """Whether a pod with these requests fits on an empty local node."""
        return any(
            all(
                quantity.parse(amount) <= quantity.parse(node["status"].get("allocatable", {}).get(name, "0"))
                for name, amount in requests.items()
            )
            for node in self.local
        )


async def inspect_nodes(client: Client) -> NodeFacts:
    """Lists the nodes; a user without permission learns nothing about them."""
    try:
        nodes = (await client.list(NODE)).items
    except ApiError:
        return NodeFacts()
    simulated = [node for node in nodes if SIMULATED in labels_of(node)]
    local = [
        node
        for node in nodes
        if SIMULATED not in labels_of(node) and _runtime_version(node).startswith(RUNTIME_PREFIX)
    ]
    return NodeFacts(
        here=[node for node in local if _is_this_machine(node)],
        local=local,
        simulated=len(simulated),
        others=len(nodes) - len(simulated) - len(local),
    )


def _runtime_version(node: Manifest) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("containerRuntimeVersion", ""))


def _runtime_of(node: Manifest) -> str:
    return _runtime_version(node).removeprefix(RUNTIME_PREFIX).partition(":")[0]


def _is_this_machine(node: Manifest) -> bool:
    found = node["status"]["nodeInfo"]
    return (found.get("bootID"), found.get("machineID")) == (
        _text("/proc/sys/kernel/random/boot_id"),
        _text("/etc/machine-id"),
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
