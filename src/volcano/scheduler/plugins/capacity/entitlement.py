"""What queues are entitled to under `capacity`: their own word, or their weight's part of what their parent is."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from volcano.kube.names import ROOT_QUEUE
from volcano.model.queue import Queue
from volcano.model.resources import CPU, MEMORY, STEP, Mask, ResourceIndex, Vector, share
from volcano.scheduler.plugins.proportion.division import Claim, divide, gather
from volcano.scheduler.plugins.proportion.tree import QueueTree


@dataclass(frozen=True, slots=True)
class Entitlement:
    """An amount of each resource, and for which resources anything was said at all."""

    amount: Vector
    said: Mask

    @property
    def empty(self) -> bool:
        """Whether the queue is entitled to nothing: it lives on what others leave."""
        return not (self.amount >= STEP).any()

    def share(self, held: Vector) -> float:
        """The largest part of it that is held; 1 where there is nothing to hold."""
        named = self.amount >= STEP
        return float(share(held[named], self.amount[named]).max()) if named.any() else 1.0

    def common(self, request: Vector) -> bool:
        """Whether a request is about something the queue is entitled to."""
        return bool(((request >= STEP) & (self.amount >= STEP)).any())

    def relevant(self, request: Vector) -> Mask:
        """The dimensions of a request in which the queue could exceed it: no cpu or memory where it has no claim."""
        columns: Mask = (request > 0) & self.said
        for column in (CPU, MEMORY):
            columns[column] &= self.amount[column] >= STEP
        return columns


def flat(
    queues: Mapping[str, Queue],
    resources: ResourceIndex,
    limits: Mapping[str, Vector],
    promised: Mapping[str, Vector],
) -> dict[str, Entitlement]:
    """What every queue says it deserves, within what it may have, at least what it is promised."""
    return {
        name: _own(queues[name], resources, limits[name], promised[name])
        for name in queues
        if name in promised
    }


def _own(queue: Queue, resources: ResourceIndex, limit: Vector, promised: Vector) -> Entitlement:
    amount = np.maximum(np.minimum(resources.vector(queue.deserved), limit), promised)
    return Entitlement(amount, resources.mask(queue.deserved) | (promised > 0))


def in_tree(
    tree: QueueTree,
    resources: ResourceIndex,
    limits: Mapping[str, Vector],
    promised: Mapping[str, Vector],
    requested: Mapping[str, Vector],
    total: Vector,
) -> dict[str, Entitlement]:
    """As `flat`, but queues that do not say what they deserve divide what is left of their parent's by weight.

    As far as they ask for it, so that brothers and sisters borrow from each other before anybody else does.
    """
    own = flat(tree.queues, resources, limits, promised)
    claims: dict[str, Claim] = {}
    for name in tree.parent:
        queue, floor = tree.queues[name], promised[name]
        if queue.deserved:
            fixed = own[name].amount
            claims[name] = Claim(queue.weight, fixed, fixed)
        elif tree.leaf(name):
            asked = requested.get(name, resources.zeros())
            claims[name] = Claim(queue.weight, floor, np.minimum(asked, limits[name]))
        else:
            claims[name] = Claim(queue.weight, floor, limits[name])
    gathered = gather(claims, tree.children, ROOT_QUEUE)
    for name in tree.parent:
        if tree.queues[name].deserved:  # whatever the children ask for, its word stands
            gathered[name] = claims[name]
    shares = divide(total, gathered, tree.children, ROOT_QUEUE)
    everything = total >= STEP
    return {
        name: own[name] if tree.queues[name].deserved else Entitlement(shares[name], everything)
        for name in tree.parent
    }
