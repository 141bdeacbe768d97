"""Queues as a tree: who belongs to whom, what each may have at most, and what each is promised at least."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from volcano.kube.names import ROOT_QUEUE
from volcano.model.queue import Queue
from volcano.model.resources import CPU, MEMORY, ResourceIndex, Vector


@dataclass(frozen=True, slots=True)
class QueueTree:
    """Parents and children by name; the root is there whether or not a queue of that name exists."""

    queues: Mapping[str, Queue]
    parent: Mapping[str, str]
    children: Mapping[str, Sequence[str]]
    problems: tuple[str, ...] = ()  # what is wrong with the parents; the queues concerned hang under the root
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def path(self, name: str) -> tuple[str, ...]:
        """The queue and its ancestors, nearest first, without the root; empty for the root itself."""
        found = self._paths.get(name)
        if found is None:
            found = (name, *self.path(self.parent[name])) if name in self.parent else ()
            self._paths[name] = found
        return found

    def leaf(self, name: str) -> bool:
        return not self.children.get(name)

    def downwards(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Every parent with its children, parents before grandchildren."""
        pending = [ROOT_QUEUE]
        while pending:
            name = pending.pop()
            below = self.children.get(name, ())
            if below:
                yield name, below
                pending.extend(below)


def plant(queues: Mapping[str, Queue], *, flat: bool = False) -> QueueTree:
    """The tree that the queues' `parent` fields describe; a flat one hangs them all under the root."""
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
        if _goes_round(name, parent):
            problems.append(f"queue {name!r} is its own ancestor")
            parent[name] = ROOT_QUEUE
    children: dict[str, list[str]] = {}
    for name in sorted(parent):
        children.setdefault(parent[name], []).append(name)
    return QueueTree(queues, parent, children, tuple(problems))


def _goes_round(name: str, parent: Mapping[str, str]) -> bool:
    seen, at = {name}, parent[name]
    while at != ROOT_QUEUE:
        if at in seen:
            return at == name
        seen.add(at)
        at = parent[at]
    return False


def capability(queue: Queue | None, resources: ResourceIndex, inherited: Vector | None = None) -> Vector:
    """The hard limit of a queue; what it does not name is unlimited, or as its parent has it. No cpu means any cpu."""
    limit = resources.vector(queue.capability if queue else None, missing=np.inf)
    for column in (CPU, MEMORY):
        if limit[column] <= 0:
            limit[column] = np.inf
    return limit if inherited is None else np.where(np.isinf(limit), inherited, limit)


def guarantees(tree: QueueTree, resources: ResourceIndex) -> dict[str, Vector]:
    """What every queue is promised: its own guarantee, or its children's together where that is more."""
    promised = {name: resources.vector(tree.queues[name].guarantee) for name in tree.parent}
    for parent, below in reversed(list(tree.downwards())):
        if parent != ROOT_QUEUE:
            together = np.sum([promised[child] for child in below], axis=0)
            promised[parent] = np.maximum(promised[parent], together)
    return promised


def real_capabilities(
    tree: QueueTree, resources: ResourceIndex, total: Vector, promised: Mapping[str, Vector]
) -> dict[str, Vector]:
    """What every queue may have at most: what its parent may, less its siblings' promises, within its capability.

    Under the root, "what the parent may" is the whole cluster, or the root queue's capability.
    """
    limits = {ROOT_QUEUE: np.minimum(total, capability(tree.queues.get(ROOT_QUEUE), resources))}
    for parent, below in tree.downwards():
        together = np.sum([promised[child] for child in below], axis=0)
        unpromised = np.maximum(limits[parent] - together, 0.0)
        for child in below:
            limits[child] = np.minimum(
                unpromised + promised[child], capability(tree.queues[child], resources)
            )
    return limits
