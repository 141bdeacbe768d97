"""A real control plane, simulated nodes and our programs as separate processes, and the resources each uses."""

import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import orjson
import yaml

from bench._kubernetes_shape import NODE, Shape
from tests.k8s.control_plane import cluster
from volcano.kube.api import crds
from volcano.kube.api.kinds import QUEUE
from volcano.kube.api.manifest import Manifest, condition_of

# Admission services that the chart enables.
ADMISSION = (
    "/jobs/mutate,/jobs/validate,/podgroups/validate,/queues/mutate,/queues/validate,"
    "/hypernodes/validate,/cronjobs/validate"
)
READY_WITHIN = 120.0
IDLE_WITHIN = 30.0
IDLE = 0.25  # of a CPU, with heartbeats of a thousand nodes
SYSTEM = "volcano-system"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
ACCOUNTS = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
INSTALLER = Path(__file__).parents[1] / "installer/volcano-development.yaml"
OF_ACCOUNTS = re.compile(r"^kind: (ServiceAccount|(Cluster)?Role(Binding)?)$", re.MULTILINE)


@dataclass(slots=True)
class Stage:
    """A running control plane and our processes."""

    control_plane: cluster.RealCluster
    directory: Path
    programs: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    wait_idle: bool = True

    def start(self, name: str, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        with open(self.directory / f"{name}.log", "wb") as log:
            self.programs[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def start_nodes(self, count: int) -> None:
        """Starts simulated nodes; returns when all are registered and have leases."""
        kubeconfig = str(self.control_plane.kubeconfig)
        self.start(
            "nodes",
            "volcano.cmd.volcano",
            "nodes",
            "--kubeconfig",
            kubeconfig,
            f"--nodes={count}",
            "--node",
            NODE,
        )
        self._until(lambda: self._count("/api/v1/nodes") >= count and self._count(LEASES) >= count, "nodes")

    def start_ours(self) -> None:
        """Starts scheduler, controllers and webhooks with their defaults; returns when all are ready.

        Scheduler and controllers use ServiceAccounts with the permissions of the chart.
        """
        self._install_accounts()
        ports = {}
        for name in ("controllers", "scheduler"):
            ports[name] = _free_port()
            health = ("--enable-healthz", f"--healthz-address=127.0.0.1:{ports[name]}")
            account = ("--kubeconfig", str(self._kubeconfig(f"volcano-{name}")))
            self.start(name, f"volcano.cmd.{name}", *account, *health)
        port = str(_free_port())
        self.start(
            "webhooks",
            "volcano.cmd.webhooks",
            f"--kubeconfig={self.control_plane.kubeconfig}",
            "--listen-address=127.0.0.1",
            f"--port={port}",
            f"--webhook-url=https://127.0.0.1:{port}",
            f"--enabled-admission={ADMISSION}",
            f"--controllers-user=system:serviceaccount:{SYSTEM}:volcano-controllers",
        )
        for name, port_number in ports.items():
            self._until(lambda at=port_number: _healthy(at), name)  # type: ignore[misc]
        self._until(lambda: self._count(f"{WEBHOOKS}/validatingwebhookconfigurations") >= 5, "webhooks")
        self._until(lambda: self._count(f"/apis/{QUEUE.api_version}/queues") >= 2, "controllers")

    def _install_accounts(self) -> None:
        """Creates the ServiceAccounts of an installation and their permissions."""
        for text in INSTALLER.read_text().split("\n---\n"):
            if OF_ACCOUNTS.search(text):
                manifest = yaml.safe_load(text)
                namespace = manifest["metadata"].get("namespace")
                plural = f"{manifest['kind'].lower()}s"
                base = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
                self._request(
                    "POST", ACCOUNTS if plural == "serviceaccounts" else f"{base}/{plural}", manifest
                )

    def _kubeconfig(self, account: str) -> Path:
        """Kubeconfig of the control plane with a ServiceAccount token."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self._request("POST", f"{ACCOUNTS}/{account}/token", request)["status"]["token"]
        path = self.directory / f"{account}.kubeconfig"
        text = self.control_plane.kubeconfig.read_text()
        path.write_text(text.replace(self.control_plane.token, token))
        return path

    def load(self, role: str, shape: Shape) -> dict[str, float]:
        """Runs the load; returns its measurements and the CPU time of every program."""
        command = [sys.executable, "-m", "bench._kubernetes_load", str(self.control_plane.kubeconfig), role]
        command.append(msgspec.json.encode(shape).decode())
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                metrics = self._follow(process)
            finally:
                process.kill()
        metrics.update({f"{name}_mib": _peak_mib(p.pid) for name, p in self.processes().items()})
        return metrics

    def _follow(self, process: "subprocess.Popen[bytes]") -> dict[str, float]:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != b"ready":
            raise RuntimeError(f"the load did not start: {self.logs()}")
        if self.wait_idle:
            self.wait_until_idle()
        audited = self.audit_log.stat().st_size
        before = self.cpu_seconds()
        process.stdin.write(b"go\n")
        process.stdin.flush()
        line = process.stdout.readline()
        after = self.cpu_seconds()
        if not line:
            raise RuntimeError(f"the load ended early: {self.logs()}")
        metrics: dict[str, float] = orjson.loads(line)
        metrics.update({f"{name}_cpu_s": seconds - before[name] for name, seconds in after.items()})
        metrics["writes"] = float(self.writes(audited))
        return metrics

    def wait_until_idle(self) -> None:
        """Waits until the API server is idle: after the installation it rebuilds its OpenAPI documents."""
        deadline = time.monotonic() + IDLE_WITHIN
        idle = 0
        while idle < 2 and time.monotonic() < deadline:
            used = self.cpu_seconds()["apiserver"]
            time.sleep(1.0)
            idle = idle + 1 if self.cpu_seconds()["apiserver"] - used < IDLE else 0

    def processes(self) -> Mapping[str, "subprocess.Popen[bytes]"]:
        found = self.control_plane.processes | self.programs
        return {name.removeprefix("kube-"): process for name, process in found.items()}

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time of each program so far."""
        return {name: _cpu_seconds(process.pid) for name, process in self.processes().items()}

    @property
    def audit_log(self) -> Path:
        return self.control_plane.directory / "audit.log"

    def writes(self, since: int) -> int:
        """Number of write requests since the audit log had this size, without leases."""
        with open(self.audit_log, "rb") as log:
            log.seek(since)
            lines = log.read().splitlines()
        changing = (b'"verb":"create"', b'"verb":"update"', b'"verb":"patch"', b'"verb":"delete"')
        return sum(
            any(verb in line for verb in changing) and b'"resource":"leases"' not in line for line in lines
        )

    def logs(self) -> str:
        return "\n".join(f"== {p.name}\n{p.read_text()[-2000:]}" for p in self.directory.glob("*.log"))

    def stop(self) -> None:
        for process in self.programs.values():
            process.terminate()
        for process in self.programs.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.control_plane.stop()

    def install(self) -> None:
        """Installs our CRDs and the namespace of our leases."""
        for manifest in crds.load():
            self._request("POST", DEFINITIONS, manifest)
        self._request("POST", "/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
        deadline = time.monotonic() + READY_WITHIN
        while not all(_is_established(crd) for crd in self._items(DEFINITIONS)):
            if time.monotonic() > deadline:
                raise RuntimeError("our CRDs were not established")
            time.sleep(0.1)

    def _items(self, path: str) -> list[Manifest]:
        found: list[Manifest] = self._request("GET", path).get("items", [])
        return found

    def _count(self, path: str) -> int:
        return len(self._items(path))

    def _request(self, method: str, path: str, body: Manifest | None = None) -> Manifest:
        server = self.control_plane
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(server.url.removeprefix("https://"), context=context)
        headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, orjson.dumps(body) if body else None, headers)
            reply = connection.getresponse()
            content: Manifest = orjson.loads(reply.read())
        finally:
            connection.close()
        if reply.status >= 400:
            raise RuntimeError(f"{method} {path}: {content.get('message', reply.status)}")
        return content

    def _until(self, true: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not true():
            if time.monotonic() > deadline or self.programs[name].poll() is not None:
                raise RuntimeError(f"{name} did not become ready: {self.logs()}")
            time.sleep(0.3)


@contextmanager
def stage(*, wait_idle: bool = True) -> Iterator[Stage]:
    """A separate control plane with our CRDs; it and all other processes are stopped when the block ends.

    With `wait_idle`, waits until the API server is idle before the load.
    """
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        running = Stage(cluster.start(home / "control-plane"), home, wait_idle=wait_idle)
        try:
            running.install()
            yield running
        finally:
            running.stop()


def _is_established(definition: Manifest) -> bool:
    return (condition_of(definition, "Established") or {}).get("status") == "True"


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
