"""Pods for tests: just enough of one to have an environment and volumes."""

import base64
from typing import Any

from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.environment.downward import PodInfo

FACTS = PodInfo(
    address="10.88.0.5",
    addresses=("10.88.0.5",),
    host_address="192.0.2.7",
    node_name="local-0",
    node_allocatable={"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi"},
)

# The API server adds this to every pod, for access to the API.
ACCESS: Manifest = {
    "projected": {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                }
            },
        ],
    }
}


def container(**fields: Any) -> Manifest:
    return {"name": "main", "image": "training:1", "command": ["run"], **fields}


def pod(*containers: Manifest, name: str = "p", **spec: Any) -> Manifest:
    metadata = spec.pop("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}", **metadata},
        "spec": {"containers": list(containers) or [container()], "enableServiceLinks": True, **spec},
    }


def config_map(name: str, **data: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def secret(name: str, **data: str | bytes) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "data": {key: encoded(value) for key, value in data.items()},
    }


def encoded(value: str | bytes) -> str:
    raw = value.encode() if isinstance(value, str) else value
    return base64.b64encode(raw).decode()


def service(name: str, address: str, *ports: Manifest, namespace: str = "default") -> Manifest:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": list(ports)},
    }
