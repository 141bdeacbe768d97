"""Pods that violate the Pod Security Standards, and the recorded answers of a real API server about them.

`python -m tests.apiserver.admission.pod_security_cases` starts a real server and records its answers.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.apiserver.conformance import RealServer
from tests.k8s.control_plane import cluster
from volcano.kube.api.manifest import Manifest

RECORDED = Path(__file__).parent / "pod_security_answers.json"
LEVELS = ("baseline", "restricted")
VERSIONS = (
    "latest",
    "v1.0",
    "v1.7",
    "v1.8",
    "v1.18",
    "v1.19",
    "v1.22",
    "v1.24",
    "v1.26",
    "v1.28",
    "v1.31",
    "v1.33",
)
GOOD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class PodCase(NamedTuple):
    name: str
    pod: Manifest


def _pod(
    spec: Manifest, context: Any, annotations: Manifest, *, more: list[Manifest], container: Manifest
) -> Manifest:
    main = {"name": "main", "image": "i", "securityContext": context, **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [main, *more], **spec},
    }


def cases() -> Iterator[PodCase]:
    """A good pod, and pods with one or several violations each."""
    for name, changes in CASES.items():
        context = (
            {**GOOD, **changes.get("context", {})}
            if "context" not in changes or changes["context"] is not None
            else None
        )
        yield PodCase(
            name,
            _pod(
                changes.get("spec", {}),
                context,
                changes.get("annotations", {}),
                more=changes.get("more", []),
                container=changes.get("container", {}),
            ),
        )


_SECOND = {"name": "second", "image": "i"}
CASES: dict[str, dict[str, Any]] = {
    "good": {},
    "nothing set": {"context": None, "more": [_SECOND]},
    "privileged": {"context": {"privileged": True, "allowPrivilegeEscalation": True}},
    "host namespaces": {"spec": {"hostNetwork": True, "hostPID": True, "hostIPC": True}},
    "host path": {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}},
    "volumes": {
        "spec": {
            "volumes": [
                {"name": "a", "nfs": {"server": "s", "path": "/"}},
                {"name": "b", "hostPath": {"path": "/"}},
                {"name": "c", "emptyDir": {}},
            ]
        }
    },
    "capabilities": {
        "context": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}},
        "more": [
            {
                **_SECOND,
                "securityContext": {**GOOD, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
            }
        ],
    },
    "host ports": {
        "container": {"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 81}]},
        "more": [{**_SECOND, "securityContext": GOOD, "ports": [{"containerPort": 3, "hostPort": 82}]}],
    },
    "probe hosts": {
        "container": {
            "livenessProbe": {"httpGet": {"host": "example.com", "port": 80}},
            "lifecycle": {"preStop": {"tcpSocket": {"host": "10.0.0.1", "port": 80}}},
        }
    },
    "proc mount": {"context": {"procMount": "Unmasked"}, "spec": {"hostUsers": False}},
    "selinux": {
        "context": {"seLinuxOptions": {"type": "spc_t", "user": "u"}},
        "spec": {"securityContext": {"seLinuxOptions": {"role": "r", "type": "container_engine_t"}}},
    },
    "seccomp": {
        "context": {"seccompProfile": {"type": "Unconfined"}},
        "spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    },
    "seccomp of the pod": {
        "context": {"seccompProfile": None},
        "spec": {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
    },
    "apparmor": {
        "context": {"appArmorProfile": {"type": "Unconfined"}},
        "spec": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
    },
    "sysctls": {
        "spec": {
            "securityContext": {
                "sysctls": [
                    {"name": "net.ipv4.tcp_rmem", "value": "1"},
                    {"name": "net.ipv4.tcp_fin_timeout", "value": "1"},
                    {"name": "net.ipv4.ip_local_reserved_ports", "value": "1"},
                    {"name": "kernel.msgmax", "value": "1"},
                ]
            }
        }
    },
    "root": {
        "context": {"runAsNonRoot": False, "runAsUser": 0},
        "spec": {"securityContext": {"runAsUser": 0}},
    },
    "root by user": {"context": {"runAsUser": 0}},
    "non-root of the pod": {
        "context": {"runAsNonRoot": None},
        "spec": {"securityContext": {"runAsNonRoot": True}},
    },
    "own users": {"context": {"runAsNonRoot": False, "runAsUser": 0}, "spec": {"hostUsers": False}},
    "windows": {"context": {"runAsNonRoot": True}, "spec": {"os": {"name": "windows"}}},
    "init container": {
        "spec": {"initContainers": [{"name": "first", "image": "i", "securityContext": {"privileged": True}}]}
    },
    "seccomp annotation": {
        "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"},
        "context": {"seccompProfile": None},
    },
}
# A pod of windows may not have fields of Linux.
for _field in ("allowPrivilegeEscalation", "capabilities", "seccompProfile"):
    CASES["windows"]["context"][_field] = None


def answer_of(status: Manifest) -> str:
    """The message of a rejection without its beginning; empty when the pod was accepted."""
    return "" if status.get("kind") == "Pod" else str(status["message"])


def record() -> None:
    with tempfile.TemporaryDirectory() as directory:
        running = cluster.start(Path(directory))
        try:
            RECORDED.write_text(json.dumps(answers(running), indent=0) + "\n")
        finally:
            running.stop()


def answers(running: cluster.RealCluster) -> dict[str, str]:
    """The answers of a real server, by level, version and case."""
    server = RealServer(running.url, running.token)
    found = {}
    for level in LEVELS:
        for version in VERSIONS:
            prefix = "pod-security.kubernetes.io/enforce"
            name = f"{level}-{version.replace('.', '-')}"
            labels = {prefix: level, f"{prefix}-version": version}
            namespace = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": labels},
            }
            server.create(namespace, dry_run=False)
            for case in cases():
                pod = {**case.pod, "metadata": {**case.pod["metadata"], "namespace": name}}
                found[f"{level}:{version} {case.name}"] = answer_of(server.create(pod))
    return found


if __name__ == "__main__":
    record()
