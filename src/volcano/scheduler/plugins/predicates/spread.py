"""Pod topology spread: no domain may exceed the one with the fewest pods by more than the maximum skew."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volcano.kube.api.selectors import LabelSelector
from volcano.model.resources import Mask
from volcano.model.task import SpreadConstraint, Task
from volcano.scheduler.engine.answers import RejectedNodes
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.plugins.predicates.labels import exactly
from volcano.scheduler.plugins.predicates.node_properties import NodeProperties
from volcano.scheduler.plugins.predicates.placed_pods import DomainCounts, PlacedPods, PodCounts, PodSelector

SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


@dataclass(frozen=True, slots=True)
class Spread:
    """One constraint of a shape, with its pods and counted nodes."""

    constraint: SpreadConstraint
    selector: PodSelector
    counts: PodCounts
    domains: DomainCounts
    domain_codes: NDArray[np.intp]  # the domains with counted nodes


def constraints(task: Task, when: str) -> list[SpreadConstraint]:
    """Returns the constraints of a task with this `whenUnsatisfiable`."""
    return [each for each in task.shape.constraints.spread if each.when_unsatisfiable == when]


def spread_selector(constraint: SpreadConstraint, task: Task) -> PodSelector:
    """Returns the selector of the pods to spread: in the task's namespace, with its values of `matchLabelKeys`."""
    requirements = constraint.selector.requirements + tuple(
        exactly(key, task.labels[key]) for key in constraint.match_label_keys if key in task.labels
    )
    selector = LabelSelector(requirements, constraint.selector.selects_nothing)
    return PodSelector(selector, frozenset((task.namespace,)), not_terminating=True)


def spreads(
    task: Task,
    when: str,
    placed_pods: PlacedPods,
    properties: NodeProperties,
    defaults: Sequence[SpreadConstraint] = (),
) -> list[Spread]:
    """Prepares the constraints of a task for evaluation, or the default ones; those count nodes without the label."""
    wanted = [*constraints(task, when), *defaults]
    keys = () if defaults else tuple(each.topology_key for each in wanted)
    made = []
    for constraint in wanted:
        counted_nodes = properties.counted_nodes(
            task, keys, constraint.node_affinity_policy, constraint.node_taints_policy
        )
        selector = spread_selector(constraint, task)
        counts = placed_pods.counts_of(selector)
        domains = counts.domains(properties.labels, constraint.topology_key, counted_nodes)
        made.append(
            Spread(
                constraint,
                selector,
                counts,
                domains,
                properties.domains_present(constraint.topology_key, counted_nodes),
            )
        )
    return made


def unlabelled(task: Task, nodes: NodeTable, properties: NodeProperties) -> Iterator[RejectedNodes]:
    """Yields the nodes without a label of a hard constraint."""
    missing = np.zeros(len(nodes), dtype=np.bool_)
    wanted = constraints(task, HARD)
    for constraint in wanted:
        missing |= properties.labels.column(constraint.topology_key).codes[nodes.index] < 0
    if wanted:
        yield RejectedNodes(missing, UNLABELLED, resolvable=False, code=Code.NODE_LABELS_MISMATCH)


def rejections(
    task: Task, nodes: NodeTable, binding: Sequence[Spread], placed_pods: PlacedPods
) -> Iterator[RejectedNodes]:
    """Yields the nodes in domains that would exceed the maximum skew."""
    if not binding:
        return
    skewed: Mask = np.zeros(len(nodes), dtype=np.bool_)
    for spread in binding:
        counts = spread.domains.counts
        few = len(spread.domain_codes) < spread.constraint.min_domains
        lowest = 0.0 if few or not len(spread.domain_codes) else counts[spread.domain_codes].min()
        itself = placed_pods.matches(spread.selector, task)
        skewed |= spread.domains.per_node(nodes.index) + itself - lowest > spread.constraint.max_skew
    yield RejectedNodes(skewed, SKEWED, code=Code.POD_TOPOLOGY_SPREAD)
