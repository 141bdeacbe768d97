"""env: sets the index of a pod and the replicas of its task as environment variables."""

from volcano.controllers.job.plugins.addresses import add_env, add_missing_env, all_containers
from volcano.controllers.job.plugins.plugin import Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.manifest import Manifest


class Env(Plugin):
    """Variables with the prefixes of old and new releases."""

    order = 30

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        count = str(task.replicas)
        for container in all_containers(pod):
            for prefix in ("VK", "VC"):
                add_env(container, f"{prefix}_TASK_INDEX", str(index))
            # For a task named `task`, VC_TASK_NUM is a variable of the svc plugin.
            add_missing_env(
                container, [{"name": f"{prefix}_TASK_NUM", "value": count} for prefix in ("VK", "VC")]
            )
        return pod
