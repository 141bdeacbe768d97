"""Webhook configurations that register Volcano's admission with an API server."""

import base64
from collections.abc import Collection

from volcano.admission.conditions import lacks_defaults, not_our_controllers, our_scheduler
from volcano.admission.rules import SERVICES, AdmissionService
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
    controllers: Collection[str] = (),
    assigns_pods: bool = False,
) -> list[tuple[Kind, Manifest]]:
    """One configuration object for each service, reached through a Service object or at a URL.

    `controllers` are the users of our own controllers. With `assigns_pods`, resource groups are configured, which
    may assign pods of any scheduler to ours: all pods are reviewed.
    """
    bundle = base64.b64encode(authority).decode()
    objects = []
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
        objects.append(
            (
                kind,
                _configuration(
                    kind, entry, client, _conditions(entry, scheduler_names, controllers, assigns_pods)
                ),
            )
        )
    return objects


def _conditions(
    service: AdmissionService,
    scheduler_names: Collection[str],
    controllers: Collection[str],
    assigns_pods: bool,
) -> list[Manifest]:
    """Match conditions of a service, beside its rules."""
    if service.kind == POD and service.mutating and assigns_pods:
        return []
    if service.kind == POD:
        return [our_scheduler(scheduler_names)]
    if service.path == "/jobs/mutate":
        return [lacks_defaults()]
    if service.path == "/podgroups/validate" and controllers:
        return [not_our_controllers(controllers)]
    return []


def _configuration(
    kind: Kind, service: AdmissionService, client: Manifest, conditions: list[Manifest]
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
    if conditions:
        webhook["matchConditions"] = conditions
    if service.kind == POD:
        webhook["failurePolicy"] = "Ignore"  # an unavailable webhook must not block pods
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": PREFIX + service.path.replace("/", "-"), "labels": {"app": "volcano-admission"}},
        "webhooks": [webhook],
    }
