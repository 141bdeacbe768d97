"""mpi: sets the workers' addresses on the master, and opens the port of the ssh server on every container."""

from collections.abc import Mapping
from typing import ClassVar

from volcano.controllers.job.plugins.addresses import add_env, add_port, addresses, all_containers
from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.manifest import Manifest


class Mpi(Plugin):
    """MPI_HOST for the master, `mpijob-port` for all."""

    order = 50
    defaults: ClassVar[Mapping[str, Value]] = {"master": "master", "worker": "worker", "port": 22}

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        if task.name == self.arguments.text("master"):
            workers = job.task(self.arguments.text("worker"))
            if workers is None:
                return pod
            for container in all_containers(pod):
                add_env(container, "MPI_HOST", ",".join(addresses(job, workers)))
        for container in all_containers(pod):
            add_port(container, "mpijob-port", self.arguments.number("port"))
        return pod
