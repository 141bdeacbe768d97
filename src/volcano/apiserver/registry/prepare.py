"""Fields that the server sets on creation and preserves on updates of built-in kinds."""

from collections.abc import Callable, Mapping
from typing import Any

from volcano.apiserver.registry.devices import drop_deallocated_devices, prepare_slice
from volcano.apiserver.schema.crds import first_status, next_status
from volcano.apiserver.schema.validation.certificates import DECISIONS
from volcano.base.clock import Instant
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.qos import qos_class

Prepare = Callable[[Manifest, Instant], None]

# Kinds whose metadata.generation counts the changes of their spec.
GENERATION_KINDS: frozenset[Kind] = frozenset(
    {
        kinds.POD, kinds.REPLICATION_CONTROLLER, kinds.POD_TEMPLATE, kinds.PRIORITY_CLASS,
        kinds.POD_DISRUPTION_BUDGET, kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.DAEMON_SET,
        kinds.BATCH_JOB, kinds.BATCH_CRON_JOB, kinds.ENDPOINT_SLICE, kinds.NETWORK_POLICY, kinds.INGRESS,
        kinds.INGRESS_CLASS, kinds.MUTATING_WEBHOOK, kinds.VALIDATING_WEBHOOK, kinds.CRD, kinds.DEVICE_CLASS,
        kinds.RESOURCE_SLICE,
    }
)  # fmt: skip
# The initial status, whatever the client sent.
INITIAL_STATUS: Mapping[Kind, Mapping[str, Any]] = {
    kinds.NAMESPACE: {"phase": "Active"},
    kinds.SERVICE: {"loadBalancer": {}},
    kinds.INGRESS: {"loadBalancer": {}},
    kinds.PERSISTENT_VOLUME: {"phase": "Pending"},
    kinds.PERSISTENT_VOLUME_CLAIM: {"phase": "Pending"},
    kinds.RESOURCE_QUOTA: {},
    kinds.REPLICATION_CONTROLLER: {"replicas": 0},
    kinds.POD_DISRUPTION_BUDGET: {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
    kinds.VOLUME_ATTACHMENT: {"attached": False},
    kinds.DEPLOYMENT: {},
    kinds.REPLICA_SET: {"replicas": 0},
    kinds.STATEFUL_SET: {"replicas": 0, "availableReplicas": 0},
    kinds.DAEMON_SET: {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    kinds.BATCH_JOB: {},
    kinds.BATCH_CRON_JOB: {},
    kinds.CERTIFICATE_SIGNING_REQUEST: {},
    kinds.RESOURCE_CLAIM: {},
    kinds.HORIZONTAL_POD_AUTOSCALER: {"desiredReplicas": 0, "currentMetrics": None},
    kinds.HORIZONTAL_POD_AUTOSCALER_V1: {"currentReplicas": 0, "desiredReplicas": 0},
}
_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_NOT_DESIRED_STATE = ("apiVersion", "kind", "metadata", "status")
# Kinds whose status may be written together with labels and annotations.
_STATUS_WITH_METADATA = (kinds.POD, kinds.NODE, kinds.PERSISTENT_VOLUME, kinds.PERSISTENT_VOLUME_CLAIM)


def prepare_for_create(kind: Kind, manifest: Manifest, now: Instant) -> None:
    """Sets the initial status, generation one, and the fields of the server."""
    if kind in GENERATION_KINDS:
        manifest["metadata"]["generation"] = 1
    if kind in INITIAL_STATUS:
        manifest["status"] = {
            name: dict(value) if isinstance(value, dict) else value
            for name, value in INITIAL_STATUS[kind].items()
        }
    if (prepare := _PREPARE.get(kind)) is not None:
        prepare(manifest, now)


def prepare_for_update(kind: Kind, new: Manifest, old: Manifest, subresource: str, now: Instant) -> None:
    """Preserves the fields that this (sub)resource may not change, and increments the generation."""
    if kind == kinds.CERTIFICATE_SIGNING_REQUEST:
        prepare_certificate_update(new, old, subresource, now)
        return
    if subresource == "status":
        _only_status(kind, new, old)
        if kind == kinds.PERSISTENT_VOLUME:
            _stamp_phase(new, old, now)
        elif kind == kinds.RESOURCE_CLAIM:
            drop_deallocated_devices(new, old)
        return
    if kind == kinds.NAMESPACE:
        _keep_finalizers(new, old, subresource)
    if "status" in kind.subresources:
        _copy_field("status", new, old)
    if kind == kinds.RESOURCE_SLICE:
        prepare_slice(new, now)
    metadata, before = new["metadata"], old["metadata"]
    if kind in GENERATION_KINDS:
        generation = before.get("generation") or 0
        changed = _desired_state_changed(kind, new, old)
        metadata["generation"] = generation + 1 if changed else generation
    elif "generation" in before:
        metadata["generation"] = before["generation"]
    if kind == kinds.DAEMON_SET:
        _increment_template_generation(new, old)
    elif kind == kinds.SERVICE:
        _preserve_addresses(new["spec"], old["spec"])
    elif kind == kinds.CRD:
        new["status"] = next_status(new, old.get("status") or {})
    elif kind == kinds.POD and subresource == "ephemeralcontainers":
        spec = dict(old["spec"])
        _copy_field("ephemeralContainers", spec, new.get("spec") or {})
        new["spec"] = spec


def _desired_state_changed(kind: Kind, new: Manifest, old: Manifest) -> bool:
    for name in new.keys() | old.keys():
        if name not in _NOT_DESIRED_STATE and new.get(name) != old.get(name):
            return True
    if kind == kinds.DEPLOYMENT:
        return (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {})
    return False


def _only_status(kind: Kind, new: Manifest, old: Manifest) -> None:
    """Makes `new` the old object with a new status; most kinds keep their labels and annotations too."""
    metadata, status = new["metadata"], new.get("status")
    after = dict(old["metadata"])
    for name in ("resourceVersion", "managedFields"):
        _copy_field(name, after, metadata)
    if kind in _STATUS_WITH_METADATA:
        for name in ("labels", "annotations", "finalizers"):
            _copy_field(name, after, metadata)
    new.clear()
    new.update(old)
    new["metadata"] = after
    if status is None:
        new.pop("status", None)
    else:
        new["status"] = status


def _copy_field(name: str, target: Manifest, source: Manifest) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _keep_finalizers(new: Manifest, old: Manifest, subresource: str) -> None:
    spec = new.setdefault("spec", {})
    if subresource != "finalize":
        _copy_field("finalizers", spec, old.get("spec") or {})


def _stamp_phase(new: Manifest, old: Manifest, now: Instant) -> None:
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if status.get("phase") != before.get("phase"):
        status["lastPhaseTransitionTime"] = now.timestamp()


def _increment_template_generation(new: Manifest, old: Manifest) -> None:
    """Maintains the deprecated template generation of daemon sets in its annotation."""
    count = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or 1)
    if new["spec"].get("template") != old["spec"].get("template"):
        count += 1
    annotations = new["metadata"].get("annotations")
    if annotations is None:
        annotations = new["metadata"]["annotations"] = {}
    annotations[_TEMPLATE_GENERATION] = str(count)


def _preserve_addresses(spec: Manifest, before: Manifest) -> None:
    """Preserves the addresses of a service whose update omits them."""
    if spec.get("type") == "ExternalName" or before.get("type") == "ExternalName":
        return
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
        if not spec.get(name) and before.get(name):
            spec[name] = before[name]
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        given = {
            (port.get("protocol"), port.get("port")): port.get("nodePort")
            for port in before.get("ports") or ()
        }
        for port in spec.get("ports") or ():
            known = given.get((port.get("protocol"), port.get("port")))
            if not port.get("nodePort") and known:
                port["nodePort"] = known


def _prepare_pod(pod: Manifest, now: Instant) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    gates = pod["spec"].get("schedulingGates")
    if gates:
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": None,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _prepare_namespace(namespace: Manifest, now: Instant) -> None:
    spec = namespace.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _prepare_node(node: Manifest, now: Instant) -> None:
    status = node.setdefault("status", {})
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")


def _prepare_volume(volume: Manifest, now: Instant) -> None:
    volume["status"]["lastPhaseTransitionTime"] = now.timestamp()


def _prepare_daemon_set(workload: Manifest, now: Instant) -> None:
    annotations = workload["metadata"].get("annotations")
    if annotations is None:
        annotations = workload["metadata"]["annotations"] = {}
    annotations[_TEMPLATE_GENERATION] = "1"


def _prepare_job(job: Manifest, now: Instant) -> None:
    """Unless it has a selector of its own, a job selects its pods by its uid."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or not spec.get("template"):
        return
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    template = spec["template"].setdefault("metadata", {})
    labels = dict(template.get("labels") or {})
    for prefix in ("batch.kubernetes.io/", ""):
        labels.setdefault(f"{prefix}job-name", name)
        labels.setdefault(f"{prefix}controller-uid", uid)
    template["labels"] = labels
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    selector = spec.get("selector")
    if selector is None:
        selector = spec["selector"] = {}
    selector.setdefault("matchLabels", {}).setdefault("batch.kubernetes.io/controller-uid", uid)


def _prepare_crd(crd: Manifest, now: Instant) -> None:
    crd["status"] = first_status(crd, now)


_PREPARE: Mapping[Kind, Prepare] = {
    kinds.POD: _prepare_pod,
    kinds.NAMESPACE: _prepare_namespace,
    kinds.NODE: _prepare_node,
    kinds.PERSISTENT_VOLUME: _prepare_volume,
    kinds.DAEMON_SET: _prepare_daemon_set,
    kinds.BATCH_JOB: _prepare_job,
    kinds.CRD: _prepare_crd,
    kinds.RESOURCE_SLICE: prepare_slice,
}


def prepare_certificate_update(new: Manifest, old: Manifest, subresource: str, now: Instant) -> None:
    """Keeps the fields that this (sub)resource may not change: all but metadata on a plain update, all but conditions
    on an approval, and the decisions on an update of the status."""
    submitted = new.get("status") or {}
    before = old.get("status") or {}
    new["spec"] = old.get("spec") or {}
    if not subresource:
        new["status"] = before
        return
    conditions = [dict(each) for each in submitted.get("conditions") or () if isinstance(each, dict)]
    if subresource == "status":
        _keep_decisions(conditions, before.get("conditions") or [])
    _set_timestamps(conditions, before.get("conditions") or [], now)
    source = before if subresource == "approval" else submitted
    status = {name: value for name, value in source.items() if name != "conditions"}
    new["status"] = {"conditions": conditions, **status} if conditions else status


def _keep_decisions(conditions: list[Manifest], before: list[Manifest]) -> None:
    """Replaces decisions by the stored ones, in place; validation rejects it when their number differs."""
    for type_ in DECISIONS:
        stored = [each for each in before if each.get("type") == type_]
        places = [index for index, each in enumerate(conditions) if each.get("type") == type_]
        if len(stored) == len(places):
            for index, condition in zip(places, stored, strict=True):
                conditions[index] = dict(condition)


def _set_timestamps(conditions: list[Manifest], before: list[Manifest], now: Instant) -> None:
    known = {
        (each.get("type"), each.get("status")): each["lastTransitionTime"]
        for each in before
        if each.get("lastTransitionTime")
    }
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now.timestamp()
        if not condition.get("lastTransitionTime"):
            key = (condition.get("type"), condition.get("status"))
            condition["lastTransitionTime"] = known.get(key, now.timestamp())
