"""Builds runs and job records from manifests."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple

import orjson
from msgspec.structs import replace

from volcano.accounting.api import JobRecord, Outcome, Run, Workload
from volcano.accounting.recorder.gpus import GpuInventory, Gpus
from volcano.accounting.recorder.outcomes import ending_of, moment_of
from volcano.kube.api.manifest import Key, Manifest, annotations_of, controller_of, key_of, labels_of, uid_of
from volcano.kube.api.names import (
    DEFAULT_QUEUE,
    GROUP_NAME,
    JOB_NAME,
    POD_QUEUE_NAME,
    QUEUE_NAME,
    TASK_SPEC,
    USER,
)
from volcano.kube.resources.pod_requests import requests_of

FINISHED: Final = ("Completed", "Failed", "Terminated", "Aborted")
MOST_CACHED: Final = 10_000


class Group(NamedTuple):
    """What accounting needs of a PodGroup."""

    queue: str
    user: str


FindGroup = Callable[[Key], Group | None]


class RunBuilder:
    """Builds runs. Pods of one task share their Workload, which is built once."""

    def __init__(self, gpus: GpuInventory, find_group: FindGroup) -> None:
        self._gpus = gpus
        self._find_group = find_group
        self._requests: dict[bytes, dict[str, float]] = {}
        self._workloads: dict[Hashable, Workload] = {}

    def run(self, pod: Manifest, started: float) -> Run:
        metadata = pod["metadata"]
        return Run(
            uid=metadata["uid"],
            pod=metadata["name"],
            node=pod["spec"].get("nodeName") or "",
            workload=self._workload(pod),
            created=_moment(metadata.get("creationTimestamp"), started),
            started=started,
        )

    def _workload(self, pod: Manifest) -> Workload:
        labels, annotations = labels_of(pod), annotations_of(pod)
        namespace = pod["metadata"]["namespace"]
        owner = controller_of(pod) or {}
        group = self._find_group(Key(namespace, annotations.get(GROUP_NAME, "")))
        given = annotations.get(QUEUE_NAME) or labels.get(QUEUE_NAME) or annotations.get(POD_QUEUE_NAME)
        queue = group.queue if group else given or DEFAULT_QUEUE
        user = annotations.get(USER) or (group.user if group else "")
        job = labels.get(JOB_NAME) or owner.get("name") or pod["metadata"]["name"]
        task = annotations.get(TASK_SPEC) or labels.get(TASK_SPEC, "")
        shape = _shape(pod["spec"])
        requests = self._requests.get(shape)
        if requests is None:
            requests = _remember(self._requests, shape, requests_of(pod["spec"]))
        gpus: Gpus = self._gpus.of(pod, requests)
        key = (shape, namespace, queue, user, job, owner.get("uid", ""), task, gpus)
        found = self._workloads.get(key)
        if found is None:
            uid = str(owner.get("uid", ""))
            made = Workload(namespace, queue, user, job, uid, task, gpus.type, gpus.number, requests)
            found = _remember(self._workloads, key, made)
        return found


def ended_run(run: Run, pod: Manifest, ended: float, *, estimated: bool = False) -> Run:
    """A run that is over, as the last status of its pod says."""
    ending = ending_of(pod)
    evictions = int(ending.outcome in (Outcome.EVICTED, Outcome.NODE_LOST))
    return replace(
        run,
        ended=ended,
        outcome=ending.outcome,
        reason=ending.reason,
        evictions=evictions,
        estimated=estimated,
    )


def group_of(manifest: Manifest) -> Group:
    queue = (manifest.get("spec") or {}).get("queue") or DEFAULT_QUEUE
    return Group(queue, annotations_of(manifest).get(USER, ""))


def job_record(job: Manifest, deleted: float | None = None) -> JobRecord:
    """The record of a Job, at present or as it was when it was deleted."""
    spec, state = job.get("spec") or {}, (job.get("status") or {}).get("state") or {}
    phase = str(state.get("phase") or "Pending")
    created = _moment(job["metadata"].get("creationTimestamp"), 0.0)
    return JobRecord(
        uid=uid_of(job),
        namespace=key_of(job).namespace,
        name=key_of(job).name,
        queue=spec.get("queue") or DEFAULT_QUEUE,
        user=annotations_of(job).get(USER, ""),
        created=created,
        phase=phase,
        finished=_moment(state.get("lastTransitionTime"), created) if phase in FINISHED else None,
        deleted=deleted,
        message=str(state.get("message") or ""),
        min_available=int(spec.get("minAvailable") or 0),
        tasks={task.get("name", ""): int(task.get("replicas") or 0) for task in spec.get("tasks") or ()},
    )


def _shape(spec: Mapping[str, Any]) -> bytes:
    """What the requests of a pod depend on."""
    containers = [container.get("resources") for container in spec.get("containers") or ()]
    inits = [(c.get("resources"), c.get("restartPolicy")) for c in spec.get("initContainers") or ()]
    return orjson.dumps((containers, inits, spec.get("resources"), spec.get("overhead")))


def _remember(cache: dict[Any, Any], key: Hashable, value: Any) -> Any:
    if len(cache) >= MOST_CACHED:
        cache.clear()
    cache[key] = value
    return value


def _moment(text: str | None, otherwise: float) -> float:
    try:
        return moment_of(text) if text else otherwise
    except ValueError:
        return otherwise
