"""HyperNode controller: writes the status of every HyperNode, and discovers HyperNodes."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from volcano.clock import Instant
from volcano.controllers.events import record_event
from volcano.controllers.hypernode.configuration import LABEL_SOURCE, SOURCES
from volcano.controllers.hypernode.discovery import DiscoveryPlanner, Poll
from volcano.kube.client import Event, EventType
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch, WorkResult
from volcano.kube.kinds import CONFIG_MAP, HYPER_NODE, NODE
from volcano.kube.manifest import Key, Manifest, condition_of, is_deleting, key_of, labels_of, uid_of
from volcano.kube.names import SYSTEM_NAMESPACE
from volcano.kube.operations import Operation, Patch
from volcano.model.hypernodes.hypernode import HyperNode
from volcano.model.hypernodes.tree import HyperNodeTree, TreeProblem
from volcano.model.parse_auxiliary import hyper_node as parse_hyper_node

READY = "Ready"
# Trees and results of the label source are computed less often in large clusters: nodes times HyperNodes, and nodes,
# for which the next one waits a second. Small clusters do not wait.
PAIRS_PER_SECOND = 2_000_000
NODES_PER_SECOND = 10_000
SHORTEST_DELAY = 0.1
LONGEST_DELAY = 5.0


class StatusKey(NamedTuple):
    """Status of a HyperNode."""

    name: str


class SourceKey(NamedTuple):
    """HyperNodes of a source of discovery."""

    source: str


TREE = "tree"  # compares the status of all HyperNodes with the tree
CONFIGURATION = "configuration"  # reports what is wrong with the configuration


class HyperNodeController(Reconciler[StatusKey | SourceKey | str]):
    """Writes `status.nodeCount` and the condition Ready, and keeps the HyperNodes of every source up to date."""

    name = "hyperNode-controller"

    def __init__(
        self, random_suffix: Callable[[], str], *, namespace: str = SYSTEM_NAMESPACE, release: str = "volcano"
    ) -> None:
        super().__init__()
        config_key = Key(namespace, f"{release}-controller-configmap")
        self._discovery = DiscoveryPlanner(self.indexer, config_key, random_suffix)
        self._tree: HyperNodeTree | None = None
        self._concerns_sources = True  # the event that is applied
        self._due: dict[Hashable, float] = {}  # when an expensive key may be reconciled again
        self._unparsed: dict[str, TreeProblem] = {}
        self.watches = (
            Watch(HYPER_NODE),
            Watch(NODE),
            Watch(CONFIG_MAP, namespace=namespace, fields=f"metadata.name={config_key.name}"),
        )

    def accepts(self, event: Event) -> bool:
        if event.kind == CONFIG_MAP:
            return True
        known = self.indexer.get(event.kind, key_of(event.object))
        if event.type is EventType.DELETED or known is None or uid_of(known) != uid_of(event.object):
            self._tree, self._concerns_sources = None, True
            return True
        if event.kind == HYPER_NODE:
            is_same_spec = known.get("spec") == event.object.get("spec")
            self._tree = self._tree if is_same_spec else None
            # Status writes, also own ones, concern no source.
            self._concerns_sources = not is_same_spec or labels_of(known) != labels_of(event.object)
            return True
        if labels_of(known) == labels_of(event.object):
            return False  # heartbeats are irrelevant here
        self._tree = None
        return True

    def keys(self, event: Event) -> Iterable[StatusKey | SourceKey | str]:
        sources = tuple(SourceKey(source) for source in SOURCES)
        if event.kind == HYPER_NODE:
            status = StatusKey(key_of(event.object).name)
            return (status, TREE, *sources) if self._concerns_sources else (status,)
        if event.kind == CONFIG_MAP:
            return (CONFIGURATION, *sources)
        return (TREE, SourceKey(LABEL_SOURCE))

    def reconcile(self, key: StatusKey | SourceKey | str, now: Instant) -> Plan:
        if (delay := self._due.get(key, 0.0) - now.monotonic) > 0:
            return Plan(requeue_after=delay)
        match key:
            case StatusKey(name):
                return self._reconcile_status(name, now)
            case SourceKey(source):
                if source == LABEL_SOURCE:
                    self._pace(key, self.indexer.count(NODE) / NODES_PER_SECOND, now)
                return self._discovery.plan(source, now)
            case str() if key == CONFIGURATION:
                return Plan(list(self._discovery.report(now)))
        return self._reconcile_tree(now)

    def on_written(self, operation: Operation, result: Manifest) -> None:
        if isinstance(operation, Poll):
            self._discovery.on_polled(operation.ufm, result)

    def on_done(self, key: Hashable, done: WorkResult, now: Instant) -> None:
        polls = [made for made in done.work.operations if isinstance(made, Poll)]
        if done.error is not None and polls:
            self._discovery.on_poll_failed(polls[0].ufm, done.error.message, now)
            self.enqueue(CONFIGURATION)

    def _reconcile_tree(self, now: Instant) -> Plan:
        """Queues the HyperNodes whose status differs from the tree."""
        if not self.indexer.count(HYPER_NODE):
            return NOTHING
        if self._tree is None:
            self._build(now)
        for hyper_node in self.indexer.all(HYPER_NODE):
            if not is_deleting(hyper_node) and self._differs(hyper_node):
                self.enqueue(StatusKey(key_of(hyper_node).name))
        return NOTHING

    def _build(self, now: Instant) -> None:
        """Builds the tree of all HyperNodes that can be parsed."""
        parsed: list[HyperNode] = []
        self._unparsed = {}
        for manifest in self.indexer.all(HYPER_NODE):
            name = key_of(manifest).name
            try:
                parsed.append(parse_hyper_node(manifest))
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                text = f"members cannot be read: {error}"
                self._unparsed[name] = TreeProblem(name, "InvalidMember", text)
        nodes: Mapping[str, Mapping[str, str]] = {
            key_of(node).name: labels_of(node) for node in self.indexer.all(NODE)
        }
        self._tree = HyperNodeTree.build(parsed, nodes)
        self._pace(TREE, len(parsed) * len(nodes) / PAIRS_PER_SECOND + len(nodes) / NODES_PER_SECOND, now)

    def _pace(self, key: Hashable, seconds: float, now: Instant) -> None:
        """Delays the next reconciliation of a key that is expensive in large clusters."""
        if seconds >= SHORTEST_DELAY:
            self._due[key] = now.monotonic + min(seconds, LONGEST_DELAY)

    def _reconcile_status(self, name: str, now: Instant) -> Plan:
        hyper_node = self.indexer.get(HYPER_NODE, Key("", name))
        if hyper_node is None or is_deleting(hyper_node):
            return NOTHING
        if self._tree is None:
            if now.monotonic < self._due.get(TREE, 0.0):
                self.enqueue(TREE)  # reconciles this one again where its status differs
                return NOTHING
            self._build(now)
        if not self._differs(hyper_node):
            return NOTHING
        count, problem = self._observed(name)
        known = condition_of(hyper_node, READY)
        status: dict[str, object] = {"nodeCount": count}
        writes: list[Operation] = [Patch(HYPER_NODE, key_of(hyper_node), {"status": status}, "status")]
        if not _says(known, problem):
            status["conditions"] = _conditions(hyper_node, known, problem, now)
            if problem is not None:
                writes.append(
                    record_event(
                        hyper_node,
                        HYPER_NODE,
                        problem.reason,
                        problem.message,
                        now,
                        source=self.name,
                        warning=True,
                    )
                )
        return Plan(writes)

    def _differs(self, hyper_node: Manifest) -> bool:
        count, problem = self._observed(key_of(hyper_node).name)
        known = (hyper_node.get("status") or {}).get("nodeCount")
        return known != count or not _says(condition_of(hyper_node, READY), problem)

    def _observed(self, name: str) -> tuple[int, TreeProblem | None]:
        """The number of existing nodes below a HyperNode, and what is wrong with it."""
        assert self._tree is not None
        domain = self._tree.domains.get(name)
        problem = self._unparsed.get(name) or self._tree.problems.get(name)
        return len(domain.nodes) if domain else 0, problem


def _says(condition: Mapping[str, object] | None, problem: TreeProblem | None) -> bool:
    """Whether a condition reports exactly this."""
    if condition is None:
        return False
    reported = (condition.get("status"), condition.get("reason"), condition.get("message"))
    return reported == _report(problem)


def _report(problem: TreeProblem | None) -> tuple[str, str, str]:
    if problem is None:
        return ("True", "InTree", "part of the topology tree")
    return ("False", problem.reason, problem.message)


def _conditions(
    hyper_node: Manifest, known: Mapping[str, object] | None, problem: TreeProblem | None, now: Instant
) -> list[object]:
    """All conditions, with Ready as observed now."""
    status, reason, message = _report(problem)
    changed = known is None or known.get("status") != status
    ready: dict[str, object] = {
        "type": READY,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now.timestamp() if changed or known is None else known["lastTransitionTime"],
    }
    others = [
        condition
        for condition in (hyper_node.get("status") or {}).get("conditions") or ()
        if condition.get("type") != READY
    ]
    return [*others, ready]
