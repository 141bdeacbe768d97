"""Volumes: nodes from which a pod's claims can be bindable, and the volumes set aside for them."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from volcano.model.decisions import ClaimVolume
from volcano.model.resources import Mask
from volcano.model.storage import Claim, StorageClass, Volume
from volcano.model.task import Task
from volcano.scheduler.engine.nodetable import NodeTable
from volcano.scheduler.engine.plugin import RejectedNodes, Rejection
from volcano.scheduler.plugins.predicates.labels import ABSENT, LabelColumns

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
LOST_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
WRONG_ZONE = "node(s) had no available volume zone"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NOT_PROVISIONED = "kubernetes.io/no-provisioner"
ASSUME_TIMEOUT = 60.0  # seconds a promise stands without the server confirming it
ZONES = {  # what a volume may be labelled with, and what a node calls the same
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}

AssumedVolumes = Mapping[str, tuple[str, float]]  # volume → claim, since when


class Volumes:
    """The claims and volumes of the cluster, and which volumes this cycle has promised to which claim."""

    def __init__(
        self, session: "Session", labels: LabelColumns, assumed: AssumedVolumes | None = None
    ) -> None:
        self.storage = session.snapshot.storage
        self.labels = labels
        self._now = session.snapshot.now
        self._before = self._unconfirmed(assumed or {})
        self._assumed = {volume: claim for volume, (claim, _) in self._before.items()}
        self._bindings: dict[
            str, dict[str, str]
        ] = {}  # task → claim → volume, empty when it will be provisioned

    def _unconfirmed(self, assumed: AssumedVolumes) -> dict[str, tuple[str, float]]:
        """AssumedVolumes of earlier cycles that the server has not confirmed yet."""
        return {
            volume: (claim, made)
            for volume, (claim, made) in assumed.items()
            if made + ASSUME_TIMEOUT > self._now
            and (known := self.storage.volumes.get(volume))
            and not known.claim
        }

    def assumed(self) -> dict[str, tuple[str, float]]:
        """Which volume is promised to which claim, and since when, for the next cycle to know."""
        return {
            volume: self._before.get(volume, (claim, self._now)) for volume, claim in self._assumed.items()
        }

    # -- before any node -------------------------------------------------------------------------------------

    def rejection(self, task: Task) -> Rejection | None:
        """What is wrong with the claims themselves."""
        for name in task.shape.constraints.claims:
            claim = self.storage.claims.get((task.namespace, name))
            if claim is None:
                return Rejection(f'persistentvolumeclaim "{name}" not found')
            if claim.deleting:
                return Rejection(f'persistentvolumeclaim "{name}" is being deleted')
            if not claim.volume and not self._binds_late(claim):
                return Rejection(UNBOUND)
        return None

    def unbound(self, task: Task) -> list[Claim]:
        """The claims of a task that get a volume only when the task gets a node."""
        found = (self.storage.claims.get((task.namespace, name)) for name in task.shape.constraints.claims)
        return [claim for claim in found if claim is not None and not claim.volume]

    def bound(self, task: Task) -> Iterator[Volume | None]:
        """The volumes of a task's bound claims; None for one that is gone."""
        for name in task.shape.constraints.claims:
            claim = self.storage.claims.get((task.namespace, name))
            if claim is not None and claim.volume:
                yield self.storage.volumes.get(claim.volume)

    def _binds_late(self, claim: Claim) -> bool:
        storage_class = self.storage.classes.get(claim.storage_class)
        return storage_class is not None and storage_class.waits

    # -- which nodes -----------------------------------------------------------------------------------------

    def node_affinity_conflicts(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Nodes that cannot reach a volume the task already has."""
        everywhere = np.ones(len(nodes), dtype=np.bool_)
        for volume in self.bound(task):
            if volume is None:
                yield RejectedNodes(everywhere, LOST_VOLUME, resolvable=False)
            elif volume.nodes is not None:
                yield RejectedNodes(
                    ~self.labels.matching(volume.nodes)[nodes.index], WRONG_NODE, resolvable=False
                )

    def zone_conflicts(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Nodes in another zone or region than a volume the task already has."""
        for volume in self.bound(task):
            labels = (
                {} if volume is None else {key: value for key, value in volume.labels.items() if key in ZONES}
            )
            if labels:
                yield RejectedNodes(self._outside_zones(labels)[nodes.index], WRONG_ZONE, resolvable=False)

    def _outside_zones(self, labels: Mapping[str, str]) -> Mask:
        """Nodes that say where they are, and are not where the labels say; values may be joined by `__`."""
        outside = np.zeros(len(self.labels.nodes), dtype=np.bool_)
        for key, values in labels.items():
            beta, stable = self.labels.column(key), self.labels.column(ZONES[key])
            wanted = [
                np.isin(column.codes, [column.code_of.get(value, -2) for value in values.split("__")])
                for column in (beta, stable)
            ]
            outside |= ~np.where(beta.present, wanted[0], wanted[1])
        return outside & self._zoned

    @cached_property
    def _zoned(self) -> Mask:
        """Nodes with any label about their zone or region; the others fit everything."""
        zoned: Mask = np.any([self.labels.column(key).codes != ABSENT for key in ZONES], axis=0)
        return zoned

    def unbindable(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Nodes for which a waiting claim finds neither a volume nor somebody to provision one."""
        for claim in self.unbound(task):
            bindable = self._provisionable(claim)
            for volume in self._candidates(claim):
                bindable = bindable | self._reaches(volume)
            yield RejectedNodes(~bindable[nodes.index], NO_VOLUME, resolvable=False)

    def _provisionable(self, claim: Claim) -> Mask:
        """Nodes for which a volume would be made on demand."""
        storage_class = self.storage.classes.get(claim.storage_class, StorageClass(""))
        nodes = len(self.labels.nodes)
        if storage_class.provisioner in ("", NOT_PROVISIONED):
            return np.zeros(nodes, dtype=np.bool_)
        allowed = np.full(nodes, not storage_class.allowed_topologies)
        for term in storage_class.allowed_topologies:
            matching = np.ones(nodes, dtype=np.bool_)
            for key, values in term:
                column = self.labels.column(key)
                matching &= np.isin(column.codes, [column.code_of.get(value, -2) for value in values])
            allowed |= matching
        if claim.selected_node:
            allowed &= np.array(
                [node.name == claim.selected_node for node in self.labels.nodes], dtype=np.bool_
            )
        return allowed

    def _candidates(self, claim: Claim) -> list[Volume]:
        """Free volumes that would do for a claim, the smallest first."""
        name = f"{claim.namespace}/{claim.name}"
        found = [
            volume
            for volume in self.storage.volumes.values()
            if volume.storage_class == claim.storage_class
            and volume.claim in ("", name)
            and volume.phase in ("Available", "", "Bound" if volume.claim == name else "Available")
            and self._assumed.get(volume.name, name) == name
            and volume.capacity >= claim.request
            and set(claim.access_modes) <= set(volume.access_modes)
            and volume.volume_mode == claim.volume_mode
            and (claim.selector is None or claim.selector.matches(volume.labels))
        ]
        return sorted(found, key=lambda volume: (volume.claim != name, volume.capacity, volume.name))

    def _reaches(self, volume: Volume) -> Mask:
        if volume.nodes is None:
            return np.ones(len(self.labels.nodes), dtype=np.bool_)
        return self.labels.matching(volume.nodes)

    # -- setting volumes aside -------------------------------------------------------------------------------

    def reserve(self, task: Task, row: int) -> Rejection | None:
        """Sets a volume aside for each waiting claim of the task; nothing is set aside when one finds none."""
        bindings: dict[str, str] = {}
        for claim in self.unbound(task):
            name = f"{claim.namespace}/{claim.name}"
            near = (each.name for each in self._candidates(claim) if self._reaches(each)[row])
            volume = next((each for each in near if each not in bindings.values()), None)
            if volume is None and not self._provisionable(claim)[row]:
                return Rejection(NO_VOLUME)
            bindings[name] = volume or ""
        self._assumed.update({volume: claim for claim, volume in bindings.items() if volume})
        self._bindings[task.uid] = bindings
        return None

    def release(self, task: Task) -> None:
        """Takes back what was set aside for a task."""
        for volume in self._bindings.pop(task.uid, {}).values():
            self._assumed.pop(volume, None)

    def bindings(self, task: Task) -> list[ClaimVolume]:
        """What becomes of each waiting claim of a placed task."""
        found = self._bindings.get(task.uid, {})
        return [
            ClaimVolume(task.namespace, claim.partition("/")[2], volume) for claim, volume in found.items()
        ]
