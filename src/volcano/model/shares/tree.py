"""The tree of queues: parents and children, capabilities and guarantees."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.queue import Queue
from volcano.model.resources import CPU, MEMORY, ResourceIndex, Vector


@dataclass(frozen=True, slots=True)
class QueueTree:
    """Parents and children by name. The root exists whether or not there is a queue of that name."""

    queues: Mapping[str, Queue]
    parent: Mapping[str, str]
    children: Mapping[str, Sequence[str]]
    problems: tuple[str, ...] = ()  # invalid parents; the queues concerned are children of the root
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def path(self, name: str) -> tuple[str, ...]:
        """Returns the queue and its ancestors, nearest first, without the root; empty for the root itself."""
        found = self._paths.get(name)
        if found is None:
            found = (name, *self.path(self.parent[name])) if name in self.parent else ()
            self._paths[name] = found
        return found

    def is_leaf(self, name: str) -> bool:
        return not self.children.get(name)

    def top_down(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Iterates over all parents with their children, parents before grandchildren."""
        pending = [ROOT_QUEUE]
        while pending:
            name = pending.pop()
            below = self.children.get(name, ())
            if below:
                yield name, below
                pending.extend(below)


def build_tree(queues: Mapping[str, Queue], *, flat: bool = False) -> QueueTree:
    """Builds the tree from the queues' `parent` fields; in a flat one all are children of the root."""
    parent: dict[str, str] = {}
    problems: list[str] = []
    for name, queue in queues.items():
        if name == ROOT_QUEUE:
            continue
        above = ROOT_QUEUE if flat else queue.parent or ROOT_QUEUE
        if above != ROOT_QUEUE and above not in queues:
            problems.append(f"the parent {above!r} of queue {name!r} does not exist")
            above = ROOT_QUEUE
        parent[name] = above
    for name in sorted(parent):
        if _in_cycle(name, parent):
            problems.append(f"queue {name!r} is its own ancestor")
            parent[name] = ROOT_QUEUE
    children: dict[str, list[str]] = {}
    for name in sorted(parent):
        children.setdefault(parent[name], []).append(name)
    return QueueTree(queues, parent, children, tuple(problems))


def _in_cycle(name: str, parent: Mapping[str, str]) -> bool:
    seen, at = {name}, parent[name]
    while at != ROOT_QUEUE:
        if at in seen:
            return at == name
        seen.add(at)
        at = parent[at]
    return False


def capability(queue: Queue | None, resources: ResourceIndex, inherited: Vector | None = None) -> Vector:
    """Returns the hard limit of a queue; resources it does not name are unlimited, or limited as `inherited`.

    A limit of 0 cpu or memory counts as unlimited.
    """
    limit = resources.vector(queue.capability if queue else None, missing=np.inf)
    for column in (CPU, MEMORY):
        if limit[column] <= 0:
            limit[column] = np.inf
    return limit if inherited is None else np.where(np.isinf(limit), inherited, limit)


def guarantees(tree: QueueTree, resources: ResourceIndex) -> dict[str, Vector]:
    """Returns the guarantee of each queue: its own, or the sum of its children's where that is more."""
    guaranteed = {name: resources.vector(tree.queues[name].guarantee) for name in tree.parent}
    for parent, below in reversed(list(tree.top_down())):
        if parent != ROOT_QUEUE:
            together = np.sum([guaranteed[child] for child in below], axis=0)
            guaranteed[parent] = np.maximum(guaranteed[parent], together)
    return guaranteed


def real_capabilities(
    tree: QueueTree, resources: ResourceIndex, total: Vector, guaranteed: Mapping[str, Vector]
) -> dict[str, Vector]:
    """Returns the upper limit of each queue: its parent's without the siblings' guarantees, within its capability.

    The limit of the root is the whole cluster, or the root queue's capability.
    """
    limits = {ROOT_QUEUE: np.minimum(total, capability(tree.queues.get(ROOT_QUEUE), resources))}
    for parent, below in tree.top_down():
        together = np.sum([guaranteed[child] for child in below], axis=0)
        unguaranteed = np.maximum(limits[parent] - together, 0.0)
        for child in below:
            limits[child] = np.minimum(
                unguaranteed + guaranteed[child], capability(tree.queues[child], resources)
            )
    return limits
