"""ssh: lets pods of a job log in to each other with a key pair generated for the job."""

from base64 import b64encode
from collections.abc import Mapping
from typing import ClassVar

from volcano.controllers.job.plugins.addresses import all_containers, hosts, subdomain
from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import NotYet, Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.kinds import SECRET
from volcano.kube.api.manifest import Manifest

HOME = "/root/.ssh"
DEFAULT_PORT = 22
FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


class Ssh(Plugin):
    """Mounts a Secret with keys and client configuration where ssh expects them."""

    order = 20
    defaults: ClassVar[Mapping[str, Value]] = {
        "ssh-key-file-path": HOME,
        "ssh-private-key": "",
        "ssh-public-key": "",
        "ssh-port": DEFAULT_PORT,
    }

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        name, path = secret_name(job), self.arguments.text("ssh-key-file-path")
        pod["spec"].setdefault("volumes", []).append(
            {
                "name": name,
                "secret": {
                    "secretName": name,
                    "items": [{"key": file, "path": f".ssh/{file}"} for file in FILES],
                    # Users other than root must be able to read it.
                    "defaultMode": 0o600 if path == HOME else 0o644,
                },
            }
        )
        for container in all_containers(pod):
            container.setdefault("volumeMounts", []).append(
                {"name": name, "mountPath": path, "subPath": ".ssh"}
            )
        return pod

    def extras(self, job: Job) -> list[Manifest]:
        private, public = self.arguments.text("ssh-private-key"), self.arguments.text("ssh-public-key")
        given = _keys(private, public) if private and public else {}
        return [
            {
                "apiVersion": SECRET.api_version,
                "kind": SECRET.kind,
                "metadata": {"name": secret_name(job)},
                "type": "Opaque",
                "data": {**given, "config": _encoded(client_config(job, self._port()))},
            }
        ]

    def fill(self, manifest: Manifest) -> Manifest:
        data = manifest["data"]
        if "id_rsa" in data:
            return manifest
        pair = self.keys()
        if pair is None:
            raise NotYet
        return {**manifest, "data": {**_keys(*pair), **data}}

    def _port(self) -> int:
        port = self.arguments.number("ssh-port")
        return port if 0 < port <= 65535 else DEFAULT_PORT


def secret_name(job: Job) -> str:
    return f"{job.name}-ssh"


def client_config(job: Job, port: int) -> str:
    """The ssh client configuration of the job's hosts. Host keys are not checked: the hosts are new."""
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.tasks:
        domain = subdomain(job, task)
        for host in hosts(job, task):
            lines += [f"Host {host}", f"  HostName {host}.{domain}", f"  Port {port}"]
    return "\n".join(lines) + "\n"


def _keys(private: str, public: str) -> dict[str, str]:
    return {
        "id_rsa": _encoded(private),
        "id_rsa.pub": _encoded(public),
        "authorized_keys": _encoded(public),
    }


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
