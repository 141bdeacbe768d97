"""Writes of a node's Numatopology: creates it, or patches what has changed."""

from volcano.base.clock import Instant
from volcano.kube.api.kinds import NUMATOPOLOGY
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.kube.client.operations import Create, Patch
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.topology import NumaTopology, manifest_of, spec_of

TIMESTAMP = "timestamp"  # annotation with the time of the last update, in seconds since the epoch


def write(
    topology: NumaTopology, published: NumaTopology | None, node: Manifest, now: Instant
) -> Create | Patch | None:
    """The write that publishes a topology; None when `published` is the same. `node` is its owner."""
    updated = {"annotations": {TIMESTAMP: str(int(now.wall))}}
    if published is None:
        made = manifest_of(topology, {"name": topology.node, "uid": uid_of(node)})
        made["metadata"] |= updated
        return Create(NUMATOPOLOGY, made)
    if published == topology:
        return None
    spec = spec_of(topology)
    if published.layout is topology.layout:
        del spec["cpuDetail"]
    else:
        gone = published.layout.cpus & ~topology.layout.cpus
        spec["cpuDetail"] |= {str(cpu): None for cpu in cpusets.members(gone)}
    if published.reserved_cpu and not topology.reserved_cpu:
        spec["resReserved"] = None
    return Patch(NUMATOPOLOGY, Key("", topology.node), {"metadata": updated, "spec": spec})
