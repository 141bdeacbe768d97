"""hcclrank: annotates each pod with its rank among masters and workers."""

from collections.abc import Mapping
from typing import ClassVar

from volcano.controllers.job.plugins.addresses import main_containers
from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.manifest import Manifest

RANK_INDEX = "hccl/rankIndex"


class Hcclrank(Plugin):
    """A rank that the pod has already, as annotation or as RANK, takes precedence."""

    order = 80
    defaults: ClassVar[Mapping[str, Value]] = {"master": "master", "worker": "worker"}

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        annotations = pod["metadata"].setdefault("annotations", {})
        if RANK_INDEX not in annotations:
            rank = _given_rank(pod) or self._rank(job, task, index)
            if rank is not None:
                annotations[RANK_INDEX] = rank
        return pod

    def _rank(self, job: Job, task: Task, index: int) -> str | None:
        if task.name == self.arguments.text("master"):
            return str(index)
        if task.name == self.arguments.text("worker"):
            master = job.task(self.arguments.text("master"))
            return str((master.replicas if master else 0) + index)
        return None


def _given_rank(pod: Manifest) -> str | None:
    for container in main_containers(pod):
        for variable in container.get("env") or ():
            if variable.get("name") == "RANK" and variable.get("value"):
                value: str = variable["value"]
                return value
    return None
