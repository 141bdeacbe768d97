"""Defaults of jobs, on creation and on every update."""

import copy
from collections.abc import Mapping
from typing import Any

import orjson

from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import DEFAULT_QUEUE
from volcano.kube.patches.apply import LAST_APPLIED
from volcano.kube.resources.extended import limit_extended
from volcano.webhooks.review import AdmissionRequest, annotations_in
from volcano.webhooks.users import set_user

DEFAULT_MAX_RETRY = 3
NEED_SVC = ("tensorflow", "mpi", "pytorch", "ray")


def default_job(request: AdmissionRequest) -> Manifest:
    """The job with all defaults.

    An update with `kubectl apply` or `replace` omits the same fields as the creation did, and removes the
    defaults of tasks with the list that held them. So updates get the same defaults.
    """
    job, before = set_job_defaults(request), (request.old or {}).get("spec") or {}
    if before and _is_default_minimum(job, before):
        job["spec"]["minAvailable"] = _minimum(job["spec"])
    return job


def set_job_defaults(request: AdmissionRequest) -> Manifest:
    """The job with defaults for missing fields; present fields are unchanged."""
    assert request.new is not None
    job = copy.deepcopy(set_user(request))
    spec = job["spec"] = job.get("spec") or {}
    before = (request.old or {}).get("spec") or {}
    # An update keeps the scheduler: the default one may have changed since.
    usual = before.get("schedulerName") or request.options.scheduler_names[0]
    spec["schedulerName"] = spec.get("schedulerName") or usual
    set_spec_defaults(spec)
    return job


def set_spec_defaults(spec: Manifest) -> None:
    """Sets the defaults that do not depend on options. A complete spec is unchanged."""
    spec["queue"] = spec.get("queue") or DEFAULT_QUEUE
    spec["maxRetry"] = spec.get("maxRetry") or DEFAULT_MAX_RETRY
    for index, task in enumerate(spec.get("tasks") or ()):
        if task is not None:
            _set_task_defaults(task, index)
    spec["minAvailable"] = spec.get("minAvailable") or _minimum(spec)
    plugins = spec.get("plugins")
    if plugins:
        needed = [
            *(["svc"] if any(name in plugins for name in NEED_SVC) else []),
            *(["ssh"] if "mpi" in plugins else []),
        ]
        for name in needed:
            plugins[name] = plugins.get(name) or []


def _set_task_defaults(task: Manifest, index: int) -> None:
    task["name"] = task.get("name") or f"default{index}"
    task["maxRetry"] = task.get("maxRetry") or DEFAULT_MAX_RETRY
    if task.get("minAvailable") is None:
        partition = task.get("partitionPolicy") or {}
        partitions, size = partition.get("minPartitions") or 0, partition.get("partitionSize") or 0
        task["minAvailable"] = partitions * size if partitions > 0 else task.get("replicas") or 0
    pod = (task.get("template") or {}).get("spec") or {}
    if pod.get("hostNetwork") and not pod.get("dnsPolicy"):
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"
    limit_extended(pod)


def _minimum(spec: Mapping[str, Any]) -> int:
    return sum((task or {}).get("minAvailable") or 0 for task in spec.get("tasks") or ())


def _is_default_minimum(job: Manifest, before: Mapping[str, Any]) -> bool:
    """Whether the `minAvailable` of a changed job is still the default, not given by its author.

    A merge keeps it, as it is in no list: a job scaled down in its file would require more pods than it
    has.
    """
    unchanged = job["spec"].get("minAvailable") == before.get("minAvailable") == _minimum(before)
    return unchanged and not _author_set_minimum(job)


def _author_set_minimum(job: Manifest) -> bool:
    """Whether the author set `minAvailable`, according to the last applied configuration or the managed
    fields; true when neither is set."""
    applied = annotations_in(job).get(LAST_APPLIED)
    if applied:
        try:
            return "minAvailable" in (orjson.loads(applied).get("spec") or {})
        except (ValueError, AttributeError):
            return True
    entries = (job.get("metadata") or {}).get("managedFields") or ()
    given = [(entry.get("fieldsV1") or {}).get("f:spec") or {} for entry in entries if _by_apply(entry)]
    return not given or any("f:minAvailable" in fields for fields in given)


def _by_apply(entry: Mapping[str, Any]) -> bool:
    return entry.get("operation") == "Apply" and not entry.get("subresource")
