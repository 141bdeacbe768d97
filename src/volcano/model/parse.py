"""Parser of pods, nodes, PodGroups and queues: the only module that reads pod specs."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from volcano.base.clock import parse_timestamp
from volcano.kube.api import duration, kinds, names, quantity, selectors
from volcano.kube.api.kinds import Kind
from volcano.kube.client.protocol import Decode
from volcano.kube.devices import ascend, gpushare, vgpu
from volcano.model import resources
from volcano.model.annotations import walltime
from volcano.model.api_types import ApiNode, ApiPod, ApiPodGroup, ApiQueue, Metadata, PartialObjectMetadata
from volcano.model.job import Condition, NetworkTopology, PodGroup, SubGroupPolicy
from volcano.model.node import Node, Taint
from volcano.model.parse_auxiliary import AUXILIARY_DECODERS
from volcano.model.parse_devices import DEVICE_KINDS, DeviceParser
from volcano.model.pod_shape import ShapeCache, named, pod_claims
from volcano.model.queue import GroupAffinity, Queue
from volcano.model.status import Status
from volcano.model.task import Constraints, Shape, Task

TRUTHS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
KEPT_ANNOTATIONS = (
    "volcano.sh/",
    "scheduling.",
    "cluster-autoscaler.",
    "nvidia.com/",
    "hami.io/",
    "huawei.com/",
)
# Annotations of nodes that device plugins and the scheduler write all the time, and that decide nothing.
CHANGING_ANNOTATIONS = frozenset((vgpu.LOCK, gpushare.LOCK, ascend.LOCK))
HANDSHAKES = (vgpu.HANDSHAKE, "hami.io/node-handshake")
# Copies for device plugins of what other annotations say.
NOT_KEPT = frozenset((vgpu.TO_ALLOCATE, vgpu.NODE, vgpu.TIME, ascend.NODE, ascend.TIME))
RUNNING_STATUS = {"Running": Status.RUNNING, "Succeeded": Status.SUCCEEDED, "Failed": Status.FAILED}
# Annotations that change the score of nodes: pods that differ in them have different shapes.
SCORING_ANNOTATIONS = (names.STRATEGY_SCORING_TYPE, names.STRATEGY_WEIGHT)
NO_CONDITION = ("", "")  # reason and message
SLA = (names.SLA_WAITING_TIME, "sla-waiting-time")

_pod = msgspec.json.Decoder(ApiPod)
_node = msgspec.json.Decoder(ApiNode)
_pod_group = msgspec.json.Decoder(ApiPodGroup)
_queue = msgspec.json.Decoder(ApiQueue)
_bare = msgspec.json.Decoder(PartialObjectMetadata)


class Parser:
    """Parses objects as the API server sends them. A malformed object becomes a value with `malformed` set."""

    def __init__(self, default_queue: str = names.DEFAULT_QUEUE) -> None:
        self.shapes = ShapeCache()
        self._devices = DeviceParser()
        self._default_queue = default_queue
        self._moments: dict[str, float] = {}

    def decoder(self, kind: Kind) -> Decode:
        """Decoder for objects of a kind."""
        own: dict[Kind, Callable[[bytes], Any]] = {
            kinds.POD: self.pod,
            kinds.NODE: self.node,
            kinds.POD_GROUP: self.pod_group,
            kinds.QUEUE: self.queue,
        }
        if kind in DEVICE_KINDS:
            return self._devices.decoder(kind)
        return own.get(kind) or AUXILIARY_DECODERS[kind]

    # -- pods --------------------------------------------------------------------------------------

    def pod(self, data: bytes) -> Task:
        """Parses a pod."""
        try:
            pod = _pod.decode(data)
            return self._task(pod)
        except (msgspec.ValidationError, ValueError, TypeError, AttributeError, KeyError) as error:
            metadata = _bare.decode(data).metadata
            return self._malformed_task(metadata, f"the pod cannot be understood: {error}")

    def _task(self, pod: ApiPod) -> Task:
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        annotations, labels = metadata.annotations or {}, metadata.labels or {}
        zone = _revocable_zone(annotations)
        group = annotations.get(names.GROUP_NAME)
        scheduled, condition = self._scheduling(pod)
        kept = {k: v for k, v in annotations.items() if k.startswith(KEPT_ANNOTATIONS) and k not in NOT_KEPT}
        return Task(
            uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
            namespace=metadata.namespace,
            name=metadata.name,
            job=f"{metadata.namespace}/{group}" if group else "",
            shape=self._shape(pod, _placement_annotations(zone, annotations), kept),
            device_claims=_device_claims(pod),
            status=_status(pod),
            node=spec.node_name or "",
            role=annotations.get(names.TASK_SPEC) or labels.get(names.TASK_SPEC, ""),
            priority=_task_priority(spec.priority, annotations),
            labels=labels,
            annotations=kept,
            preemptable=_preemptable(annotations, labels, absent=True) is True,
            revocable_zone=zone,
            gates=tuple([gate.name for gate in spec.scheduling_gates]) if spec.scheduling_gates else (),
            created=self.moment(metadata.creation_timestamp),
            started=self.moment(status.start_time),
            scheduled=scheduled,
            nominated=status.nominated_node_name or "",
            scheduler=spec.scheduler_name or "default-scheduler",
            priority_class=spec.priority_class_name or "",
            disrupted=bool(metadata.deletion_timestamp) and _disrupted(pod),
            condition=condition,
            index=number_of(metadata.name),
            resource_version=metadata.resource_version,
            owner=_controller(metadata),
            deadline=float(spec.active_deadline_seconds or 0),
        )

    def _shape(self, pod: ApiPod, zone: str, annotations: Mapping[str, str]) -> Shape:
        shape = self.shapes.of(pod, zone, annotations)
        # Annotations that a pod has before it is bound assign nothing.
        return self.shapes.with_assignment(shape, annotations) if pod.spec.node_name else shape

    def _malformed_task(self, metadata: Metadata, why: str) -> Task:
        shape = Shape(
            self.shapes.index.zeros(),
            self.shapes.index.zeros()[:2],
            {},
            False,
            metadata.namespace,
            Constraints(),
            True,
            b"",
        )
        group = (metadata.annotations or {}).get(names.GROUP_NAME)
        return Task(
            uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
            namespace=metadata.namespace,
            name=metadata.name,
            job=f"{metadata.namespace}/{group}" if group else "",
            shape=shape,
            status=Status.PENDING,
            created=self.moment(metadata.creation_timestamp),
            scheduler=names.SCHEDULER_NAME,
            resource_version=metadata.resource_version,
            malformed=why,
        )

    def _scheduling(self, pod: ApiPod) -> tuple[float, tuple[str, str]]:
        """Time at which the pod was scheduled (0 if it was not), and reason and message of
        PodScheduled=False."""
        for condition in pod.status.conditions or ():
            if condition.type == "PodScheduled":
                if condition.status == "True":
                    return self.moment(condition.last_transition_time), NO_CONDITION
                if condition.status == "False":
                    return 0.0, (condition.reason or "", condition.message or "")
        return 0.0, NO_CONDITION

    def moment(self, text: str | None) -> float:
        """Seconds since the epoch; 0 when there is no timestamp."""
        if not text:
            return 0.0
        found = self._moments.get(text)
        if found is None:
            if len(self._moments) > 4096:
                self._moments.clear()
            found = self._moments[text] = parse_timestamp(text)
        return found

    # -- nodes -------------------------------------------------------------------------------------

    def node(self, data: bytes) -> Node:
        """Parses a node."""
        try:
            return self._parsed_node(_node.decode(data))
        except (msgspec.ValidationError, ValueError) as error:
            metadata = _bare.decode(data).metadata
            return Node(
                metadata.name, {}, unschedulable=True, malformed=f"the node cannot be understood: {error}"
            )

    def _parsed_node(self, node: ApiNode) -> Node:
        labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
        allocatable, capacity = (
            resources.parse(node.status.allocatable),
            resources.parse(node.status.capacity),
        )
        for name, key in (
            ("cpu", "volcano.sh/oversubscription-cpu"),
            ("memory", "volcano.sh/oversubscription-memory"),
        ):
            extra = _number(annotations.get(key))
            if extra:
                allocatable[name] = allocatable.get(name, 0.0) + extra
                capacity[name] = capacity.get(name, 0.0) + extra
        self.shapes.index = self.shapes.index.extended(allocatable)
        return Node(
            name=node.metadata.name,
            allocatable=allocatable,
            capacity=capacity,
            labels=labels,
            annotations={
                k: v
                for k, v in annotations.items()
                if k not in CHANGING_ANNOTATIONS and not k.startswith(HANDSHAKES)
            },
            taints=tuple(Taint(t.key, t.value or "", t.effect) for t in node.spec.taints or ()),
            unschedulable=bool(node.spec.unschedulable),
            images={
                name: image.size_bytes or 0
                for image in node.status.images or ()
                for name in image.names or ()
            },
            revocable_zone=labels.get(names.REVOCABLE_ZONE, ""),
            oversubscription=_truth(labels.get("volcano.sh/oversubscription")) or False,
            evicting_offline=_truth(annotations.get("volcano.sh/offline-job-evicting")) or False,
            resource_version=node.metadata.resource_version,
        )

    # -- PodGroups and queues ----------------------------------------------------------------------

    def pod_group(self, data: bytes) -> PodGroup:
        """Parses a PodGroup."""
        try:
            return self._parsed_group(_pod_group.decode(data))
        except (msgspec.ValidationError, ValueError, TypeError, AttributeError, KeyError) as error:
            metadata = _bare.decode(data).metadata
            return PodGroup(
                metadata.namespace,
                metadata.name,
                metadata.uid,
                metadata.resource_version,
                self._default_queue,
                malformed=f"the PodGroup cannot be understood: {error}",
            )

    def _parsed_group(self, record: ApiPodGroup) -> PodGroup:
        metadata, spec, status = record.metadata, record.spec, record.status
        annotations, labels = metadata.annotations or {}, metadata.labels or {}
        minimum = None if spec.min_resources is None else resources.parse(spec.min_resources)
        self.shapes.index = self.shapes.index.extended(minimum or ())
        return PodGroup(
            namespace=metadata.namespace,
            name=metadata.name,
            object_uid=metadata.uid,
            resource_version=metadata.resource_version,
            queue=spec.queue or self._default_queue,
            min_member=spec.min_member or 0,
            min_task_member=spec.min_task_member or {},
            min_resources=minimum,
            min_resources_text=_texts(spec.min_resources),
            priority_class=spec.priority_class_name or "",
            phase=status.phase or "",
            conditions=tuple(
                Condition(
                    c.type,
                    c.status,
                    c.reason or "",
                    c.message or "",
                    c.transition_id or "",
                    c.last_transition_time or "",
                )
                for c in status.conditions or ()
            ),
            counts=(status.running or 0, status.succeeded or 0, status.failed or 0),
            created=self.moment(metadata.creation_timestamp),
            labels=labels,
            annotations=annotations,
            preemptable=_preemptable(annotations, labels, absent=None),
            revocable_zone=_revocable_zone(annotations),
            sla_waiting=_waiting(annotations, SLA),
            walltime=walltime.annotated(annotations),
            reservation_timeout=_waiting(annotations, (names.QUEUE_RESERVATION_TIMEOUT,)),
            min_available_budget=annotations.get(names.JDB_MIN_AVAILABLE, ""),
            max_unavailable_budget=annotations.get(names.JDB_MAX_UNAVAILABLE, ""),
            topology=_topology(spec.network_topology),
            sub_groups=tuple(_sub_group(policy) for policy in spec.sub_group_policy or ()),
        )

    def queue(self, data: bytes) -> Queue:
        """Parses a queue."""
        try:
            return self._parsed_queue(_queue.decode(data))
        except (msgspec.ValidationError, ValueError, TypeError, AttributeError, KeyError) as error:
            metadata = _bare.decode(data).metadata
            return Queue(
                metadata.name,
                metadata.uid,
                state="Unknown",
                malformed=f"the Queue cannot be understood: {error}",
            )

    def _parsed_queue(self, record: ApiQueue) -> Queue:
        metadata, spec = record.metadata, record.spec
        capability, deserved = resources.parse(spec.capability), resources.parse(spec.deserved)
        guarantee = resources.parse((spec.guarantee or {}).get("resource"))
        self.shapes.index = self.shapes.index.extended(named((capability, deserved, guarantee)))
        return Queue(
            name=metadata.name,
            object_uid=metadata.uid,
            weight=1 if spec.weight is None else spec.weight,
            priority=spec.priority or 0,
            parent=spec.parent or "",
            capability=capability,
            deserved=deserved,
            guarantee=guarantee,
            reclaimable=True if spec.reclaimable is None else spec.reclaimable,
            state=record.status.state or "Open",
            dequeue_strategy=spec.dequeue_strategy or "traverse",
            affinity=_group_affinity(spec.affinity),
            created=self.moment(metadata.creation_timestamp),
            annotations=metadata.annotations or {},
            allocated_text={name: str(value) for name, value in (record.status.allocated or {}).items()},
            resource_version=metadata.resource_version,
            exhausted_budget=_exhausted_budget(record),
        )


def _exhausted_budget(record: ApiQueue) -> str:
    """Message of the condition of a queue that takes no new jobs while a budget is used up; empty otherwise."""
    if (record.metadata.annotations or {}).get(names.BUDGET_ACTION) != "block":
        return ""
    for condition in record.status.conditions or ():
        if condition.type == names.BUDGET_EXHAUSTED and condition.status == "True":
            return condition.message or "a budget is used up"
    return ""


def _status(pod: ApiPod) -> Status:
    phase = pod.status.phase or "Pending"
    if phase in ("Running", "Pending"):
        if pod.metadata.deletion_timestamp:
            return Status.RELEASING
        if phase == "Running":
            return Status.RUNNING
        return Status.BOUND if pod.spec.node_name else Status.PENDING
    return RUNNING_STATUS.get(phase, Status.UNKNOWN)


def _device_claims(pod: ApiPod) -> tuple[str, ...]:
    """The resource claims of a pod; those that were generated have names of their own."""
    if not pod.spec.resource_claims:
        return ()
    return tuple(claim for _, claim in pod_claims(pod) if claim is not None)


def _task_priority(given: int | None, annotations: Mapping[str, str]) -> int:
    own = annotations.get("volcano.sh/task-priority")
    if own and re.fullmatch(r"[+-]?[0-9]{1,18}", own):
        return int(own)
    return 1 if given is None else given


def number_of(name: str) -> int:
    """The number at the end of a name with at least three parts, as pods of jobs have; -1 when there is none."""
    head, _, number = name.rpartition("-")
    return int(number) if number.isdecimal() and "-" in head[1:-1] else -1


def _truth(text: str | None) -> bool | None:
    return TRUTHS.get(text.lower()) if text is not None else None


def _preemptable(
    annotations: Mapping[str, str], labels: Mapping[str, str], absent: bool | None
) -> bool | None:
    text = annotations.get(names.PREEMPTABLE, labels.get(names.PREEMPTABLE))
    if text is None:
        return absent
    return _truth(text) or False


def _placement_annotations(zone: str, annotations: Mapping[str, str]) -> str:
    """Annotations of a pod that are part of its shape."""
    found = [annotations[name] for name in SCORING_ANNOTATIONS if name in annotations]
    return "\x1e".join((zone, *found)) if found else zone


def _revocable_zone(annotations: Mapping[str, str]) -> str:
    zone = annotations.get(names.REVOCABLE_ZONE)
    if zone is not None:
        return "*" if zone == "*" else ""
    return "*" if _truth(annotations.get(names.PREEMPTABLE)) else ""


def _disrupted(pod: ApiPod) -> bool:
    return any(
        c.type == "DisruptionTarget" and c.status == "True" and c.reason == "PreemptionByScheduler"
        for c in pod.status.conditions or ()
    )


def _controller(metadata: Metadata) -> str:
    for owner in metadata.owner_references or ():
        if owner.controller:
            return owner.uid
    return ""


def _waiting(annotations: Mapping[str, str], keys: Iterable[str]) -> float | None:
    """Seconds of the first of some annotations; None for a malformed one, and for none."""
    for key in keys:
        if key in annotations:
            try:
                waiting = duration.parse(annotations[key])
            except ValueError:
                return None
            return waiting if waiting > 0 else None
    return None


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _texts(given: Mapping[str, Any] | None) -> dict[str, str] | None:
    return None if given is None else {name: quantity.canonical(value) for name, value in given.items()}


def _topology(given: Mapping[str, Any] | None) -> NetworkTopology | None:
    if not given:
        return None
    return NetworkTopology(
        given.get("mode") or "hard", given.get("highestTierAllowed"), given.get("highestTierName") or ""
    )


def _sub_group(given: Mapping[str, Any]) -> SubGroupPolicy:
    selector = given.get("labelSelector")
    return SubGroupPolicy(
        name=given.get("name", ""),
        size=given.get("subGroupSize") or 1,
        min_groups=given.get("minSubGroups") or 0,
        selector=selectors.from_object(selector) if selector is not None else None,
        match_keys=tuple(given.get("matchLabelKeys") or ()),
        topology=_topology(given.get("networkTopology")),
    )


def _group_affinity(given: Mapping[str, Any] | None) -> GroupAffinity | None:
    if not given:
        return None
    near, apart = given.get("nodeGroupAffinity") or {}, given.get("nodeGroupAntiAffinity") or {}
    required, preferred = (
        f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred")
    )
    return GroupAffinity(
        tuple(near.get(required) or ()),
        tuple(near.get(preferred) or ()),
        tuple(apart.get(required) or ()),
        tuple(apart.get(preferred) or ()),
    )
