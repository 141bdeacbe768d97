"""Image locality: prefers nodes that have large images of the pod, less so when few nodes have them."""

import numpy as np

from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import MAX_SCORE
from volcano.scheduler.engine.node_table import NodeTable

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
