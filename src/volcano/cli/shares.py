"""Queue hierarchy with allocated and deserved resources, as plain values."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from volcano.apiserver.endpoints.tables.cells import at, is_true, items, number
from volcano.cli.printing.tables import Column
from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import DEFAULT_QUEUE, ROOT_QUEUE

# Amounts in whole units: cores, bytes, devices.
Amounts = Mapping[str, float]

FIRST = ("cpu", "memory")
# Present on every node and not worth a column; huge pages are only where some were reserved.
UNINTERESTING = ("pods", "ephemeral-storage", "attachable-volumes")
HUGE_PAGES = "hugepages-"
CLOSED_TO_ALL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


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


def amounts(listed: object) -> dict[str, float]:
    """Resource list as numbers; invalid quantities are skipped."""
    found: dict[str, float] = {}
    for name, value in listed.items() if isinstance(listed, Mapping) else ():
        try:
            found[str(name)] = float(quantity.parse(value))
        except (ValueError, TypeError):
            continue
    return found


def cluster_total(nodes: Iterable[Manifest]) -> dict[str, float]:
    """Allocatable resources of all ready nodes that accept ordinary pods."""
    total: dict[str, float] = defaultdict(float)
    for node in nodes:
        if serves(node):
            for name, amount in amounts(at(node, "status", "allocatable")).items():
                total[name] += amount
    return {
        name: amount
        for name, amount in total.items()
        if name not in UNINTERESTING and (amount > 0 or not name.startswith(HUGE_PAGES))
    }


def serves(node: Manifest) -> bool:
    """Whether a node is ready and not part of the control plane."""
    reserved = any(taint.get("key") in CLOSED_TO_ALL for taint in items(node, "spec", "taints"))
    return is_true(node, "Ready") and not reserved


def resource_names(total: Amounts) -> list[str]:
    """Resources with a column: cpu, memory, then devices of any node."""
    devices = sorted(name for name, amount in total.items() if amount > 0 and name not in FIRST)
    return [*FIRST, *devices]


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


def queue_of(manifest: Manifest) -> str:
    """Queue of a job or PodGroup."""
    return str(at(manifest, "spec", "queue", default="") or DEFAULT_QUEUE)


def shown(resource: str, amount: float) -> str:
    """Amount for people: at most three digits and a suitable unit, such as 2.5, 80Gi or 512Mi."""
    if resource == "memory" or resource.endswith("storage") or resource.startswith("hugepages"):
        for suffix, size in (("Ti", 2.0**40), ("Gi", 2.0**30), ("Mi", 2.0**20), ("Ki", 2.0**10)):
            if amount >= size:
                return f"{_figures(amount / size)}{suffix}"
        return _figures(amount)
    return f"{_figures(amount / 1000)}k" if amount >= 10_000 else _figures(amount)


def quantity_shown(resource: str, text: str) -> str:
    """As `shown`, for a quantity: 85.3Gi for 91625968981. Other texts, such as `none` of a limit, stay as they are."""
    try:
        return shown(resource, float(quantity.parse(text)))
    except ValueError:
        return text


def _figures(amount: float) -> str:
    return f"{amount:.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.1f}".removesuffix(".0")


def short_name(resource: str) -> str:
    """Resource name without its domain: `nvidia.com/gpu` is `gpu`."""
    return resource.rpartition("/")[2]


def amount_columns(total: Amounts) -> list[Column]:
    """Columns with allocated and deserved amounts per resource."""

    def column(resource: str) -> Column:
        def value(queue: QueueShare) -> str:
            held = shown(resource, queue.allocated.get(resource, 0.0))
            return (
                f"{held}/{shown(resource, queue.deserved[resource])}" if resource in queue.deserved else held
            )

        return Column(f"{short_name(resource)}/deserved", value)

    return [column(resource) for resource in resource_names(total)]


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
