"""Devices of simulated nodes: ResourceSlices of their pools, and a DeviceClass for each driver."""

from collections.abc import Iterable, Sequence

from volcano.clock import Instant
from volcano.kube.client import Event
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.dra.slices import device, driver_class, node_slices
from volcano.kube.kinds import DEVICE_CLASS, NODE, RESOURCE_SLICE
from volcano.kube.manifest import Key, is_deleting, key_of, owner_reference
from volcano.kube.operations import Create, Operation
from volcano.nodes.pools import SimulatedNode


class SimulatedDevices(Reconciler[str]):
    """Publishes the devices of the nodes whose pools have any; keys are the names of nodes. They go with the node."""

    name = "simulated-devices"
    watches: Sequence[Watch] = (Watch(NODE), Watch(RESOURCE_SLICE), Watch(DEVICE_CLASS))

    def __init__(self, nodes: Sequence[SimulatedNode]) -> None:
        super().__init__()
        self._nodes = {node.name: node for node in nodes if node.pool.slices}
        if not self._nodes:
            self.watches = ()

    def accepts(self, event: Event) -> bool:
        return event.kind is not NODE or key_of(event.object).name in self._nodes

    def keys(self, event: Event) -> Iterable[str]:
        name = event.object_key().name
        if event.kind is NODE:
            return (name,)
        if event.kind is RESOURCE_SLICE:
            node = event.object["spec"].get("nodeName", "")
            return (node,) if node in self._nodes else ()
        return [node.name for node in self._nodes.values() if name in node.pool.slices]

    def reconcile(self, name: str, now: Instant) -> Plan:
        node = self.indexer.get(NODE, Key("", name))
        if node is None or is_deleting(node):
            return NOTHING
        owner = owner_reference({"apiVersion": NODE.api_version, "kind": NODE.kind, **node})
        operations: list[Operation] = []
        for driver, count in self._nodes[name].pool.slices.items():
            if self.indexer.get(DEVICE_CLASS, Key("", driver)) is None:
                operations.append(Create(DEVICE_CLASS, driver_class(driver, driver), if_absent=True))
            devices = [device(f"device-{number}", {"number": number}) for number in range(count)]
            operations += [
                Create(RESOURCE_SLICE, each, if_absent=True)
                for each in node_slices(name, driver, devices, owner=owner)
                if self.indexer.get(RESOURCE_SLICE, key_of(each)) is None
            ]
        return Plan(operations)
