"""The eviction subresource: deletes a pod if every disruption budget that covers it allows a disruption."""

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from volcano.apiserver.errors import not_found
from volcano.apiserver.interfaces import Attributes, Lookup, Served
from volcano.apiserver.registry.deletion import check_preconditions
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.result import Reply, success
from volcano.apiserver.storage.store import Stale, Store
from volcano.base.clock import Instant
from volcano.kube.api.errors import BadRequest, Cause, InternalError, TooManyRequests
from volcano.kube.api.kinds import POD, POD_DISRUPTION_BUDGET, REPLICA_SET
from volcano.kube.api.manifest import Key, Manifest, controller_of, labels_of
from volcano.kube.client.protocol import Options
from volcano.kube.resources.disruption import DisruptionStatus, Replicas, assess, is_ready, selector_of

if TYPE_CHECKING:
    from volcano.apiserver.registry.registry import Registry

DENIED_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
# Pods that do not run are not protected by budgets.
UNPROTECTED = ("Succeeded", "Failed", "Pending")


async def evict(registry: "Registry", request: Attributes, served: Served, eviction: Manifest) -> Reply:
    """Evicts the pod that a request names; raises TooManyRequests when a budget does not allow it now."""
    options = _options(request, eviction)
    await registry.pipeline.admit_body(request, eviction)
    store, key = registry.store, request.key
    while True:
        record = store.get(served.storage.resource, key)
        if record is None:
            raise not_found(served.kind, key.name)
        pod = orjson.loads(record.data)
        check_preconditions(served.kind, key.name, pod["metadata"], options)
        check_budgets(registry, pod)
        if options.dry_run:
            return success(created=True)
        _mark_disrupted(pod, registry.clock.now())
        try:
            written = store.put(served.storage.resource, pod, record)
        except Stale:
            continue
        break
    # The pod has a new version by the write above.
    options = replace(options, uid=written.uid, resource_version="")
    await registry.delete(replace(request, verb="delete", subresource="", options=options))
    return success(created=True)


def check_budgets(registry: "Registry", pod: Manifest) -> None:
    """Raises when a budget does not allow the disruption of this pod now."""
    if (pod.get("status") or {}).get("phase") in UNPROTECTED or pod["metadata"].get("deletionTimestamp"):
        return
    labels, namespace = labels_of(pod), pod["metadata"]["namespace"]
    covering = [
        budget
        for budget in registry.lookup.all(POD_DISRUPTION_BUDGET, namespace)
        if selector_of(budget).matches(labels)
    ]
    if not covering:
        return
    if len(covering) > 1:
        raise InternalError(SEVERAL_BUDGETS)
    budget = covering[0]
    pods = covered_pods(registry.store, budget)
    standing = assess(budget, pods, replicas_of_owner(registry.lookup, registry.kinds))
    if not _allows(budget, standing, pod):
        raise _too_many_requests(budget, standing)


def _allows(budget: Manifest, standing: DisruptionStatus, pod: Manifest) -> bool:
    if not is_ready(pod):
        if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return True
        if standing.healthy >= standing.desired > 0:
            return True  # the application is not disrupted, and this pod does not contribute to it
    return standing.allowed > 0


def _too_many_requests(budget: Manifest, standing: DisruptionStatus) -> TooManyRequests:
    name = budget["metadata"]["name"]
    detail = f"The disruption budget {name} needs {standing.desired} healthy pods and has {standing.healthy} currently"
    return TooManyRequests(DENIED_MESSAGE, causes=[Cause("DisruptionBudget", detail)])


def _options(request: Attributes, eviction: Manifest) -> Options:
    if not isinstance(eviction, dict) or not isinstance(eviction.get("metadata") or {}, dict):
        raise BadRequest("not a Eviction object: it must be an object with metadata")
    name = (eviction.get("metadata") or {}).get("name")
    if name != request.key.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    asked = eviction.get("deleteOptions") or {}
    preconditions = (asked.get("preconditions") or {}) if isinstance(asked, dict) else None
    if not isinstance(preconditions, dict):
        raise BadRequest("not a Eviction object: deleteOptions and its preconditions must be objects")
    if type(asked.get("gracePeriodSeconds", 0)) not in (int, type(None)):
        raise BadRequest("not a Eviction object: deleteOptions.gracePeriodSeconds must be an integer")
    return replace(
        request.options,
        dry_run=request.options.dry_run or bool(asked.get("dryRun")),
        grace_seconds=asked.get("gracePeriodSeconds", request.options.grace_seconds),
        propagation=asked.get("propagationPolicy") or request.options.propagation,
        uid=preconditions.get("uid") or request.options.uid,
        resource_version=preconditions.get("resourceVersion") or request.options.resource_version,
    )


def _mark_disrupted(pod: Manifest, now: Instant) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [condition for condition in conditions if condition.get("type") != "DisruptionTarget"]
    conditions.append(
        {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now.timestamp(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
    )


def covered_pods(store: Store, budget: Manifest) -> list[Manifest]:
    """The pods that a budget covers; only those are decoded."""
    selector, pods = selector_of(budget), store.collection(POD.resource)
    records = (pods.records[key] for key in pods.range(budget["metadata"]["namespace"]))
    return [orjson.loads(record.data) for record in records if selector.matches(record.labels)]


def replicas_of_owner(lookup: Lookup, kinds: KindTable) -> Replicas:
    """Finds the controller of a pod, or the controller of that, and reads its replicas."""

    def find(pod: Manifest) -> tuple[str, int] | None:
        holder, found = pod, None
        while (owner := controller_of(holder)) is not None:
            served = kinds.by_manifest(owner["apiVersion"], owner["kind"])
            if served is None or "scale" not in served.kind.subresources:
                break
            namespace = pod["metadata"]["namespace"] if served.kind.namespaced else ""
            manifest = lookup.find(served.kind, Key(namespace, owner["name"]))
            if manifest is None or manifest["metadata"]["uid"] != owner["uid"]:
                break
            holder, found = manifest, (owner["uid"], (manifest.get("spec") or {}).get("replicas", 1))
            if served.storage.resource != REPLICA_SET.resource:
                break
        return found

    return find
