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

# Images differ in what they have: any one of these programs suffices.
_WAIT = """\
host={host} port={port} timeout={timeout} pause={pause}
has() {{ command -v "$1" >/dev/null 2>&1; }}
answers() {{
  {{ has nc && nc -z -w "$pause" "$host" "$port"; }} ||
  {{ has bash && bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port"; }} ||
  {{ has python3 && python3 -c "$in_python" "$host" "$port" "$pause"; }} ||
  {{ has python && python -c "$in_python" "$host" "$port" "$pause"; }} ||
  {{ has perl && perl -MIO::Socket::INET -e "$in_perl" "$host" "$port" "$pause"; }}
}} >/dev/null 2>&1
in_python='import socket, sys; socket.create_connection(sys.argv[1:3], float(sys.argv[3])).close()'
in_perl='exit !IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => $ARGV[1], Timeout => $ARGV[2])'
if ! has nc && ! has bash && ! has python3 && ! has python && ! has perl; then
  echo "cannot wait for $host:$port: this image has none of nc, bash, python3, python and perl" >&2
  exit 1
fi
deadline=$(( $(date +%s) + timeout ))
until answers; do
  if [ "$(date +%s)" -ge "$deadline" ]; then
    echo "$host:$port did not answer within $timeout seconds" >&2
    exit 1
  fi
  sleep "$pause"
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
        if master is None or not (hosts := addresses(job, master)):
            return pod
        port = self.arguments.number("port")
        variables = {
            "MASTER_ADDR": hosts[0],
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(master.replicas + (worker.replicas if worker else 0)),
        }
        if task is master:
            variables["RANK"] = "0"
        elif task is worker:
            variables["RANK"] = str(index + 1)
            if self.arguments.flag("wait-master-enabled"):
                self._wait_for(pod, hosts[0], port)
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
