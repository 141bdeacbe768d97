"""An installation on a real cluster: a Helm release, and the programs of its Deployments as processes.

Simulated nodes run the Deployments' pods, which do nothing. Our programs run as processes instead, with the flags of
the Deployments and with tokens of their ServiceAccounts.
"""

import http.client
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.installer import container
from tests.installer.helm import NAMESPACE, Helm
from tests.installer.rendered import DEPLOYMENTS, Rendered
from tests.installer.workload import queue
from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.plain import until
from tests.k8s.programs import ELECTION, Programs, free_port

MODULES = {
    "volcano-scheduler": "scheduler",
    "volcano-controllers": "controllers",
    "volcano-admission": "webhooks",
}
# Flag of a Deployment → the ConfigMap whose file it names.
MOUNTED = {
    "--scheduler-conf": "volcano-scheduler-configmap",
    "--admission-conf": "volcano-admission-configmap",
}
# Flags with addresses, which are replaced by free ports of this machine.
ADDRESS_FLAGS = ("--healthz-address", "--listen-address", "--port")


class Installation:
    """A cluster with a release of the chart, and programs that use its ServiceAccounts."""

    def __init__(self, cluster: RealCluster, directory: Path, programs: Programs) -> None:
        self.cluster = cluster
        self.directory = directory
        self.programs = programs
        self.helm = Helm(directory / "helm", cluster.kubeconfig)
        self.webhook_port = free_port()
        self.health: dict[str, int] = {}

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        done: subprocess.CompletedProcess[str] = self.programs.kubectl(*arguments, stdin=stdin)
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """Objects from `kubectl get`, namespaced ones from the release's namespace."""
        return json.loads(self.kubectl("get", *arguments, "-n", NAMESPACE, "-o", "json"))

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def uids(self, *kinds: str) -> dict[str, str]:
        """`Kind/name` → uid, cluster-scoped and of all namespaces."""
        found = json.loads(self.kubectl("get", ",".join(kinds), "-A", "-o", "json"))["items"]
        return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"] for each in found}

    def kubeconfig(self, account: str) -> Path:
        """A kubeconfig with a token of a ServiceAccount."""
        token = self.kubectl("-n", NAMESPACE, "create", "token", account, "--duration=1h").strip()
        cluster = {"server": self.cluster.url, "certificate-authority": str(self.cluster.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": account, "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": account}}],
            "current-context": "c",
        }
        path = self.directory / f"{account}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def start(self, deployment: str, *more: str, replica: str = "") -> None:
        """Starts a Deployment's program as a process, with its flags, ServiceAccount and configuration."""
        name = MODULES[deployment] + replica
        flags = self._flags(deployment, name, self.directory)
        self.programs.start(name, *flags, *more, kubeconfig=self.kubeconfig(deployment))

    def start_contained(self, deployment: str) -> subprocess.Popen[bytes]:
        """Starts a Deployment's program as in its pod: in-cluster configuration, unprivileged, read-only root."""
        name = MODULES[deployment]
        folder = self.directory / f"{name}-pod"
        for part in ("account", "config"):
            (folder / part).mkdir(parents=True)
        token = self.kubectl("-n", NAMESPACE, "create", "token", deployment, "--duration=1h").strip()
        content = {"token": token, "namespace": NAMESPACE, "ca.crt": self.cluster.ca_file.read_text()}
        for file, text in content.items():
            (folder / "account" / file).write_text(text)
        flags = self._flags(deployment, name, folder / "config", seen_at=Path(container.CONFIG))
        with open(self.programs.directory / f"{name}-pod.log", "ab") as log:
            command = container.command(folder, self.cluster.url, DEPLOYMENTS[deployment], flags)
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _flags(self, deployment: str, name: str, folder: Path, seen_at: Path | None = None) -> list[str]:
        """The flags of a Deployment with free ports; the files they name are written into `folder`."""
        found = self.get("deployment", deployment)["spec"]["template"]["spec"]["containers"][0]
        assert found["command"] == [DEPLOYMENTS[deployment]]
        flags = []
        for flag in found["args"]:
            option, _, value = flag.partition("=")
            if option in MOUNTED:
                file = Path(value).name
                (folder / file).write_text(self.get("configmap", MOUNTED[option])["data"][file])
                flags.append(f"{option}={(seen_at or folder) / file}")
            elif option not in ADDRESS_FLAGS:
                flags.append(flag)
        self.health[name] = free_port()
        flags.append(f"--healthz-address=127.0.0.1:{self.health[name]}")
        if deployment == "volcano-admission":
            address = ["--listen-address=127.0.0.1", f"--port={self.webhook_port}"]
            return [*flags, *address, "--graceful-shutdown-time=1s"]
        return [*flags, f"--listen-address=127.0.0.1:{free_port()}", *ELECTION]

    def start_all(self) -> None:
        """Starts all three programs; returns when they are ready, admission works and the default queue exists.

        The scheduler is started last, so that the controllers create the missing queues.
        """
        self.route_webhooks()
        self.start("volcano-admission")
        self.start("volcano-controllers")
        until(self.ready, 60.0, self.programs.logs)
        self.start("volcano-scheduler")
        until(self.ready, 60.0, self.programs.logs)

    def ready(self) -> bool:
        """Whether every program is ready, admission works and the default queue exists."""
        if not all(self.probe(name, path) for name in self.health for path in ("/healthz", "/readyz")):
            return False
        manifest = yaml.safe_dump(queue("dry-run"))
        created = self.programs.kubectl("create", "--dry-run=server", "-f", "-", stdin=manifest)
        return created.returncode == 0 and self.programs.kubectl("get", "queue", "default").returncode == 0

    def probe(self, name: str, path: str) -> bool:
        """The result of an HTTP probe, as a kubelet sends it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.health[name], timeout=2)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def route_webhooks(self) -> None:
        """Routes the API server's webhook calls to our process, because there is no kube-proxy for the Service.

        Applied with Helm's field manager, so that Helm's next upgrade has no conflicts.
        """
        release = Rendered.of(self.helm.run("get", "manifest", "volcano", "-n", NAMESPACE).stdout)
        service = release.one("Service", "volcano-admission-service")
        service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        configurations = [found for kind in kinds for found in release.all(kind)]
        for configuration in configurations:
            configuration["webhooks"][0]["clientConfig"]["service"]["port"] = self.webhook_port
        written = yaml.safe_dump_all([service, *configurations])
        manager = ("--server-side", "--field-manager=helm", "--force-conflicts")
        self.kubectl("apply", *manager, "-f", "-", stdin=written)
