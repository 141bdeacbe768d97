"""Webhook configurations that register our admission with an API server, and never with anybody else's objects."""

import base64
import json
from collections.abc import Collection

from volcano.admission.rules import SERVICES, Service
from volcano.kube.kinds import MUTATING_WEBHOOK, POD, VALIDATING_WEBHOOK, Kind
from volcano.kube.manifest import Key, Manifest

PREFIX = "volcano-admission-service"
TIMEOUT_SECONDS = 10


def configurations(
    *,
    authority: bytes,
    enabled: Collection[str],
    scheduler_names: Collection[str],
    service: Key | None = None,
    url: str = "",
    port: int = 443,
) -> list[tuple[Kind, Manifest]]:
    """One configuration object for each service, reached through a Service object or at a URL."""
    bundle = base64.b64encode(authority).decode()
    found = []
    for entry in SERVICES:
        if entry.path not in enabled:
            continue
        client: Manifest = {"caBundle": bundle}
        if url:
            client["url"] = url.rstrip("/") + entry.path
        elif service is not None:
            client["service"] = {
                "namespace": service.namespace,
                "name": service.name,
                "path": entry.path,
                "port": port,
            }
        kind = MUTATING_WEBHOOK if entry.mutating else VALIDATING_WEBHOOK
        found.append((kind, _configuration(kind, entry, client, scheduler_names)))
    return found


def _configuration(
    kind: Kind, service: Service, client: Manifest, scheduler_names: Collection[str]
) -> Manifest:
    webhook: Manifest = {
        "name": service.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "rules": [
            {
                "apiGroups": [service.kind.group],
                "apiVersions": [service.kind.version],
                "operations": list(service.operations),
                "resources": [service.kind.plural],
                "scope": "Namespaced" if service.kind.namespaced else "Cluster",
            }
        ],
    }
    if service.mutating:
        webhook["reinvocationPolicy"] = "Never"
    if service.kind == POD:
        # Pods are everybody's: only those that ask for our scheduler are ours to look at, and a webhook that is
        # down must not stop even those.
        names = ", ".join(json.dumps(name) for name in sorted(scheduler_names))
        expression = f"has(object.spec.schedulerName) && object.spec.schedulerName in [{names}]"
        webhook["matchConditions"] = [{"name": "our-scheduler", "expression": expression}]
        webhook["failurePolicy"] = "Ignore"
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": PREFIX + service.path.replace("/", "-"), "labels": {"app": "volcano-admission"}},
        "webhooks": [webhook],
    }
