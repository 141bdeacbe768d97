"""Scores that compare nodes: node affinity, taints, pod affinity and topology spread."""

from collections.abc import Sequence

import numpy as np

from volcano.kube.api.names import JOB_NAME
from volcano.model.pod_owners import PodOwners
from volcano.model.resources import Vector
from volcano.model.task import SpreadConstraint, Task
from volcano.scheduler.engine.answers import MAX_SCORE
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.plugins.predicates.node_properties import NodeProperties
from volcano.scheduler.plugins.predicates.placed_pods import PlacedPods, selector_of
from volcano.scheduler.plugins.predicates.spread import SOFT, spreads

HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SKEWS = {HOSTNAME: 3, "topology.kubernetes.io/zone": 5}


def node_affinity(task: Task, nodes: NodeTable, properties: NodeProperties) -> Vector | None:
    """Returns the summed weights of the preferred terms that match, normalised to 100."""
    preferences = task.shape.constraints.preferred_nodes
    if not preferences:
        return None
    weights = np.zeros(len(nodes))
    for weight, selector in preferences:
        weights += weight * properties.labels.matching(selector)[nodes.index]
    most = weights.max(initial=0)
    return np.floor(MAX_SCORE * weights / most) if most > 0 else None


def taint_toleration(task: Task, nodes: NodeTable, properties: NodeProperties) -> Vector | None:
    """Returns 100 for nodes without untolerated PreferNoSchedule taints, down to 0 for the node with the most."""
    if not properties.taints.any_prefer_no_schedule:
        return None
    unwanted = properties.taints.prefer_no_schedule_counts(task.shape.constraints.tolerations)[nodes.index]
    most = unwanted.max(initial=0)
    return MAX_SCORE - np.floor(MAX_SCORE * unwanted / most) if most > 0 else None


def inter_pod_affinity(task: Task, nodes: NodeTable, placed_pods: PlacedPods) -> Vector | None:
    """Returns the weighted matches of the task's preferred terms, and of those of placed pods, from 0 to 100."""
    constraints = task.shape.constraints
    own = [(term.weight, term) for term in constraints.preferred_near]
    own += [(-term.weight, term) for term in constraints.preferred_apart]
    others = list(placed_pods.preferred.matching_terms(task, placed_pods.matches))
    if not own and not others:
        return None
    worth = np.zeros(len(nodes))
    for weight, term in own:
        domains = placed_pods.counts_of(selector_of(term)).domains(placed_pods.labels, term.topology_key)
        worth += weight * domains.per_node(nodes.index)
    for term, domains in others:
        worth += term.weight * domains.per_node(nodes.index)
    if not len(worth):
        return worth
    least, most = worth.min(), worth.max()
    return np.floor(MAX_SCORE * (worth - least) / (most - least)) if most > least else np.zeros(len(nodes))


def default_spread(task: Task, owners: PodOwners) -> tuple[SpreadConstraint, ...]:
    """The default constraints of kube-scheduler for pods of Services and workloads that have none of their own.

    Services of Volcano jobs give pods names; they do not ask for pods on different nodes.
    """
    if task.shape.constraints.spread or JOB_NAME in task.labels:
        return ()
    selector = owners.selector(task.namespace, task.owner, task.labels)
    if selector is None:
        return ()
    return tuple(SpreadConstraint(key, skew, SOFT, selector) for key, skew in DEFAULT_SKEWS.items())


def topology_spread(
    task: Task,
    nodes: NodeTable,
    placed_pods: PlacedPods,
    properties: NodeProperties,
    defaults: Sequence[SpreadConstraint] = (),
) -> Vector | None:
    """Prefers domains with few of the pods to spread; keys with more domains weigh more.

    The raw score is the sum over constraints of `count x log(domains + 2) + skew - 1`; the node with the
    smallest gets `100 x (most + least - raw) / most`. Nodes without one of the labels get 0, unless the constraints are
    default ones.
    """
    soft = spreads(task, SOFT, placed_pods, properties, defaults)
    if defaults:  # a label that no node has does not matter
        soft = [spread for spread in soft if (spread.domains.codes[nodes.index] >= 0).any()]
    if not soft:
        return None
    raw = np.zeros(len(nodes))
    labelled = np.ones(len(nodes), dtype=np.bool_)
    for spread in soft:
        if not defaults:
            labelled &= spread.domains.codes[nodes.index] >= 0
    for spread in soft:
        key = spread.constraint.topology_key
        codes = spread.domains.codes[nodes.index[labelled]]
        domains = int(labelled.sum()) if key == HOSTNAME else len(np.unique(codes))
        counts = (
            spread.counts.per_node[nodes.index] if key == HOSTNAME else spread.domains.per_node(nodes.index)
        )
        raw += counts * np.log(domains + 2) + spread.constraint.max_skew - 1
    raw = np.rint(raw)
    if not labelled.any():
        return np.zeros(len(nodes))
    least, most = raw[labelled].min(), raw[labelled].max()
    points = (
        np.full(len(nodes), MAX_SCORE) if most == 0 else np.floor(MAX_SCORE * (most + least - raw) / most)
    )
    points[~labelled] = 0
    return points
