"""Queue hierarchy with allocated and deserved resources."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from volcano.kube.api.fields import at, number
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.queue import Queue
from volcano.model.resources import ResourceIndex
from volcano.model.shares.declared import deserved_amounts
from volcano.views.amounts import Amounts, amounts


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
        parts = [self.allocated.get(name, 0.0) / amount for name, amount in total.items() if amount > 0]
        return max(parts, default=0.0)


def queue_shares(
    queues: Sequence[Manifest], total: Amounts, requested: Mapping[str, Amounts] | None = None
) -> list[QueueShare]:
    """Queues depth first, siblings ordered by name.

    A queue without an existing parent, or in a cycle, is at the top level. `total` is what the scheduler divides among
    the queues; None as `requested`: not known, every queue may request all.
    """
    by_name = {str(queue["metadata"]["name"]): queue for queue in queues}
    parents = {name: _parent(queue, by_name) for name, queue in by_name.items()}
    children: dict[str, list[str]] = defaultdict(list)
    for name in sorted(by_name):
        children[parents[name] if not _circular(name, parents) else ""].append(name)
    deserved = _deserved(by_name, total, requested)
    found: list[QueueShare] = []

    def visit(parent: str, path: tuple[str, ...]) -> None:
        for name in children[parent]:
            found.append(_share(by_name[name], parent, (*path, name), deserved.get(name, {})))
            visit(name, (*path, name))

    visit("", ())
    return found


def _deserved(
    queues: Mapping[str, Manifest], total: Amounts, requested: Mapping[str, Amounts] | None
) -> dict[str, dict[str, float]]:
    """What queues deserve of the resources of the cluster, as the scheduler computes it."""
    parsed = {name: _parsed(name, queue) for name, queue in queues.items()}
    index = ResourceIndex().extended(total)
    pool = index.vector(total)
    parents = {queue.parent for queue in parsed.values()}
    if requested is None:
        wanted = {name: pool for name in parsed if name not in parents}
    else:
        wanted = {name: index.vector(requested.get(name)) for name in parsed}
    shares = deserved_amounts(parsed, index, wanted, pool)
    return {
        name: {resource: float(amounts[index.column[resource]]) for resource in total}
        for name, amounts in shares.items()
    }


def _parsed(name: str, queue: Manifest) -> Queue:
    spec = queue.get("spec") or {}
    return Queue(
        name,
        weight=max(number(spec, "weight"), 1),
        parent=str(at(spec, "parent", default="")),
        capability=amounts(spec.get("capability")),
        deserved=amounts(spec.get("deserved")),
        guarantee=amounts(at(spec, "guarantee", "resource")),
    )


def _parent(queue: Manifest, known: Mapping[str, Manifest]) -> str:
    name = str(queue["metadata"]["name"])
    parent = str(at(queue, "spec", "parent", default="")) or (ROOT_QUEUE if name != ROOT_QUEUE else "")
    return parent if parent in known and parent != name else ""


def _circular(name: str, parents: Mapping[str, str]) -> bool:
    """Whether a queue is its own ancestor."""
    seen, above = {name}, parents[name]
    while above:
        if above in seen:
            return True
        seen.add(above)
        above = parents[above]
    return False


def _share(queue: Manifest, parent: str, path: tuple[str, ...], due: Mapping[str, float]) -> QueueShare:
    allocated = amounts(at(queue, "status", "allocated"))
    given = amounts(at(queue, "spec", "deserved"))
    return QueueShare(
        name=path[-1],
        parent=parent,
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
