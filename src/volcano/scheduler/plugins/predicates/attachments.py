"""Attachments: volumes per storage driver attached to each node, against the node's limit."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from volcano.model.resources import Mask
from volcano.model.storage import Storage
from volcano.model.task import Task
from volcano.scheduler.engine.answers import RejectedNodes
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.session import Session

TOO_MANY = "node(s) exceed max volume count"
DRIVER_PARAMETER = "csi.storage.k8s.io/csi-driver-name"
# Provisioners whose volumes are not attached to nodes and have no limit.
UNCOUNTED = frozenset(("rancher.io/local-path", "hostpath.csi.k8s.io", "kubernetes.io/no-provisioner", ""))


class Attachments:
    """Volumes by driver and node; a volume that several pods of a node share counts once."""

    def __init__(self, session: Session, present: Callable[[], Iterable[tuple[Task, int]]]) -> None:
        self._storage = session.snapshot.storage
        self._nodes = session.snapshot.nodes
        self._users: dict[str, dict[int, Counter[str]]] = {}  # driver → row → volume → pods
        self._limits: dict[str, NDArray[np.float64]] = {}
        for task, row in present():
            if task.shape.constraints.claims:
                self.move(task, row, 1)

    def move(self, task: Task, row: int, by: int) -> None:
        """Accounts for a pod with claims that was placed on a node or removed from it."""
        for driver, volume in attached(task, self._storage):
            users = self._users.setdefault(driver, {}).setdefault(row, Counter())
            users[volume] += by
            if users[volume] <= 0:
                del users[volume]

    def rejections(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Yields the nodes that would exceed their limit of attached volumes."""
        wanted: dict[str, set[str]] = {}
        for driver, volume in attached(task, self._storage):
            wanted.setdefault(driver, set()).add(volume)
        for driver, volumes in sorted(wanted.items()):
            limits = self._limit(driver)
            full: Mask = len(volumes) > limits
            for row, users in self._users.get(driver, {}).items():
                full[row] = len(users.keys() | volumes) > limits[row]
            yield RejectedNodes(full[nodes.index], TOO_MANY, code=Code.VOLUME_ATTACHMENTS)

    def _limit(self, driver: str) -> NDArray[np.float64]:
        """Returns the limit of each node for a driver; infinite where there is none."""
        if driver not in self._limits:
            csi_nodes = [self._storage.csi_nodes.get(node.name) for node in self._nodes]
            counts = [None if node is None else node.drivers.get(driver) for node in csi_nodes]
            self._limits[driver] = np.array(
                [np.inf if count is None else count for count in counts], dtype=np.float64
            )
        return self._limits[driver]


def attached(task: Task, storage: Storage) -> Iterator[tuple[str, str]]:
    """Yields driver and identity of the volumes that a pod attaches, as far as known."""
    uncounted = UNCOUNTED | storage.uncounted
    for name in task.shape.constraints.claims:
        claim = storage.claims.get((task.namespace, name))
        if claim is None:
            continue
        volume = storage.volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            if volume.driver not in uncounted:
                yield volume.driver, volume.handle or volume.name
            continue
        storage_class = storage.classes.get(claim.storage_class)
        if storage_class is not None:
            driver = storage_class.parameters.get(DRIVER_PARAMETER) or storage_class.provisioner
            if driver not in uncounted:
                yield driver, f"{claim.namespace}/{claim.name}"
