"""Deletion: removed at once, or marked until the grace period ends and the finalizers are removed."""

from collections.abc import Mapping
from dataclasses import dataclass

from volcano.apiserver.errors import conflict
from volcano.base.clock import Instant, parse_timestamp, timestamp
from volcano.kube.api import kinds
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest, has_ended
from volcano.kube.client.protocol import Options

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
POLICIES = ("Orphan", "Background", "Foreground")

# Kinds whose deletion answers with the object itself; the others answer with a Status.
ANSWERED_WITH_OBJECT = frozenset(
    kind.resource
    for kind in (
        kinds.POD,
        kinds.SERVICE,
        kinds.NAMESPACE,
        kinds.SERVICE_ACCOUNT,
        kinds.PERSISTENT_VOLUME,
        kinds.PERSISTENT_VOLUME_CLAIM,
        kinds.RESOURCE_QUOTA,
        kinds.POD_TEMPLATE,
        kinds.STORAGE_CLASS,
        kinds.CSI_NODE,
        kinds.CSI_DRIVER,
        kinds.VOLUME_ATTACHMENT,
    )
)
# As in Kubernetes, batch/v1 Jobs and ReplicationControllers orphan their pods by default.
ORPHANED_BY_DEFAULT = frozenset((kinds.BATCH_JOB.resource, kinds.REPLICATION_CONTROLLER.resource))


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """The outcome of a deletion request."""

    remove: bool  # now
    changed: bool = True  # whether the object was marked and has to be stored


def check_preconditions(kind: Kind, name: str, metadata: Mapping[str, str], options: Options) -> None:
    """Raises Conflict when uid or resourceVersion are not those of the preconditions."""
    if options.uid and options.uid != metadata["uid"]:
        raise conflict(
            kind,
            name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated",
        )
    version = metadata["resourceVersion"]
    if options.resource_version and options.resource_version != version:
        raise conflict(
            kind,
            name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({version}). The object might have been modified",
        )


def plan_deletion(storage: Kind, manifest: Manifest, options: Options, now: Instant) -> DeletionPlan:
    """Marks an object for deletion according to its kind, its finalizers and the options."""
    if options.propagation and options.propagation not in POLICIES:
        raise BadRequest(
            f'propagationPolicy: Unsupported value: "{options.propagation}": supported values: '
            + ", ".join(f'"{policy}"' for policy in POLICIES)
        )
    metadata = manifest["metadata"]
    before = list(metadata.get("finalizers") or ())
    finalizers = _finalizers(storage, before, options)
    if storage.resource == kinds.CRD.resource and not metadata.get("deletionTimestamp"):
        finalizers = [*(name for name in finalizers if name != CRD_CLEANUP), CRD_CLEANUP]
    finalizers_changed = finalizers != before
    if finalizers_changed:
        metadata["finalizers"] = finalizers
    marked = _mark_pod(manifest, options, now) if storage.resource == "pods" else False
    if storage.resource == "namespaces":
        marked = _mark_namespace(manifest, now)
        if (manifest.get("spec") or {}).get("finalizers"):
            return DeletionPlan(remove=False, changed=marked or finalizers_changed)
    if finalizers:
        marked = _mark(metadata, now) or marked
        return DeletionPlan(remove=False, changed=marked or finalizers_changed)
    if metadata.get("deletionGracePeriodSeconds"):
        return DeletionPlan(remove=False, changed=marked or finalizers_changed)
    return DeletionPlan(remove=True)


def is_finished(storage: Kind, manifest: Manifest) -> bool:
    """Whether an object that is being deleted can be removed."""
    metadata = manifest["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if storage.resource == "namespaces" and (manifest.get("spec") or {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _finalizers(storage: Kind, present: list[str], options: Options) -> list[str]:
    """The finalizers for the propagation policy."""
    policy = options.propagation
    if not policy:
        if FOREGROUND in present or ORPHAN in present:
            policy = "Orphan" if ORPHAN in present else "Foreground"
        else:
            policy = "Orphan" if storage.resource in ORPHANED_BY_DEFAULT else "Background"
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy)
    finalizers = [name for name in present if name not in (ORPHAN, FOREGROUND) or name == wanted]
    if wanted and wanted not in finalizers:
        finalizers.append(wanted)
    return finalizers


def _mark(metadata: Manifest, now: Instant) -> bool:
    """Marks an object without a grace period; False when it is marked already."""
    if metadata.get("deletionTimestamp"):
        return False
    metadata["deletionTimestamp"] = now.timestamp()
    metadata["deletionGracePeriodSeconds"] = 0
    _count_generation(metadata)
    return True


def _mark_namespace(namespace: Manifest, now: Instant) -> bool:
    metadata = namespace["metadata"]
    if metadata.get("deletionTimestamp"):
        return False
    metadata["deletionTimestamp"] = now.timestamp()
    namespace.setdefault("status", {})["phase"] = "Terminating"
    return True


def _mark_pod(pod: Manifest, options: Options, now: Instant) -> bool:
    """Sets the grace period of a pod, or shortens it; False when nothing changes."""
    metadata = pod["metadata"]
    asked = options.grace_seconds
    if asked is not None and asked < 0:
        asked = 1
    if metadata.get("deletionTimestamp"):
        return _shorten(metadata, asked, now)
    period = asked if asked is not None else (pod["spec"].get("terminationGracePeriodSeconds") or 0)
    if not pod["spec"].get("nodeName") or has_ended(pod):
        period = 0
    metadata["deletionTimestamp"] = timestamp(now.wall + period)
    metadata["deletionGracePeriodSeconds"] = period
    _count_generation(metadata)
    return True


def _shorten(metadata: Manifest, asked: int | None, now: Instant) -> bool:
    present = metadata.get("deletionGracePeriodSeconds") or 0
    if asked is None or asked >= present:
        return False
    ends = parse_timestamp(metadata["deletionTimestamp"]) - present + asked
    if ends < now.wall:
        # The grace period has passed: only grace 0 removes the pod here, otherwise its kubelet does.
        ends, asked = now.wall, min(asked, 1)
    metadata["deletionTimestamp"] = timestamp(ends)
    metadata["deletionGracePeriodSeconds"] = asked
    return True


def _count_generation(metadata: Manifest) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1
