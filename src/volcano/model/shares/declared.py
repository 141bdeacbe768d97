"""Deserved shares under `capacity`: declared by the queue, or its weight's part of the parent's share."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from volcano.kube.api.names import ROOT_QUEUE
from volcano.model.queue import Queue
from volcano.model.resources import CPU, MEMORY, STEP, Mask, ResourceIndex, Vector, share
from volcano.model.shares.division import (
    QueueDemand,
    divide_by_weight,
    own_shares,
    proportional_shares,
    subtree_demands,
)
from volcano.model.shares.tree import QueueTree, guarantees, real_capabilities


@dataclass(frozen=True, slots=True)
class Deserved:
    """A deserved amount of each resource, and the resources that the queue names at all."""

    amount: Vector
    named: Mask

    @property
    def empty(self) -> bool:
        """Reports whether the queue deserves nothing; all it holds is borrowed then."""
        return not (self.amount >= STEP).any()

    def share(self, held: Vector) -> float:
        """Returns the largest fraction of the amount that is held; 1 for an empty amount."""
        named = self.amount >= STEP
        return float(share(held[named], self.amount[named]).max()) if named.any() else 1.0

    def covers(self, request: Vector) -> bool:
        """Reports whether a request includes a resource that the queue deserves."""
        return bool(((request >= STEP) & (self.amount >= STEP)).any())

    def relevant_columns(self, request: Vector) -> Mask:
        """Returns the columns of a request in which the queue could exceed its share."""
        columns: Mask = (request > 0) & self.named
        for column in (CPU, MEMORY):
            columns[column] &= self.amount[column] >= STEP
        return columns


def flat_deserved(
    queues: Mapping[str, Queue],
    resources: ResourceIndex,
    limits: Mapping[str, Vector],
    guaranteed: Mapping[str, Vector],
) -> dict[str, Deserved]:
    """Returns what each queue declares, within its limit and at least its guarantee."""
    return {
        name: _own(queues[name], resources, limits[name], guaranteed[name])
        for name in queues
        if name in guaranteed
    }


def _own(queue: Queue, resources: ResourceIndex, limit: Vector, guaranteed: Vector) -> Deserved:
    amount = np.maximum(np.minimum(resources.vector(queue.deserved), limit), guaranteed)
    return Deserved(amount, resources.mask(queue.deserved) | (guaranteed > 0))


def hierarchical_deserved(
    tree: QueueTree,
    resources: ResourceIndex,
    limits: Mapping[str, Vector],
    guaranteed: Mapping[str, Vector],
    requested: Mapping[str, Vector],
    total: Vector,
) -> dict[str, Deserved]:
    """As `flat_deserved`, but queues that declare nothing divide the rest of their parent's share by weight.

    At most what they request, so that siblings borrow from each other first.
    """
    own = flat_deserved(tree.queues, resources, limits, guaranteed)
    claims: dict[str, QueueDemand] = {}
    for name in tree.parent:
        queue, floor = tree.queues[name], guaranteed[name]
        if queue.deserved:
            fixed = own[name].amount
            claims[name] = QueueDemand(queue.weight, fixed, fixed)
        elif tree.is_leaf(name):
            requested_columns = requested.get(name, resources.zeros())
            claims[name] = QueueDemand(queue.weight, floor, np.minimum(requested_columns, limits[name]))
        else:
            claims[name] = QueueDemand(queue.weight, floor, limits[name])
    gathered = subtree_demands(claims, tree.children, ROOT_QUEUE)
    for name in tree.parent:
        if tree.queues[name].deserved:  # a declared amount does not depend on the children
            gathered[name] = claims[name]
    shares = divide_by_weight(total, gathered, tree.children, ROOT_QUEUE)
    everything = total >= STEP
    return {
        name: own[name] if tree.queues[name].deserved else Deserved(shares[name], everything)
        for name in tree.parent
    }


def deserved_amounts(
    tree: QueueTree, resources: ResourceIndex, requested: Mapping[str, Vector], total: Vector
) -> dict[str, Vector]:
    """Returns what queues deserve: by weight, or under `capacity` where a queue declares an amount."""
    guaranteed = guarantees(tree, resources)
    limits = real_capabilities(tree, resources, total, guaranteed)
    if not any(tree.queues[name].deserved for name in tree.parent):
        return own_shares(proportional_shares(tree, limits, guaranteed, requested, total))
    declared = hierarchical_deserved(tree, resources, limits, guaranteed, requested, total)
    return {ROOT_QUEUE: total, **{name: share.amount for name, share in declared.items()}}
