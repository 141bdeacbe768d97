"""The PodGroup of a job."""

from collections.abc import Mapping
from typing import Any

import orjson

from volcano.controllers.job.partitions import merged_sub_groups, sub_groups
from volcano.controllers.job.run_limits import group_annotation
from volcano.controllers.job.spec import Job
from volcano.controllers.job.status import Status
from volcano.kube.api.kinds import POD_GROUP
from volcano.kube.api.manifest import Manifest, annotations_of, is_deleting, key_of, labels_of, whole_number
from volcano.kube.api.names import DEFAULT_QUEUE, DEPENDS_ON, JOB_NAME, JOB_VERSION
from volcano.kube.client.operations import Patch


def make_group(
    job: Job, status: Status, min_resources: Mapping[str, str], gang: Job | None = None
) -> Manifest:
    """The PodGroup of a job that has none; `gang` is the job with the pods that have to run together now."""
    gang = gang or job
    spec: Manifest = {
        "minMember": gang.min_available,
        "minTaskMember": {task.name: task.minimum for task in gang.tasks},
        "queue": job.queue,
        "minResources": dict(min_resources),
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.topology is not None:
        spec["networkTopology"] = _topology(job.topology)
    if policies := sub_groups(gang):
        spec["subGroupPolicy"] = policies
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "namespace": job.namespace,
            "name": job.group_name,
            "labels": {**job.labels, JOB_NAME: job.name},
            "annotations": {
                **job.annotations,
                JOB_VERSION: str(status.version),
                **group_annotation(job),
                **_dependencies(job),
            },
            "ownerReferences": [job.owner_reference()],
        },
        "spec": spec,
    }


def update_group(
    group: Manifest, job: Job, status: Status, min_resources: Mapping[str, str], gang: Job | None = None
) -> Patch | None:
    """The patch that updates a PodGroup to its job; None when it is up to date."""
    patch: Manifest = {}
    metadata: Manifest = {}
    if labels_of(group).get(JOB_NAME) != job.name:
        metadata["labels"] = {JOB_NAME: job.name}
    known = annotations_of(group)
    annotations = {name: text for name, text in group_annotation(job).items() if known.get(name) != text}
    if JOB_VERSION not in known:
        annotations[JOB_VERSION] = str(status.version)
    if annotations:
        metadata["annotations"] = annotations
    if metadata:
        patch["metadata"] = metadata
    if spec := _spec_changes(group.get("spec") or {}, gang or job, min_resources):
        patch["spec"] = spec
    return Patch(POD_GROUP, key_of(group), patch) if patch else None


def is_ready(group: Manifest | None) -> bool:
    """Whether the scheduler has enqueued the gang, so that its pods may be created."""
    if group is None or is_deleting(group):
        return False
    return (group.get("status") or {}).get("phase", "") not in ("", "Pending")


def phase_of(group: Manifest | None) -> str:
    phase: str = (group.get("status") or {}).get("phase", "") if group and not is_deleting(group) else ""
    return phase


def is_stale(group: Manifest, status: Status) -> bool:
    """Whether a PodGroup is from before the last restart of the whole job."""
    version = whole_number(annotations_of(group).get(JOB_VERSION, ""))
    return version is not None and version < status.version


def pending_condition(group: Manifest | None) -> Mapping[str, Any] | None:
    """The newest condition that is true, unless it says that the gang is scheduled."""
    conditions = [
        c
        for c in ((group or {}).get("status") or {}).get("conditions") or ()
        if c.get("status") == "True" and c.get("type") != "Reserved"
    ]
    newest = max(conditions, key=lambda condition: condition.get("lastTransitionTime") or "", default=None)
    return None if newest is None or newest.get("type") == "Scheduled" else newest


def is_equivalent(before: Manifest, after: Manifest) -> bool:
    """Whether two versions differ only in what jobs do not depend on, such as counts and times."""
    return (
        phase_of(before) == phase_of(after)
        and is_deleting(before) == is_deleting(after)
        and before.get("spec") == after.get("spec")
        and labels_of(before) == labels_of(after)
        and annotations_of(before) == annotations_of(after)
        and _words(pending_condition(before)) == _words(pending_condition(after))
    )


def _words(condition: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return () if condition is None else (condition.get("type"), condition.get("message"))


def _spec_changes(spec: Mapping[str, Any], job: Job, min_resources: Mapping[str, str]) -> Manifest:
    changes: Manifest = {}
    if (spec.get("priorityClassName") or "") != job.priority_class:
        changes["priorityClassName"] = job.priority_class or None
    if (spec.get("queue") or DEFAULT_QUEUE) != job.queue:
        changes["queue"] = job.queue
    known = spec.get("minResources") or {}
    if spec.get("minMember", 0) != job.min_available or known != min_resources:
        changes["minMember"] = job.min_available
        dropped = {name: None for name in known if name not in min_resources}
        changes["minResources"] = {**dropped, **min_resources}
    minimums = {task.name: task.minimum for task in job.tasks}
    present = spec.get("minTaskMember") or {}
    if any(present.get(name) != minimum for name, minimum in minimums.items()):
        changes["minTaskMember"] = minimums
    policies = spec.get("subGroupPolicy") or []
    wanted = merged_sub_groups(job, policies)
    if _plain(policies) != _plain(wanted):
        changes["subGroupPolicy"] = wanted or None
    return changes


def _plain(policies: list[Manifest]) -> list[tuple[Any, ...]]:
    """Sub-group policies with the server's defaults, for comparison."""
    return sorted(
        (
            policy.get("name", ""),
            policy.get("subGroupSize", 1),
            policy.get("minSubGroups", 0),
            str(policy.get("labelSelector")),
            tuple(policy.get("matchLabelKeys") or ()),
            str(_topology(policy["networkTopology"])) if policy.get("networkTopology") else "",
        )
        for policy in policies
    )


def _topology(topology: Mapping[str, Any]) -> Manifest:
    """The constraint of a PodGroup: the mode, and one of the two ways to name the highest tier."""
    tiers = [
        name for name in ("highestTierAllowed", "highestTierName") if topology.get(name) not in (None, "")
    ]
    return {"mode": topology.get("mode") or "hard", **{name: topology[name] for name in tiers[:1]}}


def _dependencies(job: Job) -> dict[str, str]:
    """Annotation with the tasks that others depend on: the scheduler explains with it why pods are missing."""
    waits = {task.name: list(task.waits_for) for task in job.tasks if task.waits_for}
    return {DEPENDS_ON: orjson.dumps(waits).decode()} if waits else {}
