"""Which pods a drain evicts from a node, and which it leaves, as `kubectl drain` decides."""

from collections.abc import Iterable
from dataclasses import dataclass

from volcano.apiserver.endpoints.tables.cells import at, items
from volcano.cli.top.board import ENDED
from volcano.cli.topology.usage import job_of
from volcano.kube.api.manifest import Key, Manifest, annotations_of, controller_of, key_of

MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What a drain would do to the pods of a node."""

    evicted: tuple[Key, ...]
    daemon: tuple[Key, ...]  # of DaemonSets and static pods: left, since they would come back at once
    unmanaged: tuple[Key, ...]  # without a controller: nothing creates them again
    local_data: tuple[Key, ...]  # with emptyDir volumes, whose contents are lost
    jobs: tuple[str, ...]  # jobs and PodGroups of the evicted pods

    @property
    def is_lossy(self) -> bool:
        """Whether pods or data are lost for good."""
        return bool(self.unmanaged or self.local_data)

    def question(self, node: str) -> str:
        """What the viewer is asked, in sentences."""
        if not self.evicted:
            return f"Cordon node {node}? It has no pods to evict.{self._left()}"
        pods = _count(len(self.evicted), "pod")
        text = f"Cordon node {node} and evict {pods}"
        text += f" of {_count(len(self.jobs), 'job')}: {_listed(self.jobs)}?" if self.jobs else "?"
        text += " PodDisruptionBudgets are respected: an eviction that one forbids is tried again."
        if self.unmanaged:
            text += f" No controller creates these pods again: {_listed(map(str, self.unmanaged))}."
        if self.local_data:
            text += f" The emptyDir volumes of these pods are lost: {_listed(map(str, self.local_data))}."
        return text + self._left()

    def _left(self) -> str:
        return (
            f" {_count(len(self.daemon), 'pod')} of DaemonSets or the node itself stay."
            if self.daemon
            else ""
        )


def plan_drain(pods: Iterable[Manifest]) -> DrainPlan:
    """Plan for all pods of a node. Ended pods are evicted too: their objects go."""
    found = list(pods)
    evicted = [pod for pod in found if not _stays(pod)]
    active = [pod for pod in evicted if at(pod, "status", "phase") not in ENDED]
    return DrainPlan(
        evicted=_keys(evicted),
        daemon=_keys(pod for pod in found if _stays(pod)),
        unmanaged=_keys(pod for pod in active if controller_of(pod) is None),
        local_data=_keys(
            pod for pod in active if any("emptyDir" in volume for volume in items(pod, "spec", "volumes"))
        ),
        jobs=tuple(sorted({job for pod in active if (job := job_of(pod))})),
    )


def _stays(pod: Manifest) -> bool:
    owner = controller_of(pod)
    return MIRROR in annotations_of(pod) or (owner is not None and owner.get("kind") == "DaemonSet")


def _keys(pods: Iterable[Manifest]) -> tuple[Key, ...]:
    return tuple(sorted(map(key_of, pods)))


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


def _listed(names: Iterable[str], most: int = 5) -> str:
    found = list(names)
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + rest
