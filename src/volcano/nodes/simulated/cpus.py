"""CPUs of simulated nodes with NUMA nodes, and the Numatopologies that publish them."""

from collections.abc import Callable, Collection, Iterable

from volcano.base.clock import Instant
from volcano.kube.api.manifest import Manifest, version_of
from volcano.kube.client.operations import Create, Patch
from volcano.kube.client.protocol import EventType
from volcano.kube.devices.numa.layout import Cpu, CpuLayout, layout_of
from volcano.kube.devices.numa.topology import NumaTopology, parse
from volcano.nodes.cpu_manager import CpuManager
from volcano.nodes.kubelet.pods.lifecycle import PodFailure
from volcano.nodes.numatopology import write
from volcano.nodes.pools import NumaPool, SimulatedNode


class SimulatedCpus:
    """CPU managers of the nodes that have NUMA nodes. After a restart, pods keep the CPUs that were published."""

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._managers = {
            node.name: CpuManager(
                node.name, layout(node.pool.numa), node.pool.numa.cpu_manager, node.pool.numa.policy
            )
            for node in nodes
            if node.pool.numa is not None
        }
        self._published: dict[str, NumaTopology] = {}
        self._restored: set[str] = set()  # nodes whose published pods were taken over
        self._checked: set[str] = set()  # nodes without CPUs of pods that are gone

    def __bool__(self) -> bool:
        return bool(self._managers)

    def __contains__(self, node: str) -> bool:
        return node in self._managers

    def on_topology_event(self, event_type: EventType, manifest: Manifest) -> str:
        """Takes over what is published; returns the node whose Numatopology is not as it should be, or ""."""
        name: str = manifest["metadata"]["name"]
        manager = self._managers.get(name)
        if manager is None:
            return ""
        if event_type is EventType.DELETED:
            self._published.pop(name, None)
            return name
        known = self._published.get(name)
        if known is not None and version_of(manifest) < int(known.resource_version or 0):
            return ""  # an event from before the last write
        try:
            found = self._published[name] = parse(manifest)
        except (ValueError, TypeError, AttributeError):
            return ""  # edited by hand; overwritten with the next change
        if name not in self._restored:
            self._restored.add(name)
            for pod in found.pods:
                if not pod.all_cpus & ~manager.shared:
                    manager.restore(pod)
        return name if found != manager.topology() else ""

    def admit(self, node: str, pod: Manifest) -> PodFailure | None:
        """Gives a pod its CPUs, or returns why the node rejects it."""
        manager = self._managers.get(node)
        rejection = manager.admit(pod) if manager is not None else None
        return None if rejection is None else PodFailure(*rejection)

    def release(self, node: str, uid: str) -> bool:
        """Frees the CPUs of a pod; returns whether it had any."""
        manager = self._managers.get(node)
        return manager is not None and manager.release(uid)

    def write(
        self, node: Manifest, pods: Callable[[], Collection[str]], now: Instant
    ) -> Create | Patch | None:
        """The write that publishes the CPUs of a node. `pods` returns the uids of the pods that are left on it: others
        may have ended before this process was started."""
        name = node["metadata"]["name"]
        manager = self._managers[name]
        if name not in self._checked:
            self._checked.add(name)
            self._restored.add(name)
            manager.release_others(pods())
        return write(manager.topology(), self._published.get(name), node, now)

    def forget_published(self, node: str) -> None:
        """Called when a Numatopology was found to be missing."""
        self._published.pop(node, None)


def layout(numa: NumaPool) -> CpuLayout:
    """One socket per NUMA node, with equal numbers of CPUs; the first ones have one more if that is not possible."""
    size, more = divmod(numa.cpus, numa.nodes)
    sizes = [size + (number < more) for number in range(numa.nodes)]
    located = [(number, core) for number, size in enumerate(sizes) for core in range(size)]
    return layout_of({cpu: Cpu(number, number, core) for cpu, (number, core) in enumerate(located)})
