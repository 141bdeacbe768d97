"""svc: lets pods of a job find each other by name, with a headless Service and lists of hosts."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from volcano.controllers.job.plugins.addresses import (
    add_missing_env,
    addresses,
    all_containers,
    first_address,
)
from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import KeySource, Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.kinds import CONFIG_MAP, NETWORK_POLICY, SERVICE
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import JOB_NAME, JOB_NAMESPACE

MOUNT_PATH = "/etc/volcano"


class Svc(Plugin):
    """A Service, a NetworkPolicy that admits only the job's own pods, and a ConfigMap of hosts."""

    order = 10
    defaults: ClassVar[Mapping[str, Value]] = {
        "publish-not-ready-addresses": False,
        "disable-network-policy": False,
        "inject-hosts-env": True,
    }

    def __init__(self, name: str, arguments: Sequence[str], keys: KeySource) -> None:
        super().__init__(name, arguments, keys)
        self._variables: tuple[list[Manifest], list[Manifest]] | None = None

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        spec, name = pod["spec"], config_map_name(job)
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.name
        spec.setdefault("volumes", []).append({"name": name, "configMap": {"name": name}})
        inject = self.arguments.flag("inject-hosts-env")
        for container in all_containers(pod):
            if inject:
                self._add_hosts(container, job)
            container.setdefault("volumeMounts", []).append({"name": name, "mountPath": MOUNT_PATH})
        return pod

    def _add_hosts(self, container: Manifest, job: Job) -> None:
        """Adds the variables of every task, which are the same for all pods of the job: those of the ConfigMap by
        reference, and the task's first host by value."""
        if self._variables is None:
            config_map = config_map_name(job)
            references: list[Manifest] = [
                {"name": key, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}}
                for task in job.tasks
                for key in variables(task)
            ]
            first_hosts: list[Manifest] = [
                {"name": f"{_prefix(task)}_HOST", "value": first_address(job, task)} for task in job.tasks
            ]
            self._variables = references, first_hosts
        references, first_hosts = self._variables
        container.setdefault("env", []).extend(references)
        add_missing_env(container, first_hosts)

    def extras(self, job: Job) -> list[Manifest]:
        own = {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}
        service: Manifest = {
            "clusterIP": "None",
            "selector": own,
            "publishNotReadyAddresses": self.arguments.flag("publish-not-ready-addresses"),
        }
        policy: Manifest = {
            "podSelector": {"matchLabels": own},
            "ingress": [{"from": [{"podSelector": {"matchLabels": own}}]}],
            "policyTypes": ["Ingress"],
        }
        extras: list[Manifest] = [
            {
                "apiVersion": CONFIG_MAP.api_version,
                "kind": CONFIG_MAP.kind,
                "metadata": {"name": config_map_name(job)},
                "data": host_lists(job),
            },
            {
                "apiVersion": SERVICE.api_version,
                "kind": SERVICE.kind,
                "metadata": {"name": job.name},
                "spec": service,
            },
        ]
        if not self.arguments.flag("disable-network-policy"):
            extras.append(
                {
                    "apiVersion": NETWORK_POLICY.api_version,
                    "kind": NETWORK_POLICY.kind,
                    "metadata": {"name": job.name},
                    "spec": policy,
                }
            )
        return extras


def config_map_name(job: Job) -> str:
    return f"{job.name}-svc"


def variables(task: Task) -> tuple[str, str]:
    """The variables of a task in the ConfigMap: all its hosts, and their number."""
    return f"{_prefix(task)}_HOSTS", f"{_prefix(task)}_NUM"


def host_lists(job: Job) -> dict[str, str]:
    """The data of the ConfigMap."""
    data: dict[str, str] = {}
    for task in job.tasks:
        hosts = addresses(job, task)
        every, count = variables(task)
        data[f"{_identifier(task)}.host"] = "\n".join(hosts)
        data[every] = ",".join(hosts)
        data[count] = str(len(hosts))
    return data


def _prefix(task: Task) -> str:
    return f"VC_{_identifier(task).upper()}"


def _identifier(task: Task) -> str:
    return task.name.replace("-", "_")
