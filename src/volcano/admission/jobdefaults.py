"""What a job's author left open, filled in: when it is created, and again whenever it is changed."""

import copy
from collections.abc import Mapping
from typing import Any

import orjson

from volcano.admission.review import AdmissionRequest, annotations_in
from volcano.kube.extended import limit_extended
from volcano.kube.manifest import Manifest
from volcano.kube.names import DEFAULT_QUEUE
from volcano.kube.patches.apply import LAST_APPLIED

DEFAULT_MAX_RETRY = 3
NEED_SVC = ("tensorflow", "mpi", "pytorch", "ray")


def default_job(request: AdmissionRequest) -> Manifest:
    """The job as submitted, with everything filled in that the user left open.

    A file that is applied again, or put in the place of the job, is as silent as it was at first: `kubectl apply`
    takes a task's defaults away with the list they stood in. So a change is completed as a creation is.
    """
    job, before = set_job_defaults(request), (request.old or {}).get("spec") or {}
    if before and _follows_tasks(job, before):
        job["spec"]["minAvailable"] = _minimum(job["spec"])
    return job


def set_job_defaults(request: AdmissionRequest) -> Manifest:
    """The job with what is missing filled in, and nothing changed that is there."""
    assert request.new is not None
    job = copy.deepcopy(request.new)
    spec = job["spec"] = job.get("spec") or {}
    before = (request.old or {}).get("spec") or {}
    # A change keeps the scheduler it had: which one is the usual may have changed since.
    usual = before.get("schedulerName") or request.options.scheduler_names[0]
    spec["schedulerName"] = spec.get("schedulerName") or usual
    set_spec_defaults(spec)
    return job


def set_spec_defaults(spec: Manifest) -> None:
    """Fills in what does not depend on anybody's settings. What is complete already stays as it is."""
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


def _follows_tasks(job: Manifest, before: Mapping[str, Any]) -> bool:
    """Whether a changed job's `minAvailable` is still the one filled in, and its author never gave one.

    A merge leaves it, for it stands in no list: a job scaled down in its file would be asked for more pods than it has.
    """
    unchanged = job["spec"].get("minAvailable") == before.get("minAvailable") == _minimum(before)
    return unchanged and not _gave_minimum(job)


def _gave_minimum(job: Manifest) -> bool:
    """Whether the author gave `minAvailable`, as far as the object tells; where it does not, he did."""
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
