"""The `minResources` of a job's PodGroup: what its smallest gang counts as against a ResourceQuota."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.quantity import Quantity
from volcano.kube.resources.pod_requests import usage


def min_resources(job: Job, priorities: Mapping[str, int]) -> dict[str, str]:
    """The quota usage of `minAvailable` pods; pods of higher priority are counted first."""
    total: dict[str, Quantity] = {}
    for task, count in _gang(job, priorities):
        if count:
            for name, quantity in usage(task.template.get("spec") or {}).items():
                known = total.get(name, Quantity(Decimal(0), quantity.family))
                total[name] = Quantity(known.amount + quantity.amount * count, known.family)
    return {name: str(total[name]) for name in sorted(total)}


def _gang(job: Job, priorities: Mapping[str, int]) -> Iterable[tuple[Task, int]]:
    """The number of pods of each task in the smallest gang."""
    tasks = sorted(job.tasks, key=lambda task: -priorities.get(_priority_class(task), 0))
    taken = dict.fromkeys((task.name for task in tasks), 0)
    left = job.min_available
    minima = sum(task.minimum for task in tasks)
    rounds: list[Sequence[int]] = [[task.replicas for task in tasks]]
    if job.min_available >= minima:
        rounds = [[task.minimum for task in tasks], [task.replicas - task.minimum for task in tasks]]
    for wanted in rounds:
        for task, most in zip(tasks, wanted, strict=True):
            count = max(min(most, left), 0)
            taken[task.name] += count
            left -= count
    return [(task, taken[task.name]) for task in tasks]


def _priority_class(task: Task) -> str:
    name: str = (task.template.get("spec") or {}).get("priorityClassName") or ""
    return name
