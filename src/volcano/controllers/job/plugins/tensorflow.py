"""tensorflow: sets the cluster and each container's place in it as TF_CONFIG."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import orjson

from volcano.controllers.job.plugins.addresses import add_env, addresses, main_containers
from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import KeySource, Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.manifest import Manifest

ROLES = ("ps", "worker", "chief", "evaluator")


class Tensorflow(Plugin):
    """Leaves a job of a single pod unchanged."""

    order = 40
    defaults: ClassVar[Mapping[str, Value]] = {**{role: role for role in ROLES}, "port": 2222}

    def __init__(self, name: str, arguments: Sequence[str], keys: KeySource) -> None:
        super().__init__(name, arguments, keys)
        self._roles = {self.arguments.text(role): role for role in ROLES}  # by the name of their task
        self._cluster: dict[str, list[str]] | None = None

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        if len(job.tasks) == 1 and job.replicas == 1:
            return pod
        if self._cluster is None:
            self._cluster = self._addresses(job)
        own = {"type": self._roles.get(task.name, task.name), "index": index}
        config = orjson.dumps({"cluster": self._cluster, "task": own}).decode()
        for container in main_containers(pod):
            add_env(container, "TF_CONFIG", config)
        return pod

    def _addresses(self, job: Job) -> dict[str, list[str]]:
        port = self.arguments.number("port")
        cluster = {}
        for role in ROLES:
            task = job.task(self.arguments.text(role))
            if task is not None and (hosts := addresses(job, task)):
                cluster[role] = [f"{address}:{port}" for address in hosts]
        return cluster
