"""Host names of a job's pods, and changes to containers that several plugins make."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from volcano.controllers.job.plugins.plugin import PluginError
from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.manifest import Manifest

MAX_HOSTS = 100_000


def hosts(job: Job, task: Task) -> list[str]:
    """The host names of a task's pods; only one if the template sets it."""
    fixed = _template_spec(task).get("hostname")
    if fixed:
        return [fixed] if task.replicas else []
    if task.replicas > MAX_HOSTS:
        raise PluginError(
            f"task {task.name!r} has {task.replicas} replicas; the host names of more than {MAX_HOSTS} pods "
            "fit into no ConfigMap or variable"
        )
    return [f"{job.name}-{task.name}-{index}" for index in range(task.replicas)]


def first_address(job: Job, task: Task) -> str:
    """The qualified name of a task's first pod; empty if it has none."""
    return next(iter(addresses(job, task)), "")


def addresses(job: Job, task: Task) -> list[str]:
    """The host names of a task's pods, qualified so that they resolve within the namespace."""
    domain = subdomain(job, task)
    return [f"{host}.{domain}" for host in hosts(job, task)]


def subdomain(job: Job, task: Task) -> str:
    domain: str = _template_spec(task).get("subdomain") or job.name
    return domain


def all_containers(pod: Manifest) -> Iterator[Manifest]:
    """The containers of a pod, then its init containers."""
    yield from pod["spec"].get("containers") or ()
    yield from pod["spec"].get("initContainers") or ()


def main_containers(pod: Manifest) -> Iterator[Manifest]:
    yield from pod["spec"].get("containers") or ()


def add_env(container: Manifest, name: str, value: str) -> None:
    container.setdefault("env", []).append({"name": name, "value": value})


def add_missing_env(container: Manifest, variables: Sequence[Manifest]) -> None:
    """Adds the variables that the container does not have already, of its author or of another plugin.

    The variables are shared by the pods of a job, which may have thousands of each: they are not changed later.
    """
    env = container.setdefault("env", [])
    present = {variable.get("name") for variable in env}
    for variable in variables:
        if variable["name"] not in present:
            present.add(variable["name"])
            env.append(variable)


def add_port(container: Manifest, name: str, number: int) -> None:
    """Adds a port unless the container has one of that number."""
    ports = container.setdefault("ports", [])
    if all(port.get("containerPort") != number for port in ports):
        ports.append({"name": name, "containerPort": number, "protocol": "TCP"})


def _template_spec(task: Task) -> Mapping[str, Any]:
    return task.template.get("spec") or {}
