"""Partitions: a task's pods in sub-groups, and the sub-group policies of its PodGroup."""

from collections.abc import Iterable

from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import PARTITION_ID, TASK_SPEC


def partition_of(task: Task, index: int) -> str | None:
    """The partition of a pod; None when its task has none."""
    if task.partitions is None:
        return None
    return str(index // task.partitions.size) if task.partitions.size > 0 else "0"


def sub_groups(job: Job) -> list[Manifest]:
    """The PodGroup's sub-group policies: one for each partitioned task."""
    return [_sub_group(task) for task in job.tasks if task.partitions is not None]


def merged_sub_groups(job: Job, present: Iterable[Manifest]) -> list[Manifest]:
    """The sub-group policies of a PodGroup: the job's own by task, others unchanged."""
    ours = {task.name for task in job.tasks}
    return [*sub_groups(job), *(policy for policy in present if policy.get("name") not in ours)]


def _sub_group(task: Task) -> Manifest:
    assert task.partitions is not None
    policy: Manifest = {
        "name": task.name,
        "subGroupSize": task.partitions.size,
        "minSubGroups": task.partitions.minimum,
        "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
        "matchLabelKeys": [PARTITION_ID],
    }
    if task.partitions.topology is not None:
        policy["networkTopology"] = dict(task.partitions.topology)
    return policy
