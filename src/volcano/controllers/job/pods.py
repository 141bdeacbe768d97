"""Pods of a job: the template is built once for a task and copied for each pod."""

from collections.abc import Callable, Mapping, Sequence

import orjson

from volcano.controllers.job.partitions import partition_of
from volcano.controllers.job.plugins.plugin import Plugin, PluginError
from volcano.controllers.job.spec import Job, Task
from volcano.controllers.job.status import Status
from volcano.controllers.job.volumes import mount
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import (
    COOLDOWN_TIME,
    GROUP_NAME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    NUMA_POLICY,
    PARTITION_ID,
    PREEMPTABLE,
    QUEUE_NAME,
    REVOCABLE_ZONE,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
    USER,
)
from volcano.kube.resources.extended import limit_extended

FORWARDING = "volcano.sh/job-forwarding"


def pod_name(job: Job, task: Task, index: int) -> str:
    return f"{job.name}-{task.name}-{index}"


def pod_maker(
    job: Job, task: Task, status: Status, plugins: Sequence[Plugin], *, forwarded: bool = False
) -> Callable[[int], Manifest]:
    """Returns a function that builds the pod of an index; it raises PluginError."""
    template = orjson.dumps(_template(job, task, status, forwarded=forwarded))

    def make(index: int) -> Manifest:
        pod: Manifest = orjson.loads(template)
        metadata = pod["metadata"]
        metadata["name"] = pod_name(job, task, index)
        metadata["labels"][TASK_INDEX] = metadata["annotations"][TASK_INDEX] = str(index)
        partition = partition_of(task, index)
        if partition is not None:
            metadata["labels"][PARTITION_ID] = partition
        for plugin in plugins:
            pod = _decorated(plugin, pod, job, task, index)
        return pod

    return make


def _decorated(plugin: Plugin, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
    try:
        return plugin.decorate(pod, job, task, index)
    except PluginError:
        raise
    except Exception as error:  # code of a third party, which may raise anything
        raise PluginError(f"plugin {plugin.name} failed: {error!r}") from error


def _template(job: Job, task: Task, status: Status, *, forwarded: bool) -> Manifest:
    metadata = task.template.get("metadata") or {}
    # The template belongs to the cached job: only a copy may be changed.
    spec: Manifest = orjson.loads(orjson.dumps(task.template.get("spec") or {}))
    spec["schedulerName"] = spec.get("schedulerName") or job.scheduler_name
    if not spec.get("priorityClassName") and job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    limit_extended(spec)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        # The status of the job quotes what a failed container wrote last.
        if not container.get("terminationMessagePolicy") and not container.get("terminationMessagePath"):
            container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    mount(spec, job)
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            "name": "",
            "namespace": job.namespace,
            "labels": {**(metadata.get("labels") or {}), **_labels(job, task, forwarded=forwarded)},
            "annotations": {
                **(metadata.get("annotations") or {}),
                **_annotations(job, task, status, forwarded=forwarded),
            },
            "ownerReferences": [job.owner_reference()],
        },
        "spec": spec,
    }


def _labels(job: Job, task: Task, *, forwarded: bool) -> Mapping[str, str]:
    return {
        TASK_SPEC: task.name,
        JOB_NAME: job.name,
        JOB_NAMESPACE: job.namespace,
        QUEUE_NAME: job.queue,
        **{name: job.labels[name] for name in (PREEMPTABLE, COOLDOWN_TIME) if name in job.labels},
        **({FORWARDING: "true"} if forwarded else {}),
    }


def _annotations(job: Job, task: Task, status: Status, *, forwarded: bool) -> Mapping[str, str]:
    inherited = [PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE, USER]
    inherited.append(JDB_MIN_AVAILABLE if JDB_MIN_AVAILABLE in job.annotations else JDB_MAX_UNAVAILABLE)
    return {
        TASK_SPEC: task.name,
        JOB_NAME: job.name,
        QUEUE_NAME: job.queue,
        JOB_VERSION: str(status.version),
        JOB_RETRY_COUNT: str(status.retries),
        TEMPLATE_UID: f"{job.name}-{task.name}",
        GROUP_NAME: job.group_name,
        **({NUMA_POLICY: task.numa_policy} if task.numa_policy else {}),
        **{name: job.annotations[name] for name in inherited if name in job.annotations},
        **({FORWARDING: "true"} if forwarded else {}),
    }
