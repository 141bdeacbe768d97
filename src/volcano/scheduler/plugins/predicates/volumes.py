"""Volumes: nodes on which a pod's claims can be bound, and the volumes assumed for them."""

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from volcano.model.decisions import ClaimVolume
from volcano.model.resources import Mask
from volcano.model.storage import Claim, StorageClass, Volume
from volcano.model.task import Task
from volcano.scheduler.engine.answers import RejectedNodes
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.predicates.labels import ABSENT, LabelColumns

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
LOST_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
WRONG_ZONE = "node(s) had no available volume zone"
NO_SPACE = "node(s) did not have enough free storage"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
CLAIM_PROBLEM, MISMATCH = Code.VOLUME_CLAIM_PROBLEM, Code.VOLUME_MISMATCH
NOT_PROVISIONED = "kubernetes.io/no-provisioner"
ASSUME_TIMEOUT = 60.0  # seconds until an assumed volume is given up without confirmation of the API server
ZONES = {  # label of a volume → stable label of a node
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}

AssumedVolumes = Mapping[str, tuple[str, float]]  # volume → claim, since when


class Volumes:
    """The claims and volumes of the cluster, and the volumes assumed for claims in this cycle."""

    def __init__(self, session: Session, labels: LabelColumns, assumed: AssumedVolumes | None = None) -> None:
        self.storage = session.snapshot.storage
        self.labels = labels
        self._now = session.snapshot.now
        self._before = self._unconfirmed(assumed or {})
        self._assumed = {volume: claim for volume, (claim, _) in self._before.items()}
        self._bindings: dict[
            str, dict[str, str]
        ] = {}  # task → claim → volume, empty when it will be provisioned

    def _unconfirmed(self, assumed: AssumedVolumes) -> dict[str, tuple[str, float]]:
        """Returns assumed volumes of earlier cycles that the API server has not confirmed yet."""
        return {
            volume: (claim, made)
            for volume, (claim, made) in assumed.items()
            if made + ASSUME_TIMEOUT > self._now
            and (known := self.storage.volumes.get(volume))
            and not known.claim
        }

    def assumed(self) -> dict[str, tuple[str, float]]:
        """Returns the assumed volumes, with claim and time, for the next cycle."""
        return {
            volume: self._before.get(volume, (claim, self._now)) for volume, claim in self._assumed.items()
        }

    # -- claims ----------------------------------------------------------------------------------------------

    def rejection(self, task: Task) -> Rejection | None:
        """Rejects a task whose claims are missing, terminating, or not bound although they bind immediately."""
        for name in task.shape.constraints.claims:
            claim = self.storage.claims.get((task.namespace, name))
            if claim is None:
                return Rejection(f'persistentvolumeclaim "{name}" not found', CLAIM_PROBLEM)
            if claim.deleting:
                return Rejection(f'persistentvolumeclaim "{name}" is being deleted', CLAIM_PROBLEM)
            if not claim.volume and not self._binds_late(claim):
                return Rejection(UNBOUND, CLAIM_PROBLEM)
        return None

    def unbound(self, task: Task) -> list[Claim]:
        """Returns the claims of a task that are bound when the task is scheduled."""
        found = (self.storage.claims.get((task.namespace, name)) for name in task.shape.constraints.claims)
        return [claim for claim in found if claim is not None and not claim.volume]

    def bound(self, task: Task) -> Iterator[Volume | None]:
        """Yields the volumes of a task's bound claims; None for a missing volume."""
        for name in task.shape.constraints.claims:
            claim = self.storage.claims.get((task.namespace, name))
            if claim is not None and claim.volume:
                yield self.storage.volumes.get(claim.volume)

    def _binds_late(self, claim: Claim) -> bool:
        storage_class = self.storage.classes.get(claim.storage_class)
        return storage_class is not None and storage_class.waits

    # -- filters ---------------------------------------------------------------------------------------------

    def node_affinity_conflicts(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Yields the nodes that the node affinity of a bound volume excludes."""
        everywhere = np.ones(len(nodes), dtype=np.bool_)
        for volume in self.bound(task):
            if volume is None:
                yield RejectedNodes(everywhere, LOST_VOLUME, resolvable=False, code=CLAIM_PROBLEM)
            elif volume.nodes is not None:
                mask = ~self.labels.matching(volume.nodes)[nodes.index]
                yield RejectedNodes(mask, WRONG_NODE, resolvable=False, code=MISMATCH)

    def zone_conflicts(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Yields the nodes in another zone or region than a bound volume."""
        for volume in self.bound(task):
            labels = (
                {} if volume is None else {key: value for key, value in volume.labels.items() if key in ZONES}
            )
            if labels:
                mask = self._outside_zones(labels)[nodes.index]
                yield RejectedNodes(mask, WRONG_ZONE, resolvable=False, code=MISMATCH)

    def _outside_zones(self, labels: Mapping[str, str]) -> Mask:
        """Returns the nodes with zone labels that do not match; a volume's values may be joined by `__`."""
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
        """Nodes with any zone or region label; the others match every volume."""
        zoned: Mask = np.any([self.labels.column(key).codes != ABSENT for key in ZONES], axis=0)
        return zoned

    def unbindable(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Yields the nodes for which a claim has neither a volume nor a provisioner."""
        for claim in self.unbound(task):
            allowed, enough = self._provisionable(claim), self._has_space(claim)
            existing = np.zeros(len(self.labels.nodes), dtype=np.bool_)
            for volume in self._candidates(claim):
                existing |= self._reaches(volume)
            mask = ~(existing | allowed)[nodes.index]
            yield RejectedNodes(mask, NO_VOLUME, resolvable=False, code=MISMATCH)
            mask = (allowed & ~existing & ~enough)[nodes.index]
            yield RejectedNodes(mask, NO_SPACE, resolvable=False, code=MISMATCH)

    def _has_space(self, claim: Claim) -> Mask:
        """Returns the nodes for which a volume of that size can be provisioned, as far as its driver publishes it."""
        storage_class = self.storage.classes.get(claim.storage_class, StorageClass(""))
        driver = self.storage.drivers.get(storage_class.provisioner)
        if driver is None or not driver.publishes_capacity:
            return np.ones(len(self.labels.nodes), dtype=np.bool_)
        reachable = [
            capacity.nodes
            for capacity in self.storage.capacities
            if capacity.storage_class == claim.storage_class and capacity.largest >= claim.request
        ]
        return np.array(
            [any(nodes.matches(node.labels) for nodes in reachable) for node in self.labels.nodes],
            dtype=np.bool_,
        )

    def _provisionable(self, claim: Claim) -> Mask:
        """Returns the nodes for which a volume can be provisioned."""
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
        """Returns the available volumes that satisfy a claim, the smallest first."""
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

    # -- reservations ----------------------------------------------------------------------------------------

    def reserve(self, task: Task, row: int) -> Rejection | None:
        """Assumes a volume for each unbound claim of the task; for none if one claim has no volume."""
        bindings: dict[str, str] = {}
        for claim in self.unbound(task):
            name = f"{claim.namespace}/{claim.name}"
            near = (each.name for each in self._candidates(claim) if self._reaches(each)[row])
            volume = next((each for each in near if each not in bindings.values()), None)
            if volume is None and not self._provisionable(claim)[row]:
                return Rejection(NO_VOLUME, MISMATCH)
            if volume is None and not self._has_space(claim)[row]:
                return Rejection(NO_SPACE, MISMATCH)
            bindings[name] = volume or ""
        self._assumed.update({volume: claim for claim, volume in bindings.items() if volume})
        self._bindings[task.uid] = bindings
        return None

    def release(self, task: Task) -> None:
        """Releases the volumes assumed for a task."""
        for volume in self._bindings.pop(task.uid, {}).values():
            self._assumed.pop(volume, None)

    def bindings(self, task: Task) -> list[ClaimVolume]:
        """Returns the volume of each unbound claim of a placed task."""
        found = self._bindings.get(task.uid, {})
        return [
            ClaimVolume(task.namespace, claim.partition("/")[2], volume) for claim, volume in found.items()
        ]
