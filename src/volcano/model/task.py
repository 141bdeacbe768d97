"""Task: one pod as the scheduler sees it. Shape: the equivalence class of pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from volcano.kube.api.selectors import LabelSelector, NodeSelector
from volcano.model.numa import NumaRequest
from volcano.model.resources import Vector
from volcano.model.status import Status


class Toleration(NamedTuple):
    """One toleration; an empty key tolerates every taint, an empty effect every effect."""

    key: str
    operator: str  # Equal or Exists
    value: str
    effect: str


class PreferredNodes(NamedTuple):
    """A weighted node preference."""

    weight: int
    nodes: NodeSelector


class PodTerm(NamedTuple):
    """Pod affinity term: selected pods and the topology key."""

    selector: LabelSelector
    topology_key: str
    namespaces: frozenset[str]  # explicit ones, or the pod's own when neither list nor selector is given
    namespace_selector: LabelSelector | None = None
    weight: int = 0  # for preferences


class SpreadConstraint(NamedTuple):
    """One topology spread constraint."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: str  # DoNotSchedule or ScheduleAnyway
    selector: LabelSelector
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class HostPort(NamedTuple):
    """A port of the host; an empty address means all of them."""

    protocol: str
    port: int
    address: str = ""


class DeviceClaimReference(NamedTuple):
    """A resource claim of a pod: one by name, or one that is generated from a template for each pod."""

    name: str  # the pod's name for it
    claim: str = ""
    template: str = ""
    generated: bool = True  # false while the claim of a template does not exist


@dataclass(frozen=True, slots=True)
class Constraints:
    """Placement constraints beyond resources."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    required_nodes: NodeSelector | None = None
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    required_near: tuple[PodTerm, ...] = ()  # pod affinity
    preferred_near: tuple[PodTerm, ...] = ()
    required_apart: tuple[PodTerm, ...] = ()  # pod anti-affinity
    preferred_apart: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    claims: tuple[
        str, ...
    ] = ()  # persistent volume claims, by name; generic ephemeral ones as "<pod>-<volume>"
    volumes: tuple[
        Mapping[str, Any], ...
    ] = ()  # in-tree volumes with conflicts (gcePersistentDisk, iscsi, rbd, ...)
    images: tuple[str, ...] = ()
    device_claims: tuple[DeviceClaimReference, ...] = ()


class DeviceRequest(NamedTuple):
    """Extended resources of each container that has any, in thousandths, and the annotations that choose devices."""

    containers: tuple[Mapping[str, float], ...]
    annotations: Mapping[str, str]


class Shape(msgspec.Struct, frozen=True, eq=False):
    """Equivalence class of pods: all that filters and scorers read of a pod except labels, status and
    identity. Pods with the same namespace, resources, images, constraints and volumes have the same Shape
    object, so that results are computed once per shape and cached with it as the key. Shapes are compared
    by identity.
    """

    request: Vector  # with 1 in the column of pods
    nonzero_request: Vector  # cpu and memory, where containers without requests count 100m and 200 MB
    limits: Mapping[str, float]
    best_effort: bool  # has no requests; placed by backfill
    namespace: str
    constraints: Constraints
    preempts: bool  # preemptionPolicy is not Never
    key: bytes  # fields it was parsed from; equal shapes have equal keys
    devices: DeviceRequest | None = None  # None without extended resources
    numa: NumaRequest | None = None  # None where the NUMA topology of nodes does not matter

    @property
    def has_pod_terms(self) -> bool:
        """Whether pods of this shape have affinity terms that apply to pods placed later."""
        constraints = self.constraints
        return bool(constraints.required_apart or constraints.preferred_near or constraints.preferred_apart)


class Task(msgspec.Struct, frozen=True, eq=False):
    """One pod. Tasks with the same `uid` are the same pod; a changed pod is a new Task."""

    uid: str
    namespace: str
    name: str
    job: str  # uid of its job: "<namespace>/<PodGroup>", or "" when the pod belongs to none
    shape: Shape
    status: Status
    node: str = ""
    role: str = ""
    priority: int = 1
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}  # only those with prefixes of Volcano and of device plugins
    preemptable: bool = True
    revocable_zone: str = ""
    gates: tuple[str, ...] = ()
    created: float = 0.0
    started: float = 0.0  # 0 when not
    scheduled: float = 0.0  # when PodScheduled became true; 0 when it is not
    nominated: str = ""
    scheduler: str = "volcano"
    priority_class: str = ""
    disrupted: bool = False  # being deleted because the scheduler preempted it
    condition: tuple[str, str] = ("", "")  # reason and message of PodScheduled=False
    index: int = -1  # the number at the end of its name, for ordering
    resource_version: str = ""
    owner: str = ""  # uid of the controller that manages it
    device_claims: tuple[str, ...] = ()  # names of its resource claims that exist
    deadline: float = 0.0  # activeDeadlineSeconds: seconds that it runs at most; 0 without one
    malformed: str = ""  # parse error; such a task is never placed

    @property
    def request(self) -> Vector:
        """Requests of the pod, in the columns of the snapshot's ResourceIndex."""
        return self.shape.request

    @property
    def best_effort(self) -> bool:
        return self.shape.best_effort

    @property
    def gated(self) -> bool:
        """Whether it has scheduling gates."""
        return bool(self.gates)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return f"Task({self.key} {self.status}{' on ' + self.node if self.node else ''})"
