"""Topology spread: no domain may run ahead of the emptiest by more than the skew."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volcano.kube.selectors import LabelSelector
from volcano.model.resources import Mask
from volcano.model.task import SpreadConstraint, Task
from volcano.scheduler.engine.nodetable import NodeTable
from volcano.scheduler.engine.plugin import RejectedNodes
from volcano.scheduler.plugins.predicates.labels import exactly
from volcano.scheduler.plugins.predicates.node_properties import NodeProperties
from volcano.scheduler.plugins.predicates.placed_pods import DomainCounts, PlacedPods, PodCounts, PodSelector

SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


@dataclass(frozen=True, slots=True)
class Spread:
    """One constraint of a shape, with the pods it is about and the nodes that count."""

    constraint: SpreadConstraint
    selector: PodSelector
    counts: PodCounts
    domains: DomainCounts
    domain_codes: NDArray[np.intp]  # the domains that have a node that counts


def constraints(task: Task, when: str) -> list[SpreadConstraint]:
    """The constraints of a task that are binding, or those that are a wish."""
    return [each for each in task.shape.constraints.spread if each.when_unsatisfiable == when]


def spread_selector(constraint: SpreadConstraint, task: Task) -> PodSelector:
    """The pods that are spread: selected ones of the task's namespace, with its values of `matchLabelKeys`."""
    requirements = constraint.selector.requirements + tuple(
        exactly(key, task.labels[key]) for key in constraint.match_label_keys if key in task.labels
    )
    selector = LabelSelector(requirements, constraint.selector.selects_nothing)
    return PodSelector(selector, frozenset((task.namespace,)), not_terminating=True)


def spreads(task: Task, when: str, placed_pods: PlacedPods, properties: NodeProperties) -> list[Spread]:
    """The constraints of a task, made ready to be judged."""
    wanted = constraints(task, when)
    keys = tuple(each.topology_key for each in wanted)
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
    """Nodes without a label that a binding constraint spreads over."""
    missing = np.zeros(len(nodes), dtype=np.bool_)
    wanted = constraints(task, HARD)
    for constraint in wanted:
        missing |= properties.labels.column(constraint.topology_key).codes[nodes.index] < 0
    if wanted:
        yield RejectedNodes(missing, UNLABELLED, resolvable=False)


def rejections(
    task: Task, nodes: NodeTable, binding: Sequence[Spread], placed_pods: PlacedPods
) -> Iterator[RejectedNodes]:
    """Nodes in domains that already hold too many of the pods to be spread."""
    if not binding:
        return
    skewed: Mask = np.zeros(len(nodes), dtype=np.bool_)
    for spread in binding:
        counts = spread.domains.counts
        few = len(spread.domain_codes) < spread.constraint.min_domains
        lowest = 0.0 if few or not len(spread.domain_codes) else counts[spread.domain_codes].min()
        itself = placed_pods.matches(spread.selector, task)
        skewed |= spread.domains.per_node(nodes.index) + itself - lowest > spread.constraint.max_skew
    yield RejectedNodes(skewed, SKEWED)
