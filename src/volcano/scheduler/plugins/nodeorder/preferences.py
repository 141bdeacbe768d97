"""Scores that compare nodes: preferred nodes, taints to avoid, preferred neighbours, and spreading where possible."""

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.nodetable import NodeTable
from volcano.scheduler.engine.plugin import MAX_SCORE
from volcano.scheduler.plugins.predicates.neighbours import Neighbours, who
from volcano.scheduler.plugins.predicates.node_match import NodeFacts
from volcano.scheduler.plugins.predicates.spread import SOFT, spreads

HOSTNAME = "kubernetes.io/hostname"


def preferred_nodes(task: Task, nodes: NodeTable, facts: NodeFacts) -> Vector | None:
    """The weights of the preferred terms a node matches, the best node getting 100."""
    wished = task.shape.constraints.preferred_nodes
    if not wished:
        return None
    earned = np.zeros(len(nodes))
    for weight, selector in wished:
        earned += weight * facts.labels.chosen(selector)[nodes.index]
    most = earned.max(initial=0)
    return np.floor(MAX_SCORE * earned / most) if most > 0 else None


def avoided_taints(task: Task, nodes: NodeTable, facts: NodeFacts) -> Vector | None:
    """100 less the taints that would rather keep the pod away, relative to the worst node."""
    if not facts.taints.some_discourage:
        return None
    unwanted = facts.taints.discouraged(task.shape.constraints.tolerations)[nodes.index]
    most = unwanted.max(initial=0)
    return MAX_SCORE - np.floor(MAX_SCORE * unwanted / most) if most > 0 else None


def preferred_neighbours(task: Task, nodes: NodeTable, neighbours: Neighbours) -> Vector | None:
    """What the pods in each node's domains are worth to the task, and the task to them, from 0 to 100."""
    constraints = task.shape.constraints
    own = [(term.weight, term) for term in constraints.preferred_near]
    own += [(-term.weight, term) for term in constraints.preferred_apart]
    others = list(neighbours.preferring.about(task, neighbours.matches))
    if not own and not others:
        return None
    worth = np.zeros(len(nodes))
    for weight, term in own:
        domains = neighbours.crowd(who(term)).domains(neighbours.labels, term.topology_key)
        worth += weight * domains.per_node(nodes.index)
    for term, domains in others:
        worth += term.weight * domains.per_node(nodes.index)
    if not len(worth):
        return worth
    least, most = worth.min(), worth.max()
    return np.floor(MAX_SCORE * (worth - least) / (most - least)) if most > least else np.zeros(len(nodes))


def spread_out(task: Task, nodes: NodeTable, neighbours: Neighbours, facts: NodeFacts) -> Vector | None:
    """Fewer of the pods to be spread in a node's domains is better; rarer kinds of domain weigh more.

    The raw score is the sum over constraints of `count x log(domains + 2) + skew - 1`; the node with the least of
    it gets `100 x (most + least - raw) / most`. Nodes without one of the labels get nothing.
    """
    wishes = spreads(task, SOFT, neighbours, facts)
    if not wishes:
        return None
    raw = np.zeros(len(nodes))
    labelled = np.ones(len(nodes), dtype=np.bool_)
    for wish in wishes:
        labelled &= wish.domains.codes[nodes.index] >= 0
    for wish in wishes:
        key = wish.constraint.topology_key
        codes = wish.domains.codes[nodes.index[labelled]]
        domains = int(labelled.sum()) if key == HOSTNAME else len(np.unique(codes))
        counts = wish.crowd.per_node[nodes.index] if key == HOSTNAME else wish.domains.per_node(nodes.index)
        raw += counts * np.log(domains + 2) + wish.constraint.max_skew - 1
    raw = np.rint(raw)
    if not labelled.any():
        return np.zeros(len(nodes))
    least, most = raw[labelled].min(), raw[labelled].max()
    points = (
        np.full(len(nodes), MAX_SCORE) if most == 0 else np.floor(MAX_SCORE * (most + least - raw) / most)
    )
    points[~labelled] = 0
    return points
