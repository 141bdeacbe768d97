"""Queue hierarchy with allocated and deserved resources."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from volcano.kube.api.fields import at, number
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import ROOT_QUEUE
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


def queue_shares(queues: Sequence[Manifest], total: Amounts) -> list[QueueShare]:
    """Queues depth first, siblings ordered by name.

    A queue without an existing parent, or in a cycle, is at the top level.
    """
    by_name = {str(queue["metadata"]["name"]): queue for queue in queues}
    parents = {name: _parent(queue, by_name) for name, queue in by_name.items()}
    children: dict[str, list[str]] = defaultdict(list)
    for name in sorted(by_name):
        children[parents[name] if not _circular(name, parents) else ""].append(name)
    found: list[QueueShare] = []

    def visit(parent: str, path: tuple[str, ...], pool: Amounts) -> None:
        entitled = deserved([by_name[name] for name in children[parent]], pool)
        for name in children[parent]:
            due = dict(pool) if name == ROOT_QUEUE else entitled[name]
            found.append(_share(by_name[name], parent, (*path, name), due))
            visit(name, (*path, name), due)

    visit("", (), total)
    return found


def deserved(siblings: Sequence[Manifest], pool: Amounts) -> dict[str, dict[str, float]]:
    """Deserved resources of sibling queues out of a pool.

    `spec.deserved` is taken as it is; the rest is divided by weight among the other queues, at least their
    guarantee and at most their capability.
    """
    due: dict[str, dict[str, float]] = {queue["metadata"]["name"]: {} for queue in siblings}
    for resource, amount in pool.items():
        left, waiting = amount, []
        for queue in siblings:
            given = amounts(at(queue, "spec", "deserved"))
            if resource in given:
                due[queue["metadata"]["name"]][resource] = given[resource]
                left -= given[resource]
            else:
                waiting.append(queue)
        for queue, part in zip(waiting, _by_weight(waiting, resource, max(left, 0.0)), strict=True):
            due[queue["metadata"]["name"]][resource] = part
    return due


def _by_weight(queues: Sequence[Manifest], resource: str, amount: float) -> list[float]:
    """Divides an amount by weight within lower and upper bounds: queues at a bound are fixed, the rest is
    divided again."""
    weights = [max(number(queue, "spec", "weight"), 1) for queue in queues]
    floors = [amounts(at(queue, "spec", "guarantee", "resource")).get(resource, 0.0) for queue in queues]
    ceilings = [amounts(at(queue, "spec", "capability")).get(resource, float("inf")) for queue in queues]
    settled: dict[int, float] = {}
    while len(settled) < len(queues):
        open_ones = [i for i in range(len(queues)) if i not in settled]
        left = max(amount - sum(settled.values()), 0.0)
        whole = sum(weights[i] for i in open_ones)
        wished = {i: left * weights[i] / whole for i in open_ones}
        bounded = {i: max(min(wished[i], ceilings[i]), floors[i]) for i in open_ones}
        excess = sum(bounded.values()) - left
        # If too much was assigned, queues raised to their lower bound are fixed; if too little, those at
        # their upper bound.
        if excess > 0:
            settled |= {i: bounded[i] for i in open_ones if bounded[i] > wished[i]}
        elif excess < 0:
            settled |= {i: bounded[i] for i in open_ones if bounded[i] < wished[i]}
        if not excess or len(settled) == len(queues) - len(open_ones):
            settled |= {i: bounded[i] for i in open_ones if i not in settled}
    return [settled[i] for i in range(len(queues))]


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
