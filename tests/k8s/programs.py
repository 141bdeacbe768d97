"""Our programs as processes on a real cluster, restarted when they exit, as a kubelet would."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.k8s.control_plane.build import program
from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.plain import QUEUES, Api, StatusError, until
from volcano.kube.api import crds

ROOT = Path(__file__).parents[2]
LEASE_SECONDS = 3.0
RETRY_SECONDS = 0.3
ELECTION = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=300ms",
)
NODES = 10


@dataclass(slots=True)
class Running:
    """A program and its present process; `wanted` means that it is restarted when it exits."""

    command: Sequence[str]
    process: subprocess.Popen[bytes]
    wanted: bool = True
    ended_at: float = 0.0
    starts: int = 1


class Programs:
    """Programs by name, and their cluster."""

    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        self.cluster = cluster
        self.api = Api(cluster)
        self.directory = directory
        self.running: dict[str, Running] = {}
        self.restart_after = 1.0
        self._stopping = threading.Event()
        threading.Thread(target=self._restart_exited, daemon=True).start()

    def start(self, name: str, *arguments: str, kubeconfig: Path | None = None, ahead: float = 0.0) -> None:
        """Starts `scheduler`, `controllers`, `webhooks` or `nodes`; replicas have numbers: `scheduler-2`.

        Its wall clock is `ahead` by this many seconds.
        """
        module = name.partition("-")[0]
        where = ("--kubeconfig", str(kubeconfig or self.cluster.kubeconfig))
        entry = ("volcano", "nodes") if module == "nodes" else (module,)
        fast = ("--check-every=1", f"--ahead={ahead}") if module == "webhooks" else (f"--ahead={ahead}",)
        command = [sys.executable, "-m", "tests.k8s.launcher", *fast, *entry, *where, *arguments]
        self.running[name] = Running(command, self._spawn(name, command))

    def _spawn(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with open(self.directory / f"{name}.log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    def kill(self, name: str) -> None:
        """Kills a process (SIGKILL); it is restarted after `restart_after` seconds."""
        self.running[name].process.kill()
        self.running[name].process.wait()

    def end(self, name: str, *, graceful: bool = True) -> None:
        """Ends a program without restarting it."""
        found = self.running[name]
        found.wanted = False
        (found.process.terminate if graceful else found.process.kill)()
        found.process.wait(timeout=30)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.running[name].process.send_signal(number)

    def pid(self, name: str) -> int:
        return self.running[name].process.pid

    def _restart_exited(self) -> None:
        while not self._stopping.wait(0.1):
            for name, found in list(self.running.items()):
                if not found.wanted or found.process.poll() is None:
                    continue
                if not found.ended_at:
                    found.ended_at = time.monotonic()
                elif time.monotonic() - found.ended_at >= self.restart_after:
                    found.ended_at, found.starts = 0.0, found.starts + 1
                    found.process = self._spawn(name, found.command)

    def stop(self) -> None:
        self._stopping.set()
        time.sleep(0.2)
        for found in self.running.values():
            found.process.terminate()
        for found in self.running.values():
            try:
                found.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                found.process.kill()
                found.process.wait()

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(program("kubectl")), "--kubeconfig", str(self.cluster.kubeconfig), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)

    def vcctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "volcano.cmd.vcctl", *arguments]
        command += ["--kubeconfig", str(self.cluster.kubeconfig)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def logs(self) -> str:
        parts = (f"== {path.name}\n{path.read_text()[-2500:]}" for path in self.directory.glob("*.log"))
        return "\n".join(parts)

    def prepare(self, *namespaces: str) -> None:
        """Installs our CRDs and creates namespaces."""
        definitions = "---\n".join(yaml.safe_dump(manifest) for manifest in crds.load())
        applied = self.kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
        assert applied.returncode == 0, applied.stderr
        ready = self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        assert ready.returncode == 0, ready.stderr
        if "kube-controller-manager" in self.cluster.processes:
            # Its garbage collector discovers new kinds at its start and then only every 30 s.
            self.cluster.kill("kube-controller-manager")
            self.cluster.restart("kube-controller-manager")
        for name in ("volcano-system", *namespaces):
            self.api.create_persistently("/api/v1/namespaces", {"metadata": {"name": name}})

    def start_nodes(self, count: int = NODES, shape: str = "cpu=4,memory=8Gi") -> None:
        self.start("nodes", "--nodes", str(count), "--node", shape, "--sim-duration", "1s")

    def start_webhook(
        self,
        name: str = "webhooks",
        *,
        port: int = 0,
        service_port: int = 0,
        kubeconfig: Path | None = None,
        ahead: float = 0.0,
    ) -> int:
        """Starts a webhook manager, registered with `service_port` if given; returns the port it listens on."""
        port = port or free_port()
        url = f"https://127.0.0.1:{service_port or port}"
        where = ("--webhook-url", url, "--listen-address", "127.0.0.1", "--port", str(port))
        self.start(name, *where, "--graceful-shutdown-time", "1s", kubeconfig=kubeconfig, ahead=ahead)
        return port

    def wait_ready(self, nodes: int = NODES, *, webhook: bool = True) -> None:
        """Returns when nodes, the default queue and webhooks exist."""
        configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

        def ready() -> bool:
            self.api.get(f"{QUEUES}/default")
            if webhook:
                self.api.get(f"{configurations}/volcano-admission-service-cronjobs-validate")
            return len(self.api.items("/api/v1/nodes")) == nodes

        until(ready, 60.0, self.logs)

    def holder(self, lease: str) -> str:
        """The holder of a lease, or an empty string."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/{lease}"
        try:
            return str(self.api.get(path)["spec"].get("holderIdentity") or "")
        except StatusError:
            return ""


@contextlib.contextmanager
def programs_on(cluster: RealCluster, factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Programs that are stopped when the block ends."""
    running = Programs(cluster, factory.mktemp("programs"))
    try:
        yield running
    finally:
        running.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
