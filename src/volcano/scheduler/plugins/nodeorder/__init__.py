"""nodeorder: scores nodes by kube-scheduler's scores, each with a weight."""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Constraints, Shape, SpreadConstraint, Task
from volcano.scheduler.engine.answers import MAX_SCORE
from volcano.scheduler.engine.arguments import Argument, Arguments
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.nodeorder import preferences, resource_scores
from volcano.scheduler.plugins.predicates import Predicates
from volcano.scheduler.plugins.predicates.node_properties import NodeProperties
from volcano.scheduler.plugins.predicates.placed_pods import PlacedPods

WEIGHTS = {
    "leastrequested": 1,
    "mostrequested": 0,
    "nodeaffinity": 2,
    "podaffinity": 2,
    "balancedresource": 1,
    "tainttoleration": 3,
    "imagelocality": 1,
    "podtopologyspread": 2,
}


class NodeOrder(Plugin):
    """Sum of `weight x score`; a weight of 0 disables a score."""

    session: Session
    arguments: ClassVar = tuple(Argument(f"{name}.weight") for name in WEIGHTS)

    def open(self, arguments: Arguments) -> None:
        self._default_spreads: dict[tuple[str, str, Shape], tuple[SpreadConstraint, ...]] = {}
        self.weight = {name: arguments.integer(f"{name}.weight", usual) for name, usual in WEIGHTS.items()}
        if self._predicates is not None:  # it counts placed pods for both plugins
            self.unused_hooks = frozenset(("on_allocate", "on_deallocate"))

    @cached_property
    def any_images(self) -> bool:
        return self.properties.any_images

    # -- scores of single nodes
    # -------------------------------------------------------------------------------------

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        weight = self.weight
        score: Vector | None = None
        if weight["leastrequested"]:
            score = weighted(weight["leastrequested"], resource_scores.least_allocated(task, nodes), score)
        if weight["mostrequested"]:
            score = weighted(weight["mostrequested"], resource_scores.most_allocated(task, nodes), score)
        if weight["balancedresource"]:
            balance = resource_scores.balanced_allocation(task, nodes, self.resources)
            score = weighted(weight["balancedresource"], balance, score)
        if weight["imagelocality"] and task.shape.constraints.images and self.any_images:
            score = weighted(weight["imagelocality"], image_locality(task, nodes, self.nodes), score)
        return np.zeros(len(nodes)) if score is None else score

    # -- scores that compare nodes
    # ----------------------------------------------------------------------------------

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        weight, constraints = self.weight, task.shape.constraints
        defaults = self._default_spread(task) if weight["podtopologyspread"] else ()
        if not defaults and self._no_preferences(constraints):
            return None
        scores: list[tuple[int, Vector | None]] = []
        if weight["nodeaffinity"] and constraints.preferred_nodes:
            scores.append((weight["nodeaffinity"], preferences.node_affinity(task, nodes, self.properties)))
        if weight["tainttoleration"]:
            scores.append(
                (weight["tainttoleration"], preferences.taint_toleration(task, nodes, self.properties))
            )
        if weight["podaffinity"]:
            scores.append(
                (weight["podaffinity"], preferences.inter_pod_affinity(task, nodes, self.placed_pods))
            )
        if weight["podtopologyspread"] and (constraints.spread or defaults):
            found = preferences.topology_spread(task, nodes, self.placed_pods, self.properties, defaults)
            scores.append((weight["podtopologyspread"], found))
        score: Vector | None = None
        for factor, points in scores:
            if points is not None:
                score = factor * points if score is None else score + factor * points
        return score

    def _default_spread(self, task: Task) -> tuple[SpreadConstraint, ...]:
        owners = self.snapshot.pod_owners
        if not owners.services and not owners.workloads:
            return ()
        key = (task.job, task.role, task.shape)
        found = self._default_spreads.get(key)
        if found is None:
            found = self._default_spreads[key] = preferences.default_spread(task, owners)
        return found

    def _no_preferences(self, constraints: Constraints) -> bool:
        """Reports whether no score that compares nodes applies, which is the usual case."""
        return not (
            constraints.preferred_nodes
            or constraints.preferred_near
            or constraints.preferred_apart
            or constraints.spread
            or self.properties.taints.any_prefer_no_schedule
            or self.placed_pods.preferred
        )

    # -- shared with the predicates plugin if that is configured
    # ----------------------------------------------------

    @cached_property
    def _predicates(self) -> Predicates | None:
        return next((each for each in self.session.policy.plugins if isinstance(each, Predicates)), None)

    @cached_property
    def properties(self) -> NodeProperties:
        return NodeProperties.of(self.snapshot)

    @cached_property
    def placed_pods(self) -> PlacedPods:
        if self._predicates is not None:
            return self._predicates.placed_pods
        return PlacedPods(self.session, self.properties.labels)

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.placed_pods.add(tasks, rows)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self.placed_pods.remove(tasks, rows)


def weighted(weight: int, points: Vector, score: Vector | None) -> Vector:
    """Adds weighted points to a score."""
    more = points if weight == 1 else weight * points
    return more if score is None else score + more


MIB = 2.0**20
SMALLEST = 23 * MIB  # smaller images are not counted
LARGEST = 1000 * MIB  # per container


def normalized(image: str) -> str:
    """Returns an image name with a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def image_locality(task: Task, nodes: NodeTable, every_node: NodeTable) -> Vector:
    """Returns `floor(100 x (present - 23 MiB) / (1000 MiB x containers - 23 MiB))`, within 0 and 100.

    `present` is the size of each of the pod's images on the node, times the fraction of all nodes that
    have it.
    """
    images = [normalized(image) for image in task.shape.constraints.images]
    present = np.zeros(len(nodes))
    for image in images:
        sizes = _sizes(every_node, image)
        spread = (sizes > 0).sum() / max(len(sizes), 1)
        present += np.floor(_sizes(nodes, image) * spread)
    most = LARGEST * max(len(images), 1)
    points: Vector = np.floor(MAX_SCORE * (np.clip(present, SMALLEST, most) - SMALLEST) / (most - SMALLEST))
    return points


def _sizes(nodes: NodeTable, image: str) -> Vector:
    sizes: Vector = nodes.column(("image", image), lambda node: node.images.get(image, 0), np.float64)
    return sizes
