"""pytorch: sets the master's address, the rank and the world size of every process."""

from collections.abc import Mapping
from typing import ClassVar

from volcano.controllers.job.plugins.addresses import add_env, add_port, addresses, main_containers
from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.manifest import Manifest

WAIT_CONTAINER = "wait-for-master"
PROBE_SECONDS = 2

_WAIT = """\
deadline=$(( $(date +%s) + {timeout} ))
until nc -z -w {pause} {host} {port} 2>/dev/null || (exec 3<>/dev/tcp/{host}/{port}) 2>/dev/null; do
  if [ "$(date +%s)" -ge "$deadline" ]; then
    echo "{host}:{port} did not answer within {timeout} seconds" >&2
    exit 1
  fi
  sleep {pause}
done
"""


class Pytorch(Plugin):
    """Leaves a job without a master task unchanged."""

    order = 60
    defaults: ClassVar[Mapping[str, Value]] = {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    }

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        master, worker = job.task(self.arguments.text("master")), job.task(self.arguments.text("worker"))
        if master is None or not (found := addresses(job, master)):
            return pod
        port = self.arguments.number("port")
        variables = {
            "MASTER_ADDR": found[0],
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(master.replicas + (worker.replicas if worker else 0)),
        }
        if task is master:
            variables["RANK"] = "0"
        elif task is worker:
            variables["RANK"] = str(index + 1)
            if self.arguments.flag("wait-master-enabled"):
                self._wait_for(pod, found[0], port)
        for container in main_containers(pod):
            add_port(container, "pytorchjob-port", port)
            for name, value in variables.items():
                add_env(container, name, value)
        return pod

    def _wait_for(self, pod: Manifest, host: str, port: int) -> None:
        """Adds an init container that waits for the master."""
        waiting = pod["spec"].setdefault("initContainers", [])
        if any(container.get("name") == WAIT_CONTAINER for container in waiting):
            return
        script = _WAIT.format(
            host=host, port=port, timeout=self.arguments.number("wait-master-timeout"), pause=PROBE_SECONDS
        )
        waiting.append(
            {
                "name": WAIT_CONTAINER,
                "image": self.arguments.text("wait-master-image"),
                "command": ["sh", "-c", script],
            }
        )
