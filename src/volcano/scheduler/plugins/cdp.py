"""cdp: a pod is not evicted until the cooldown after its start is over."""

from collections.abc import Sequence
from typing import ClassVar

from volcano.kube.api import duration
from volcano.kube.api.names import COOLDOWN_TIME
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext
from volcano.scheduler.engine.plugin import Plugin


class Cdp(Plugin):
    """The cooldown is a label or annotation of the pod and starts when the pod is scheduled."""

    depends_on_time: ClassVar = True

    def filter_victims(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        return [task for task in candidates if not self._cooling_down(task)]

    preemptable = reclaimable = filter_victims

    def _cooling_down(self, task: Task) -> bool:
        text = task.labels.get(COOLDOWN_TIME) or task.annotations.get(COOLDOWN_TIME)
        if not text or task.status is not Status.RUNNING or not task.scheduled:
            return False
        try:
            return task.scheduled + duration.parse(text) > self.snapshot.now
        except ValueError:
            return False  # a malformed cooldown does not protect
