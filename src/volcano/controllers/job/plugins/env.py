"""env: each container learns its pod's number and how many there are of its task."""

from volcano.controllers.job.plugins.addresses import add_env, all_containers
from volcano.controllers.job.plugins.plugin import Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.manifest import Manifest


class Env(Plugin):
    """Variables under their old and their new name."""

    order = 30

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        for container in all_containers(pod):
            for prefix in ("VK", "VC"):
                add_env(container, f"{prefix}_TASK_INDEX", str(index))
            for prefix in ("VK", "VC"):
                add_env(container, f"{prefix}_TASK_NUM", str(task.replicas))
        return pod
