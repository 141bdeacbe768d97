"""Placements that the API server has not confirmed yet, kept from one cycle to the next."""

from collections.abc import Mapping, Sequence

from volcano.kube.api import names
from volcano.kube.devices.numa.topology import NumaTopology
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task

# By pod uid: node and CPUs as text. As JSON, for snapshot files.
Remembered = Mapping[str, Sequence[str]]


def still_unconfirmed(snapshot: Snapshot, remembered: Remembered) -> dict[str, Sequence[str]]:
    """Remembered placements of pods that are on their node and neither listed by it nor annotated."""
    kept: dict[str, Sequence[str]] = {}
    for uid, placed in remembered.items():
        node = placed[0]
        row = snapshot.row_of.get(node)
        task = None if row is None else snapshot.tasks_on[row].get(uid)
        topology = snapshot.numa_topologies.get(node)
        if task is None or topology is None or names.NUMA_DECISION in task.annotations:
            continue
        if ListedCpus(topology).of(task) is None:
            kept[uid] = placed
    return kept


class ListedCpus:
    """CPUs of the pods that a node lists, by uid, or by name where the node does not know uids."""

    __slots__ = ("_by_name", "_by_uid")

    def __init__(self, topology: NumaTopology) -> None:
        self._by_uid = {pod.uid: pod.all_cpus for pod in topology.pods if pod.uid}
        self._by_name = {(pod.namespace, pod.name): pod.all_cpus for pod in topology.pods if not pod.uid}

    def of(self, task: Task) -> int | None:
        """CPUs of a pod; None when it is not listed."""
        found = self._by_uid.get(task.uid)
        return self._by_name.get((task.namespace, task.name)) if found is None else found
