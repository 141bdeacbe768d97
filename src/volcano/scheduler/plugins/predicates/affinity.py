"""Pod affinity and anti-affinity: nodes near, or away from, pods of a kind."""

from collections.abc import Iterator

import numpy as np

from volcano.model.resources import Mask
from volcano.model.task import Task
from volcano.scheduler.engine.nodetable import NodeTable
from volcano.scheduler.engine.plugin import RejectedNodes
from volcano.scheduler.plugins.predicates.neighbours import Neighbours, who

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"


def concerned(task: Task, neighbours: Neighbours) -> bool:
    """Whether pods near a node matter to the task, or the task to them."""
    constraints = task.shape.constraints
    if constraints.required_near or constraints.required_apart:
        return True
    repelling = neighbours.repelling
    return bool(repelling) and any(True for _ in repelling.about(task, neighbours.matches))


def rejections(task: Task, nodes: NodeTable, neighbours: Neighbours) -> Iterator[RejectedNodes]:
    """Nodes too far from whom the task wants near, too near to whom it avoids, or near to whom avoids it."""
    constraints = task.shape.constraints
    if constraints.required_near:
        yield RejectedNodes(far(task, nodes, neighbours), NOT_NEAR, resolvable=False)
    if constraints.required_apart:
        near = np.zeros(len(nodes), dtype=np.bool_)
        for term in constraints.required_apart:
            crowd = neighbours.crowd(who(term))
            near |= crowd.domains(neighbours.labels, term.topology_key).per_node(nodes.index) > 0
        yield RejectedNodes(near, NOT_APART)
    unwelcome: Mask | None = None
    for _, domains in neighbours.repelling.about(task, neighbours.matches):
        there = domains.per_node(nodes.index) > 0
        unwelcome = there if unwelcome is None else unwelcome | there
    if unwelcome is not None:
        yield RejectedNodes(unwelcome, UNWELCOME)


def far(task: Task, nodes: NodeTable, neighbours: Neighbours) -> Mask:
    """Nodes that, for some term, lack the label or have none of the wanted pods in their domain.

    A pod counts when all terms mean it. When there is none at all and the task is one of those it wants near, it is
    the first of its kind and may go wherever the labels are there.
    """
    terms = task.shape.constraints.required_near
    kinds = [who(term) for term in terms]
    crowd = neighbours.crowd(*kinds)
    labels = neighbours.labels
    unlabelled = np.zeros(len(nodes), dtype=np.bool_)
    alone = np.zeros(len(nodes), dtype=np.bool_)
    anybody = False
    for term in terms:
        domains = crowd.domains(labels, term.topology_key)
        unlabelled |= domains.codes[nodes.index] < 0
        alone |= domains.per_node(nodes.index) <= 0
        anybody = anybody or bool(domains.counts.any())
    if not anybody and all(neighbours.matches(kind, task) for kind in kinds):
        return unlabelled
    return unlabelled | alone
