"""A chart like that of an existing Volcano: its names, its labels, CRDs as it publishes them.

The CRDs are not Volcano's files: they are built from ours, with every known difference undone (see
docs/parity/crds.md), and without descriptions and CEL rules, which only ours have.
"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.installer.helm import NAMESPACE
from volcano.base.http.tls import create_authority, issue
from volcano.kube.api import crds

Object = dict[str, Any]
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
AGE = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
# Kind → its printer columns in Volcano; other kinds have none.
COLUMNS: Mapping[str, list[Object]] = {
    "Job": [
        {"name": "STATUS", "type": "string", "jsonPath": ".status.state.phase"},
        {"name": "minAvailable", "type": "integer", "jsonPath": ".status.minAvailable"},
        {"name": "RUNNINGS", "type": "integer", "jsonPath": ".status.running"},
        AGE,
        {"name": "QUEUE", "type": "string", "jsonPath": ".spec.queue", "priority": 1},
    ],
    "PodGroup": [
        {"name": "STATUS", "type": "string", "jsonPath": ".status.phase"},
        {"name": "minMember", "type": "integer", "jsonPath": ".spec.minMember"},
        {"name": "RUNNINGS", "type": "integer", "jsonPath": ".status.running"},
        AGE,
        {"name": "QUEUE", "type": "string", "jsonPath": ".spec.queue", "priority": 1},
    ],
    "Queue": [{"name": "PARENT", "type": "string", "jsonPath": ".spec.parent"}],
    "JobFlow": [{"name": "Status", "type": "string", "jsonPath": ".status.state.phase"}, AGE],
}
APPS = {
    "volcano-scheduler": "volcano-scheduler",
    "volcano-controllers": "volcano-controller",
    "volcano-admission": "volcano-admission",
}
OURS_ONLY = ("description", "x-kubernetes-validations")


def definitions() -> list[Object]:
    """CRDs as Volcano publishes them."""
    return [_definition(crd) for crd in crds.load()]


def _definition(crd: Object) -> Object:
    version = crd["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = _plain(version["schema"]["openAPIV3Schema"])
    version.pop("selectableFields", None)
    version.pop("additionalPrinterColumns", None)
    kind = crd["spec"]["names"]["kind"]
    if kind in COLUMNS:
        version["additionalPrinterColumns"] = COLUMNS[kind]
    if kind == "Queue":
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["parent"]["pattern"] = (
            SUBDOMAIN
        )
    crd["metadata"]["annotations"]["controller-gen.kubebuilder.io/version"] = "v0.17.0"
    return crd


def _plain(schema: Any) -> Any:
    """A schema without OURS_ONLY. Keys below `properties` are field names, not schema keywords."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: part for name, part in schema.items() if name not in OURS_ONLY}
    for name, part in plain.items():
        if name == "properties":
            plain[name] = {field: _plain(inner) for field, inner in part.items()}
        elif name == "enum":
            plain[name] = [value for value in part if value != "JobUnknown"]
        elif name not in ("default", "required"):
            plain[name] = _plain(part)
    return plain


def write_chart(folder: Path) -> Path:
    """Writes the chart; returns its folder."""
    chart = folder / "volcano"
    (chart / "templates").mkdir(parents=True)
    metadata = {"apiVersion": "v2", "name": "volcano", "version": "1.15.0"}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(metadata))
    objects = [*map(_deployment, APPS), *_other_objects()]
    written = [json.dumps(each).replace("{{", '{{"{{"}}') for each in (*definitions(), *objects)]
    (chart / "templates" / "all.yaml").write_text("\n---\n".join(written))
    return chart


def _deployment(name: str) -> Object:
    labels = {"app": APPS[name]}
    container = {"name": name, "image": f"there/{name}:v1", "args": ["--logtostderr", "-v=3", "2>&1"]}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"serviceAccount": name, "containers": [container]},
        },
    }
    return _named("apps/v1", "Deployment", name, spec=spec)


def _other_objects() -> list[Object]:
    accounts = [_named("v1", "ServiceAccount", name) for name in APPS]
    configuration = {"volcano-scheduler.conf": 'actions: "enqueue, allocate, backfill"\n'}
    ports = [{"port": 443, "targetPort": 8443, "protocol": "TCP"}]
    service = {"selector": {"app": "volcano-admission"}, "ports": ports}
    client = {
        "service": {
            "name": "volcano-admission-service",
            "namespace": NAMESPACE,
            "path": "/hypernodes/validate",
        }
    }
    rule = {
        "apiGroups": ["topology.volcano.sh"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["hypernodes"],
    }
    webhook = {
        "name": "validatehypernodes.volcano.sh",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "sideEffects": "NoneOnDryRun",
        "rules": [rule],
    }
    return [
        *accounts,
        _named("v1", "ConfigMap", "volcano-scheduler-configmap", data=configuration),
        _named("v1", "Service", "volcano-admission-service", spec=service),
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "volcano-admission-service-hypernodes-validate"},
            "webhooks": [webhook],
        },
    ]


def certificates() -> tuple[Object, str]:
    """The Secret that Volcano's init job creates, and its CA as in the webhook configurations."""
    now = datetime.now(UTC).timestamp()
    hosts = [f"volcano-admission-service.{NAMESPACE}.svc", f"volcano-admission-service.{NAMESPACE}"]
    hosts += ["volcano-admission-service", f"volcano-admission-service.{NAMESPACE}.svc.cluster.local"]
    authority = create_authority("theirs", now=now)
    server = issue(authority, hosts[0], hosts=hosts, now=now, server=True)
    content = {"ca.crt": authority.cert_pem, "tls.crt": server.cert_pem, "tls.key": server.key_pem}
    data = {name: base64.b64encode(value).decode() for name, value in content.items()}
    return _named("v1", "Secret", "volcano-admission-secret", data=data), data["ca.crt"]


def _named(api_version: str, kind: str, name: str, **content: Any) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
