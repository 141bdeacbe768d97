"""Why a node can never take a pod with a NUMA request, whatever runs there: reason → positions of the nodes."""

from collections.abc import Mapping, Sequence

from volcano.kube.devices.numa.assignment import NONE, SINGLE_NUMA_NODE, STATIC, assign, strictness
from volcano.kube.devices.numa.topology import NumaTopology
from volcano.model.numa import NumaRequest
from volcano.scheduler.plugins.numa_aware.free_cpus import is_checked

Topologies = Sequence[NumaTopology | None]


def node_problems(policy: str, topologies: Topologies) -> Mapping[str, list[int]]:
    """Nodes that cannot give the policy that a pod asks for; a stricter policy than asked for is enough."""
    found: dict[str, list[int]] = {}
    for position, topology in enumerate(topologies):
        if reason := _problem(policy, topology):
            found.setdefault(reason, []).append(position)
    return found


def _problem(policy: str, topology: NumaTopology | None) -> str:
    if topology is None:
        return "numa info is empty: the node has no Numatopology"
    if topology.cpu_manager != STATIC:
        return f"cpu manager policy isn't static: the node has {topology.cpu_manager or NONE}"
    if strictness(topology.policy) < strictness(policy):
        return f"task topology policy[{policy}] is different with node[{topology.policy}]"
    if not topology.layout.cpus:
        return "no topo information: the Numatopology lists no CPUs"
    if topology.allocatable is None:
        return "cpu allocatable map is empty: the Numatopology has no numares.cpu"
    return ""


def unassignable(request: NumaRequest, topologies: Topologies) -> Mapping[str, list[int]]:
    """Nodes that could not assign the CPUs even if no other pod ran there."""
    found: dict[str, list[int]] = {}
    for position, topology in enumerate(topologies):
        if topology is None or not is_checked(topology):
            continue
        usable = topology.layout.cpus & ~topology.reserved
        assignment = assign(topology.layout, topology.policy, usable, request.cpus)
        if not assignment.admitted:
            found.setdefault(_reason(request, assignment.refused, topology, usable), []).append(position)
    return found


def _reason(request: NumaRequest, number: int, topology: NumaTopology, usable: int) -> str:
    most = usable.bit_count()
    where = "the node"
    if topology.policy == SINGLE_NUMA_NODE:
        most = max((cpus & usable).bit_count() for cpus in topology.layout.numa_nodes.values())
        where = "a NUMA node"
    return (
        f"container {request.containers[number]} cannot be assigned by numa: it requests {request.cpus[number]} cpus, "
        f"{where} has {most} (topology policy {topology.policy})"
    )
