"""Queue hierarchy with allocated and deserved resources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from volcano.kube.api.fields import at, number
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.queue import Queue
from volcano.model.resources import ResourceIndex
from volcano.model.shares.declared import deserved_amounts
from volcano.model.shares.tree import QueueTree, build_tree
from volcano.views.amounts import Amounts, amounts, largest_part


@dataclass(frozen=True, slots=True)
class QueueShare:
    """One queue in the hierarchy, with the resources of itself and its descendants."""

    name: str
    parent: str
    depth: int
    state: str
    weight: int
    allocated: Amounts
    guarantee: Amounts
    deserved: Amounts
    capability: Amounts
    computed: frozenset[str] = frozenset()  # resources whose deserved amount is computed from weights
    pods: int = 0
    path: tuple[str, ...] = field(default=())  # names from the root to this queue

    def share(self, total: Amounts) -> float:
        """Dominant share: largest fraction of any cluster resource allocated to the queue."""
        return largest_part(self.allocated, total)


def queue_shares(
    queues: Sequence[Manifest], total: Amounts, requested: Mapping[str, Amounts] | None = None
) -> list[QueueShare]:
    """Queues depth first, siblings ordered by name.

    `total` is what the scheduler divides among the queues; None as `requested`: not known, every queue may request all.
    """
    by_name = {str(queue["metadata"]["name"]): queue for queue in queues}
    tree = build_tree({name: _parsed(name, queue) for name, queue in by_name.items()})
    deserved = _deserved(tree, total, requested)
    found: list[QueueShare] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in by_name:
            found.append(_share(by_name[name], (*path, name), deserved.get(name, {})))
            path = (*path, name)
        for below in tree.children.get(name, ()):
            visit(below, path)

    visit(ROOT_QUEUE, ())
    return found


def _deserved(
    tree: QueueTree, total: Amounts, requested: Mapping[str, Amounts] | None
) -> dict[str, dict[str, float]]:
    """What queues deserve of the resources of the cluster, as the scheduler computes it."""
    index = ResourceIndex().extended(total)
    pool = index.vector(total)
    if requested is None:
        wanted = {name: pool for name in tree.parent if tree.is_leaf(name)}
    else:
        wanted = {name: index.vector(requested.get(name)) for name in tree.parent}
    return {
        name: {resource: float(amounts[index.column[resource]]) for resource in total}
        for name, amounts in deserved_amounts(tree, index, wanted, pool).items()
    }


def _parsed(name: str, queue: Manifest) -> Queue:
    spec = queue.get("spec") or {}
    return Queue(
        name,
        weight=at(spec, "weight", default=1),
        parent=str(at(spec, "parent", default="")),
        capability=amounts(spec.get("capability")),
        deserved=amounts(spec.get("deserved")),
        guarantee=amounts(at(spec, "guarantee", "resource")),
    )


def _share(queue: Manifest, path: tuple[str, ...], due: Mapping[str, float]) -> QueueShare:
    allocated = amounts(at(queue, "status", "allocated"))
    given = amounts(at(queue, "spec", "deserved"))
    return QueueShare(
        name=path[-1],
        parent=path[-2] if len(path) > 1 else "",
        depth=len(path) - 1,
        state=str(at(queue, "status", "state", default="") or "Open"),
        weight=max(number(queue, "spec", "weight"), 1),
        allocated={name: amount for name, amount in allocated.items() if name != "pods"},
        guarantee=amounts(at(queue, "spec", "guarantee", "resource")),
        deserved={**given, **due},
        capability=amounts(at(queue, "spec", "capability")),
        computed=frozenset(due) - frozenset(given),
        pods=int(allocated.get("pods", 0)),
        path=path,
    )


def queue_data(queue: QueueShare, total: Amounts) -> Manifest:
    """Queue as plain data."""
    return {
        "name": queue.name,
        "parent": queue.parent,
        "state": queue.state,
        "weight": queue.weight,
        "share": round(queue.share(total), 4),
        "allocated": dict(queue.allocated),
        "guarantee": dict(queue.guarantee),
        "deserved": dict(queue.deserved),
        "capability": dict(queue.capability),
    }
