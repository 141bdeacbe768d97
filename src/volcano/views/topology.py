"""Room, usage and jobs of each domain of the topology tree, as plain values."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from volcano.kube.api.fields import at
from volcano.kube.api.manifest import Manifest, annotations_of, has_ended, key_of, labels_of
from volcano.kube.api.names import ALLOCATED_HYPERNODE, GROUP_NAME
from volcano.model.hypernodes.tree import ROOT, Domain, HyperNodeTree, TreeProblem
from volcano.model.parse_auxiliary import hyper_node
from volcano.views.amounts import Amounts, amounts
from volcano.views.nodes import numbered, serves
from volcano.views.pods import job_of, occupies, pod_requests

GPU = "nvidia.com/gpu"
UNGROUPED = "(in no HyperNode)"
CLUSTER = "cluster"
# Quantities are decimal fractions: a request of 0.1 fits ten times into 1.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """A node with what it has and what its pods request; one that takes no pods has no room."""

    name: str
    usable: bool
    allocatable: Amounts
    used: Amounts
    jobs: tuple[str, ...] = ()

    def free(self, resource: str) -> float:
        return max(self.allocatable.get(resource, 0.0) - self.used.get(resource, 0.0), 0.0)

    def room(self, pod: Amounts) -> int:
        """How many pods of a size the node has room for."""
        if not self.usable:
            return 0
        wanted = {"pods": 1.0, **{name: amount for name, amount in pod.items() if amount > 0}}
        return int(min(self.free(name) / amount + TOLERANCE for name, amount in wanted.items()))


@dataclass(frozen=True, slots=True)
class DomainUsage:
    """A row of the tree: a domain, the cluster, the nodes in no HyperNode, or a node."""

    name: str
    tier: str  # such as `1 rack`; empty for the cluster and nodes
    nodes: Sequence[NodeUsage]
    resource: str
    gang: int  # the largest gang that fits now
    holders: tuple[str, ...] = ()
    problem: TreeProblem | None = None
    children: tuple["DomainUsage", ...] = field(default=())

    @property
    def usable(self) -> int:
        return sum(node.usable for node in self.nodes)

    @property
    def used(self) -> float:
        return sum(node.used.get(self.resource, 0.0) for node in self.nodes)

    @property
    def free(self) -> float:
        """Free on nodes that take pods."""
        return sum(node.free(self.resource) for node in self.nodes if node.usable)


@dataclass(frozen=True, slots=True)
class TopologyUsage:
    """The whole tree, for pods of a size."""

    root: DomainUsage
    resource: str
    pod: Amounts
    problems: Mapping[str, TreeProblem]


def node_usages(nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> dict[str, NodeUsage]:
    """Usage by node, without nodes of the control plane."""
    used: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    jobs: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        if not occupies(pod):
            continue
        node = pod["spec"]["nodeName"]
        used[node]["pods"] += 1
        for name, amount in pod_requests(pod).items():
            used[node][name] += amount
        if job := job_of(pod):
            jobs[node].add(job)
    return {
        name: NodeUsage(
            name,
            serves(node) and not at(node, "spec", "unschedulable", default=False),
            amounts(at(node, "status", "allocatable")),
            used.get(name, {}),
            tuple(sorted(jobs.get(name, ()))),
        )
        for node in nodes
        if (name := key_of(node).name) and not _is_control_plane(node)
    }


def _is_control_plane(node: Manifest) -> bool:
    return any(label.startswith("node-role.kubernetes.io/control-plane") for label in labels_of(node))


def default_resource(nodes: Iterable[NodeUsage]) -> str:
    """GPUs where there are any, otherwise CPUs."""
    return GPU if any(node.allocatable.get(GPU) for node in nodes) else "cpu"


def topology_usage(
    hyper_nodes: Iterable[Manifest],
    nodes: Sequence[Manifest],
    pods: Sequence[Manifest],
    groups: Iterable[Manifest],
    *,
    resource: str = "",
    pod: Amounts | None = None,
) -> TopologyUsage:
    """The tree with its usage. `pod` is the size of the pods of the largest gang; one of the resource by default."""
    usages = node_usages(nodes, pods)
    chosen = resource or next(iter(pod or ()), "") or default_resource(usages.values())
    size = pod or {chosen: 1.0}
    labels = {key_of(node).name: labels_of(node) for node in nodes if key_of(node).name in usages}
    tree = HyperNodeTree.build(map(hyper_node, hyper_nodes), labels)
    holders = _holders(tree, usages, pods, groups)
    maker = _Maker(tree, usages, chosen, size, holders)
    return TopologyUsage(maker.domain(tree.root), chosen, size, tree.problems)


@dataclass(frozen=True, slots=True)
class _Maker:
    tree: HyperNodeTree
    usages: Mapping[str, NodeUsage]
    resource: str
    pod: Amounts
    holders: Mapping[str, tuple[str, ...]]

    def domain(self, domain: Domain) -> DomainUsage:
        below = [self.tree.domains[name] for name in domain.children]
        children = [self.domain(child) for child in sorted(below, key=lambda child: numbered(child.name))]
        is_root = domain.name == ROOT
        if is_root and below:
            grouped = frozenset[str]().union(*(child.nodes for child in below))
            if rest := domain.nodes - grouped:
                children.append(self._row(UNGROUPED, "", rest))
        tier = "" if is_root else f"{domain.tier} {domain.tier_name}".strip()
        return self._row(
            CLUSTER if is_root else domain.name,
            tier,
            domain.nodes,
            holders=self.holders.get(domain.name, ()),
            problem=self.tree.problems.get(domain.name),
            children=tuple(children),
        )

    def _row(
        self,
        name: str,
        tier: str,
        nodes: Iterable[str],
        *,
        holders: tuple[str, ...] = (),
        problem: TreeProblem | None = None,
        children: tuple[DomainUsage, ...] = (),
    ) -> DomainUsage:
        found = [self.usages[node] for node in sorted(nodes, key=numbered)]
        gang = sum(node.room(self.pod) for node in found)
        return DomainUsage(name, tier, found, self.resource, gang, holders, problem, children)


def node_row(node: NodeUsage, resource: str, pod: Amounts) -> DomainUsage:
    """A node as a row of its own."""
    return DomainUsage(node.name, "", (node,), resource, node.room(pod), node.jobs)


def _holders(
    tree: HyperNodeTree,
    usages: Mapping[str, NodeUsage],
    pods: Iterable[Manifest],
    groups: Iterable[Manifest],
) -> dict[str, tuple[str, ...]]:
    """Jobs by the domain they hold: the one that the scheduler recorded, otherwise the lowest around their pods."""
    recorded = {
        f"{key.namespace}/{key.name}": annotations_of(group).get(ALLOCATED_HYPERNODE, "")
        for group in groups
        for key in [key_of(group)]
    }
    around: dict[str, str] = {}
    for pod in pods:
        node, job = at(pod, "spec", "nodeName", default=""), job_of(pod)
        if node not in usages or not job or has_ended(pod):
            continue
        group = f"{key_of(pod).namespace}/{annotations_of(pod).get(GROUP_NAME, '')}"
        known = recorded.get(group, "")
        domain = known if tree.get(known) is not None else tree.lowest(node).name
        around[job] = tree.common(around[job], domain).name if job in around else domain
    found: dict[str, list[str]] = defaultdict(list)
    for job, domain in around.items():
        found[domain].append(job)
    return {domain: tuple(sorted(jobs)) for domain, jobs in found.items()}


def rows(usage: DomainUsage, *, with_nodes: bool, pod: Amounts) -> Iterator[tuple[str, DomainUsage]]:
    """Rows from the top with the lines that connect them."""
    yield "", usage
    yield from _rows_below(usage, "", with_nodes=with_nodes, pod=pod)


def _rows_below(
    usage: DomainUsage, rails: str, *, with_nodes: bool, pod: Amounts
) -> Iterator[tuple[str, DomainUsage]]:
    below = list(usage.children)
    if with_nodes:
        inner = {node.name for child in below for node in child.nodes}
        below += [node_row(node, usage.resource, pod) for node in usage.nodes if node.name not in inner]
        if len(usage.nodes) == 1 and usage.nodes[0].name == usage.name:
            return  # a node
    for index, child in enumerate(below):
        is_last = index == len(below) - 1
        yield rails + ("└─ " if is_last else "├─ "), child
        yield from _rows_below(child, rails + ("   " if is_last else "│  "), with_nodes=with_nodes, pod=pod)
