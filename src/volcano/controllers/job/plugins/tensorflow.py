"""tensorflow: each container is told the whole cluster and its own place in it, in TF_CONFIG."""

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import orjson

from volcano.controllers.job.plugins.addresses import add_env, addresses, main_containers
from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.manifest import Manifest

ROLES = ("ps", "worker", "chief", "evaluator")


class Tensorflow(Plugin):
    """A lone pod needs no cluster and is left as it is."""

    defaults: ClassVar[Mapping[str, Value]] = {**{role: role for role in ROLES}, "port": 2222}

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        if len(job.tasks) == 1 and job.replicas == 1:
            return pod
        role = self._roles.get(task.name, task.name)
        config = orjson.dumps(
            {"cluster": self._cluster(job), "task": {"type": role, "index": index}}
        ).decode()
        for container in main_containers(pod):
            add_env(container, "TF_CONFIG", config)
        return pod

    @cached_property
    def _roles(self) -> dict[str, str]:
        """Roles by the name of the task that plays them."""
        return {self.arguments.text(role): role for role in ROLES}

    def _cluster(self, job: Job) -> dict[str, list[str]]:
        cached: dict[str, list[str]] | None = self.__dict__.get("_known_cluster")
        if cached is None:
            port = self.arguments.number("port")
            cached = {}
            for role in ROLES:
                task = job.task(self.arguments.text(role))
                found = [f"{address}:{port}" for address in addresses(job, task)] if task else []
                if found:
                    cached[role] = found
            self.__dict__["_known_cluster"] = cached
        return cached
