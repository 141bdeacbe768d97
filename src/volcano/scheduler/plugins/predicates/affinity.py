"""Required pod affinity and anti-affinity."""

from collections.abc import Iterator

import numpy as np

from volcano.model.resources import Mask
from volcano.model.task import Task
from volcano.scheduler.engine.answers import RejectedNodes
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.plugins.predicates.placed_pods import PlacedPods, selector_of

AFFINITY_MISMATCH = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_MISMATCH = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY_MISMATCH = "node(s) didn't satisfy existing pods anti-affinity rules"


def is_relevant(task: Task, placed_pods: PlacedPods) -> bool:
    """Reports whether (anti-)affinity of the task, or of placed pods, applies to the task."""
    constraints = task.shape.constraints
    if constraints.required_near or constraints.required_apart:
        return True
    existing = placed_pods.anti_affinity
    return bool(existing) and any(True for _ in existing.matching_terms(task, placed_pods.matches))


def rejections(task: Task, nodes: NodeTable, placed_pods: PlacedPods) -> Iterator[RejectedNodes]:
    """Yields the nodes rejected by the task's affinity and anti-affinity, and by the anti-affinity of placed pods."""
    constraints = task.shape.constraints
    if constraints.required_near:
        mask = without_affinity(task, nodes, placed_pods)
        yield RejectedNodes(mask, AFFINITY_MISMATCH, resolvable=False, code=Code.POD_AFFINITY)
    if constraints.required_apart:
        near = np.zeros(len(nodes), dtype=np.bool_)
        for term in constraints.required_apart:
            counts = placed_pods.counts_of(selector_of(term))
            near |= counts.domains(placed_pods.labels, term.topology_key).per_node(nodes.index) > 0
        yield RejectedNodes(near, ANTI_AFFINITY_MISMATCH, code=Code.POD_ANTI_AFFINITY)
    rejected: Mask | None = None
    for _, domains in placed_pods.anti_affinity.matching_terms(task, placed_pods.matches):
        there = domains.per_node(nodes.index) > 0
        rejected = there if rejected is None else rejected | there
    if rejected is not None:
        yield RejectedNodes(rejected, EXISTING_ANTI_AFFINITY_MISMATCH, code=Code.POD_ANTI_AFFINITY)


def without_affinity(task: Task, nodes: NodeTable, placed_pods: PlacedPods) -> Mask:
    """Returns the nodes that, for some affinity term, lack the label or have no matching pod in their domain.

    A pod counts when all terms match it. If there is none in the cluster and the task matches its own
    terms, it is the first of its group and may be placed on any node with the labels.
    """
    terms = task.shape.constraints.required_near
    selectors = [selector_of(term) for term in terms]
    counts = placed_pods.counts_of(*selectors)
    labels = placed_pods.labels
    unlabelled = np.zeros(len(nodes), dtype=np.bool_)
    empty = np.zeros(len(nodes), dtype=np.bool_)
    any_pod = False
    for term in terms:
        domains = counts.domains(labels, term.topology_key)
        unlabelled |= domains.codes[nodes.index] < 0
        empty |= domains.per_node(nodes.index) <= 0
        any_pod = any_pod or bool(domains.counts.any())
    if not any_pod and all(placed_pods.matches(selector, task) for selector in selectors):
        return unlabelled
    return unlabelled | empty
