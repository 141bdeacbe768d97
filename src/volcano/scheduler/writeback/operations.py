"""Operations that carry out decisions: bindings, evictions, and patches of the fields the scheduler owns."""

from collections.abc import Iterator

from volcano.base.clock import Instant
from volcano.kube.api.events import NORMAL, WARNING
from volcano.kube.api.kinds import (
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    RESOURCE_CLAIM,
)
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import QUEUE_GATE
from volcano.kube.client.operations import Create, Delete, Operation, Patch
from volcano.kube.client.protocol import Options, PatchType
from volcano.kube.controllers.recorder import EventRecorder
from volcano.kube.devices.dra.claims import FINALIZER
from volcano.model.decisions import (
    Bind,
    ClaimVolume,
    Decision,
    Evict,
    Nominate,
    RecordEvent,
    RecordPodEvent,
    RemoveGate,
    ReserveClaim,
    SetPodCondition,
    SetPodGroup,
    SetQueue,
)

MERGE = Options(patch_type=PatchType.MERGE, field_manager="vc-scheduler")
STRATEGIC = Options(patch_type=PatchType.STRATEGIC, field_manager="vc-scheduler")
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class OperationBuilder:
    """Turns decisions into operations; events and evictions name the component."""

    def __init__(self, component: str) -> None:
        self.component = component
        self._recorder = EventRecorder(component)

    def operations(self, decision: Decision, now: Instant) -> Iterator[Operation]:
        """Operations that carry out one decision, in order; an error ends them."""
        match decision:
            case Bind():
                if decision.node_annotations:
                    body = {"metadata": {"annotations": dict(decision.node_annotations)}}
                    yield Patch(NODE, Key("", decision.node), body, "", MERGE)
                for claim in decision.claims:
                    yield from claim_patches(decision.node, claim)
                yield binding(decision)
            case Evict():
                yield from self._eviction(decision, now)
            case Nominate(_, namespace, name, node):
                yield Patch(
                    POD, Key(namespace, name), {"status": {"nominatedNodeName": node}}, "status", MERGE
                )
            case SetPodGroup():
                yield Patch(
                    POD_GROUP, Key(decision.namespace, decision.name), pod_group_patch(decision), "", MERGE
                )
            case SetPodCondition():
                yield from self._condition(decision, now)
            case SetQueue(name, allocated, dropped):
                amounts: Manifest = {**allocated, **dict.fromkeys(dropped)}
                yield Patch(QUEUE, Key("", name), {"status": {"allocated": amounts}}, "status", MERGE)
            case RecordEvent(_, namespace, name, kind, reason, message, uid):
                yield from self._event(_group(namespace, name, uid), kind, reason, message, now)
            case RecordPodEvent(task, namespace, name, reason, message):
                yield from self._event(pod_reference(namespace, name, task), WARNING, reason, message, now)
            case RemoveGate(_, namespace, name):
                gates = [{"name": QUEUE_GATE, "$patch": "delete"}]
                yield Patch(POD, Key(namespace, name), {"spec": {"schedulingGates": gates}}, "", STRATEGIC)

    def _eviction(self, decision: Evict, now: Instant) -> Iterator[Operation]:
        key = Key(decision.namespace, decision.name)
        beneficiary = f" for {decision.on_behalf_of}" if decision.on_behalf_of else ""
        message = f"Pod is evicted, because of {decision.reason}{beneficiary}"
        conditions = [
            _condition("Ready", "False", "Evict", message, now),
            _condition(
                "DisruptionTarget",
                "True",
                "PreemptionByScheduler",
                f"{self.component}: preempting to accommodate a higher priority pod",
                now,
            ),
        ]
        yield Patch(POD, key, {"status": {"conditions": conditions}}, "status", STRATEGIC)
        yield Delete(POD, key, Options(uid=decision.task if "/" not in decision.task else ""))
        yield from self._event(
            pod_reference(decision.namespace, decision.name, decision.task), WARNING, "Evict", message, now
        )
        namespace, _, name = decision.job.partition("/")
        group = _group(namespace, name, decision.group_uid)
        text = f"{decision.reason}: pod {decision.name} is evicted{beneficiary}"
        yield from self._event(group, NORMAL, "Evict", text, now)

    def _condition(self, decision: SetPodCondition, now: Instant) -> Iterator[Operation]:
        condition = _condition("PodScheduled", "False", decision.reason, decision.message, now)
        body = {"status": {"conditions": [condition]}}
        yield Patch(POD, Key(decision.namespace, decision.name), body, "status", STRATEGIC)
        about = pod_reference(decision.namespace, decision.name, decision.task)
        yield from self._event(about, WARNING, "FailedScheduling", decision.message, now)

    def _event(
        self, about: Manifest, kind: str, reason: str, message: str, now: Instant
    ) -> Iterator[Operation]:
        operation = self._recorder.record(about, kind, reason, message, now)
        if operation is not None:
            yield operation


