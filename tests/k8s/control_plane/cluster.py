"""A real control plane on loopback: etcd and kube-apiserver with TLS, RBAC and audit, in a directory of its own.

kube-controller-manager and kube-scheduler are optional. Every process can be killed and started again with the same
ports and data, as a crash and its restart.
"""

import http.client
import os
import secrets
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.k8s.control_plane.build import program
from volcano.base.http.tls import Authority, Credential, create_authority, issue

READY_WITHIN = 60.0
# Short, because the API server would wait for its watches to end and its data is not needed any more.
STOPPED_WITHIN = 3.0


@dataclass(slots=True)
class RealCluster:
    """A running control plane: its processes, address and cluster admin's token."""

    directory: Path
    url: str
    token: str
    processes: dict[str, subprocess.Popen[bytes]]
    commands: dict[str, list[str]] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def ca_file(self) -> Path:
        return self.directory / "certs" / "apiserver.crt"

    def client_certificate(self, name: str, *groups: str) -> Credential:
        """A client certificate for the user `name` in these groups."""
        paths = (self.directory / "clients.crt", self.directory / "clients.key")
        authority = Authority(*(path.read_bytes() for path in paths))
        return issue(authority, name, now=time.time(), organizations=groups, client=True)

    def spawn(self, name: str, *arguments: str) -> None:
        """Starts a program of the control plane; its log goes to a file of its name."""
        self.spawn_as(name, name, *arguments)

    def spawn_as(self, name: str, program_name: str, *arguments: str) -> None:
        """Starts another process of a program under the given name."""
        self.commands[name] = [str(program(program_name)), *arguments]
        with open(self.directory / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                self.commands[name], stdout=log, stderr=log, cwd=self.directory, env=os.environ
            )

    def kill(self, name: str) -> None:
        """Kills one process (SIGKILL)."""
        self.processes[name].kill()
        self.processes[name].wait()

    def restart(self, name: str) -> None:
        """Starts a killed process again with the same command; returns when the API server is ready."""
        self.spawn_as(name, Path(self.commands[name][0]).name, *self.commands[name][1:])
        self.wait_ready()

    def wait_ready(self) -> None:
        """Returns when the API server is ready; raises when a process exited instead."""
        _wait_ready(self)

    def stop(self) -> None:
        """Terminates every process of this cluster."""
        for process in reversed(self.processes.values()):
            process.terminate()
        deadline = time.monotonic() + STOPPED_WITHIN
        for process in self.processes.values():
            try:
                process.wait(timeout=max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def start(
    directory: Path, *, controllers: bool = False, scheduler: bool = False, service_accounts: bool = False
) -> RealCluster:
    """Starts etcd, kube-apiserver and the optional programs; returns when the API server is ready.

    With `service_accounts` the ServiceAccount admission plugin is enabled, which requires `controllers`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    etcd_port, peer_port, port = (_free_port() for _ in range(3))
    token = secrets.token_hex(16)
    (directory / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    (directory / "audit.yaml").write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  omitStages: [RequestReceived]\n"
    )
    _write_key(directory / "sa.key")
    clients = create_authority("clients", now=time.time())
    (directory / "clients.crt").write_bytes(clients.cert_pem)
    (directory / "clients.key").write_bytes(clients.key_pem)
    _write_front_proxy(directory)
    cluster = RealCluster(directory, f"https://127.0.0.1:{port}", token, {})
    peer = f"http://127.0.0.1:{peer_port}"
    cluster.spawn(
        "etcd",
        f"--data-dir={directory}/etcd",
        f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    )
    # The node lifecycle controller does not run here, so its taints would never be removed.
    off = "TaintNodesByCondition" if service_accounts else "TaintNodesByCondition,ServiceAccount"
    cluster.spawn(
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={directory}/certs",
        f"--token-auth-file={directory}/tokens.csv",
        f"--client-ca-file={directory}/clients.crt",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory}/sa.key",
        f"--service-account-signing-key-file={directory}/sa.key",
        f"--disable-admission-plugins={off}",
        f"--audit-policy-file={directory}/audit.yaml",
        f"--audit-log-path={directory}/audit.log",
        "--allow-privileged=true",
        # For aggregated API servers.
        f"--proxy-client-cert-file={directory}/front-proxy-client.crt",
        f"--proxy-client-key-file={directory}/front-proxy-client.key",
        f"--requestheader-client-ca-file={directory}/front-proxy.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    )
    _write_kubeconfig(cluster)
    _wait_ready(cluster)
    if controllers:
        cluster.spawn(
            "kube-controller-manager",
            f"--kubeconfig={cluster.kubeconfig}",
            f"--service-account-private-key-file={directory}/sa.key",
            f"--root-ca-file={cluster.ca_file}",
            "--secure-port=0",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
        )
    if scheduler:
        cluster.spawn(
            "kube-scheduler", f"--kubeconfig={cluster.kubeconfig}", "--secure-port=0", "--leader-elect=false"
        )
    return cluster


def _wait_ready(cluster: RealCluster) -> None:
    deadline = time.monotonic() + READY_WITHIN
    host = cluster.url.removeprefix("https://")
    context = ssl._create_unverified_context()
    while time.monotonic() < deadline:
        for name, process in cluster.processes.items():
            if process.poll() is not None:
                tail = (cluster.directory / f"{name}.log").read_text()[-2000:]
                cluster.stop()
                raise RuntimeError(f"{name} ended with {process.returncode}: {tail}")
        try:
            connection = http.client.HTTPSConnection(host, timeout=2, context=context)
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {cluster.token}"})
            ready = connection.getresponse().status == 200
            connection.close()
            if ready:
                return
        except OSError:
            pass
        time.sleep(0.2)
    cluster.stop()
    raise RuntimeError(
        f"kube-apiserver was not ready within {READY_WITHIN:.0f} s; logs in {cluster.directory}"
    )


def _write_kubeconfig(cluster: RealCluster) -> None:
    cluster.kubeconfig.write_text(
        f"""apiVersion: v1
kind: Config
clusters:
- name: real
  cluster: {{server: "{cluster.url}", insecure-skip-tls-verify: true}}
users:
- name: admin
  user: {{token: "{cluster.token}"}}
contexts:
- name: real
  context: {{cluster: real, user: admin}}
current-context: real
"""
    )


def _write_front_proxy(directory: Path) -> None:
    """The certificate with which the API server passes requests on to aggregated API servers."""
    authority = create_authority("front-proxy", now=time.time())
    client = issue(authority, "front-proxy-client", now=time.time(), client=True)
    (directory / "front-proxy.crt").write_bytes(authority.cert_pem)
    (directory / "front-proxy-client.crt").write_bytes(client.cert_pem)
    (directory / "front-proxy-client.key").write_bytes(client.key_pem)


def _write_key(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
