"""ray: starts the head and its workers as one cluster, with a Service for the head."""

from collections.abc import Mapping
from typing import ClassVar

from volcano.controllers.job.plugins.addresses import add_port, addresses, main_containers
from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import Plugin, PluginError
from volcano.controllers.job.spec import Job, Task
from volcano.kube.kinds import SERVICE
from volcano.kube.manifest import Manifest
from volcano.kube.names import JOB_NAME, JOB_NAMESPACE, TASK_SPEC

# The head's ports by name, and the argument that sets each.
PORTS = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}


class Ray(Plugin):
    """Changes only the named container of each role."""

    order = 70
    defaults: ClassVar[Mapping[str, Value]] = {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    }

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        head = job.task(self.arguments.text("head"))
        if head is None:
            raise PluginError(
                f"plugin ray: the job has no task {self.arguments.text('head')!r}; "
                "name the head's task with --head"
            )
        for container in main_containers(pod):
            if task is head and container.get("name") == self.arguments.text("headContainer"):
                self._make_head(container)
            elif (task.name, container.get("name")) == self._worker:
                self._make_worker(container, job, head)
        return pod

    def extras(self, job: Job) -> list[Manifest]:
        selector = {
            JOB_NAME: job.name,
            JOB_NAMESPACE: job.namespace,
            TASK_SPEC: self.arguments.text("head"),
        }
        ports = [
            {"name": name, "port": self.arguments.number(argument), "protocol": "TCP", "targetPort": name}
            for name, argument in PORTS.items()
        ]
        return [
            {
                "apiVersion": SERVICE.api_version,
                "kind": SERVICE.kind,
                "metadata": {"name": f"{job.name}-head-svc"},
                "spec": {"type": "ClusterIP", "selector": selector, "ports": ports},
            }
        ]

    @property
    def _worker(self) -> tuple[str, str]:
        return self.arguments.text("worker"), self.arguments.text("workerContainer")

    def _make_head(self, container: Manifest) -> None:
        for name, argument in PORTS.items():
            add_port(container, name, self.arguments.number(argument))
        options = {
            "dashboard-host": "0.0.0.0",
            "port": self.arguments.number("port"),
            "dashboard-port": self.arguments.number("dashboardPort"),
            "ray-client-server-port": self.arguments.number("clientPort"),
        }
        arguments = ["ray start --head --block", *(f"--{name}={value}" for name, value in options.items())]
        container["command"] = ["sh", "-c", " ".join(arguments)]

    def _make_worker(self, container: Manifest, job: Job, head: Task) -> None:
        hosts = addresses(job, head)
        if not hosts:
            raise PluginError(f"plugin ray: task {head.name!r} has no pod; a cluster needs one head")
        address = f"{hosts[0]}:{self.arguments.number('port')}"
        container["command"] = ["sh", "-c", f"ray start --block --address={address}"]
