"""conformance: system-critical pods go first and are never evicted."""

from collections.abc import Sequence

from volcano.model.job import Job
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext
from volcano.scheduler.engine.plugin import Plugin

SYSTEM_NAMESPACE = "kube-system"
CRITICAL = frozenset(("system-cluster-critical", "system-node-critical"))


class Conformance(Plugin):
    """Protects pods of `kube-system` and pods with a system priority class in any namespace."""

    orders_first = True  # also before jobs of a higher priority
    depends_on_preemptor = False

    def job_order(self, job: Job) -> bool:
        return not (job.namespace == SYSTEM_NAMESPACE or job.group.priority_class in CRITICAL)

    def task_order(self, task: Task) -> bool:
        return not protected(task)

    def filter_victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        return [task for task in candidates if not protected(task)]

    # The candidates are filtered already; voting for them lets this tier decide.
    preemptable = reclaimable = unified_evictable = filter_victims


def protected(task: Task) -> bool:
    """Reports whether a pod must never be evicted."""
    return task.namespace == SYSTEM_NAMESPACE or task.priority_class in CRITICAL
