"""HyperNodes of simulated nodes: created at start, then left to the users of the cluster."""

from collections.abc import Iterable, Iterator, Sequence

from volcano.clock import Instant
from volcano.kube import names
from volcano.kube.client import Event
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import HYPER_NODE, NODE
from volcano.kube.manifest import Key, is_deleting, key_of, labels_of
from volcano.kube.operations import Concurrent, Create, Delete, Operation, Patch
from volcano.log import Log
from volcano.nodes.pools import SimulatedNode
from volcano.nodes.topology import LABEL_PREFIX, SIMULATED, SOURCE_LABEL, Topology

log = Log("nodes")
START = "start"


class SimulatedTopology(Reconciler[str]):
    """Creates the HyperNodes of a topology once; those of an earlier start are updated, and deleted where the
    topology has changed. Labels of nodes from an earlier start are updated too."""

    name = "simulated-topology"

    def __init__(self, topology: Topology, nodes: Sequence[SimulatedNode]) -> None:
        """`nodes` as `topology` labels them."""
        super().__init__()
        self._wanted = {m["metadata"]["name"]: m for m in topology.hyper_nodes(nodes)}
        self._nodes = {node.name: node for node in nodes}
        self._is_done = False
        self.watches = (Watch(HYPER_NODE), Watch(NODE, labels=f"{names.SIMULATED}=true"))
        self.enqueue(START)

    def accepts(self, event: Event) -> bool:
        return not self._is_done

    def keys(self, event: Event) -> Iterable[str]:
        return (START,)

    def reconcile(self, key: str, now: Instant) -> Plan:
        if self._is_done:
            return NOTHING
        writes = (*self._hyper_nodes(), *self._labels())
        if writes:
            return Plan([Concurrent(writes)])
        self._is_done = True
        self.indexer.drop(NODE)
        return NOTHING

    def _hyper_nodes(self) -> Iterator[Operation]:
        known = {key_of(h).name: h for h in self.indexer.all(HYPER_NODE)}
        for name, wanted in self._wanted.items():
            found = known.get(name)
            if found is None:
                yield Create(HYPER_NODE, wanted, if_absent=True)
            elif labels_of(found).get(SOURCE_LABEL) == SIMULATED and found["spec"] != wanted["spec"]:
                yield Patch(HYPER_NODE, Key("", name), {"spec": wanted["spec"]})
        for name, found in known.items():
            is_ours = labels_of(found).get(SOURCE_LABEL) == SIMULATED
            if is_ours and name not in self._wanted and not is_deleting(found):
                yield Delete(HYPER_NODE, Key("", name), if_present=True)

    def _labels(self) -> Iterator[Operation]:
        for found in self.indexer.all(NODE):
            node = self._nodes.get(key_of(found).name)
            if node is None or is_deleting(found):
                continue
            present = {key: value for key, value in labels_of(found).items() if key.startswith(LABEL_PREFIX)}
            if present != dict(node.labels):
                change = {**dict.fromkeys(present), **node.labels}
                yield Patch(NODE, key_of(found), {"metadata": {"labels": change}}, if_present=True)
