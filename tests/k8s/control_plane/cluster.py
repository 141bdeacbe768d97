"""A real control plane on loopback: etcd and kube-apiserver with TLS, RBAC and audit, in a directory of its own."""

import http.client
import os
import secrets
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.k8s.control_plane.build import program

READY_WITHIN = 60.0


@dataclass(slots=True)
class RealCluster:
    """A running control plane: where it is and how to get in as cluster admin."""

    directory: Path
    url: str
    token: str
    processes: dict[str, subprocess.Popen[bytes]]

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def ca_file(self) -> Path:
        return self.directory / "certs" / "apiserver.crt"

    def stop(self) -> None:
        """Ends every process that this cluster started."""
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def start(directory: Path, *, controllers: bool = False) -> RealCluster:
    """Starts etcd and kube-apiserver (and kube-controller-manager when asked) and waits until they serve."""
    directory.mkdir(parents=True, exist_ok=True)
    etcd_port, peer_port, port = (_free_port() for _ in range(3))
    token = secrets.token_hex(16)
    (directory / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    (directory / "audit.yaml").write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  omitStages: [RequestReceived]\n"
    )
    _write_key(directory / "sa.key")
    cluster = RealCluster(directory, f"https://127.0.0.1:{port}", token, {})
    peer = f"http://127.0.0.1:{peer_port}"
    _spawn(
        cluster,
        "etcd",
        f"--data-dir={directory}/etcd",
        f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    )
    _spawn(
        cluster,
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={directory}/certs",
        f"--token-auth-file={directory}/tokens.csv",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory}/sa.key",
        f"--service-account-signing-key-file={directory}/sa.key",
        # Nobody runs the node lifecycle controller here: its taints would stay for ever.
        "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
        f"--audit-policy-file={directory}/audit.yaml",
        f"--audit-log-path={directory}/audit.log",
        "--allow-privileged=true",
    )
    _write_kubeconfig(cluster)
    _wait_ready(cluster)
    if controllers:
        _spawn(
            cluster,
            "kube-controller-manager",
            f"--kubeconfig={cluster.kubeconfig}",
            f"--service-account-private-key-file={directory}/sa.key",
            "--secure-port=0",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
        )
    return cluster


def _spawn(cluster: RealCluster, name: str, *arguments: str) -> None:
    with open(cluster.directory / f"{name}.log", "wb") as log:
        cluster.processes[name] = subprocess.Popen(
            [program(name), *arguments], stdout=log, stderr=log, cwd=cluster.directory, env=os.environ
        )


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