def claim_patches(node: str, claim: ClaimVolume | ReserveClaim) -> Iterator[Patch]:
    """Patches that bind a volume claim, or allocate and reserve a resource claim."""
    if isinstance(claim, ClaimVolume):
        yield volume_claim_patch(node, claim)
    else:
        yield from reservation_patches(claim)


def volume_claim_patch(node: str, claim: ClaimVolume) -> Patch:
    """Patch that binds a claim: sets claimRef of its volume, or the node that one is to be provisioned for."""
    if claim.volume:
        kind, api_version = PERSISTENT_VOLUME_CLAIM.kind, PERSISTENT_VOLUME_CLAIM.api_version
        owner = {"apiVersion": api_version, "kind": kind, "namespace": claim.namespace, "name": claim.name}
        return Patch(PERSISTENT_VOLUME, Key("", claim.volume), {"spec": {"claimRef": owner}}, "", MERGE)
    body = {"metadata": {"annotations": {SELECTED_NODE: node}}}
    return Patch(PERSISTENT_VOLUME_CLAIM, Key(claim.namespace, claim.name), body, "", MERGE)


def reservation_patches(claim: ReserveClaim) -> Iterator[Patch]:
    """Patches that reserve a claim for its pod.

    They can be written twice, and in any order for several pods of one claim: lists are merged, and the API server
    rejects an allocation that differs from the one it has.
    """
    key, identity = Key(claim.namespace, claim.name), {"uid": claim.uid}
    if claim.protect:
        yield Patch(RESOURCE_CLAIM, key, {"metadata": {**identity, "finalizers": [FINALIZER]}}, "", STRATEGIC)
    user = {"resource": "pods", "name": claim.pod, "uid": claim.pod_uid}
    status: Manifest = {"reservedFor": [user]}
    if claim.allocation is not None:
        status["allocation"] = claim.allocation
    yield Patch(RESOURCE_CLAIM, key, {"metadata": identity, "status": status}, "status", STRATEGIC)


def release_patches(claim: ReserveClaim) -> Iterator[Patch]:
    """Patches that release a claim whose pod could not be bound, the first of which suffices if it succeeds.

    The first also takes the allocation back, which the API server rejects while other pods use the claim.
    """
    key, identity = Key(claim.namespace, claim.name), {"uid": claim.uid}
    reserved = [{"$patch": "delete", "uid": claim.pod_uid}]
    if claim.allocation is not None:
        both = {"reservedFor": reserved, "allocation": None}
        yield Patch(RESOURCE_CLAIM, key, {"metadata": identity, "status": both}, "status", STRATEGIC)
    only = {"metadata": identity, "status": {"reservedFor": reserved}}
    yield Patch(RESOURCE_CLAIM, key, only, "status", STRATEGIC)


def binding(decision: Bind) -> Create:
    """Binding of a pod to its node; the uid makes the server reject it for a recreated pod."""
    metadata: Manifest = {"name": decision.name, "namespace": decision.namespace}
    if "/" not in decision.task:
        metadata["uid"] = decision.task
    if decision.annotations:
        metadata["annotations"] = dict(decision.annotations)
    return Create(
        POD,
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
        },
        "binding",
    )


def pod_group_patch(decision: SetPodGroup) -> Manifest:
    """Patch of the fields that change; PodGroup has no status subresource."""
    status: Manifest = {}
    if decision.phase is not None:
        status["phase"] = decision.phase
    if decision.conditions is not None:
        status["conditions"] = [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "transitionID": condition.transition_id,
                "lastTransitionTime": condition.last_transition or None,
            }
            for condition in decision.conditions
        ]
    if decision.counts is not None:
        status |= dict(zip(("running", "succeeded", "failed"), decision.counts, strict=True))
    patch: Manifest = {"status": status} if status else {}
    if decision.annotations is not None:
        patch["metadata"] = {"annotations": dict(decision.annotations)}
    return patch


def _condition(kind: str, status: str, reason: str, message: str, now: Instant) -> Manifest:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now.timestamp(),
        "lastProbeTime": None,
    }


def pod_reference(namespace: str, name: str, uid: str) -> Manifest:
    """Reference to a pod for its events."""
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}


def _group(namespace: str, name: str, uid: str) -> Manifest:
    """Reference to a PodGroup; kubectl describe selects events by the uid."""
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": "PodGroup",
        "namespace": namespace,
        "name": name,
        "uid": uid,
    }
