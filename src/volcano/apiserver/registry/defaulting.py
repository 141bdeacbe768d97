"""Defaults of the built-in kinds, table by table, kind by kind."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from volcano.apiserver.registry.autoscaler_defaulting import default_autoscaler, default_autoscaler_v1
from volcano.apiserver.registry.devices import default_claim, default_claim_template, default_slice
from volcano.apiserver.registry.pod_defaulting import (
    canonical,
    canonical_amounts,
    default_claim_spec,
    default_pod,
    default_template,
    default_volume,
)
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

Default = Callable[[Manifest], None]
_CLIENT_IP_SECONDS = 10_800


def default_for(kind: Kind) -> Default | None:
    """The function that sets the defaults of a built-in kind, if it has any."""
    return DEFAULTS.get(kind)


def _fill(holder: Manifest, values: Mapping[str, Any]) -> None:
    """Sets missing or empty fields; containers are copied each time."""
    for name, value in values.items():
        if holder.get(name) in (None, ""):
            holder[name] = value.copy() if isinstance(value, dict | list) else value


def _service(service: Manifest) -> None:
    spec = service.setdefault("spec", {})
    _fill(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP" and not (spec.get("sessionAffinityConfig") or {}).get(
        "clientIP"
    ):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _CLIENT_IP_SECONDS}}
    for port in spec.get("ports") or ():
        _fill(port, {"protocol": "TCP"})
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] != "ExternalName":
        _fill(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True


def _namespace(namespace: Manifest) -> None:
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        labels = metadata.get("labels")
        if labels is None:
            labels = metadata["labels"] = {}
        labels["kubernetes.io/metadata.name"] = name


def _node(node: Manifest) -> None:
    spec = node.setdefault("spec", {})
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    status = node.get("status") or {}
    canonical_amounts(status.get("capacity"))
    canonical_amounts(status.get("allocatable"))
    if status.get("allocatable") is None and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def _secret(secret: Manifest) -> None:
    _fill(secret, {"type": "Opaque"})
    if texts := secret.pop("stringData", None):
        data = secret.get("data") or {}
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()
        secret["data"] = data


def _endpoints(endpoints: Manifest) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            _fill(port, {"protocol": "TCP"})


def _event(event: Manifest) -> None:
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(name, None)
    for name in ("reportingComponent", "reportingInstance"):
        event.setdefault(name, "")
    event.setdefault("source", {})


def _new_event(event: Manifest) -> None:
    event.setdefault("deprecatedSource", {})
    for name in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp"):
        event.setdefault(name, None)


def _volume(volume: Manifest) -> None:
    spec = volume.setdefault("spec", {})
    _fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    canonical_amounts(spec.get("capacity"))
    default_volume({"name": "", **spec})  # changes the sources in place


def _claim(claim: Manifest) -> None:
    default_claim_spec(claim.setdefault("spec", {}))


def _quota(quota: Manifest) -> None:
    canonical_amounts(quota.setdefault("spec", {}).get("hard"))
    for name in ("hard", "used"):
        canonical_amounts((quota.get("status") or {}).get(name))


def _limit_range(limits: Manifest) -> None:
    for item in limits.setdefault("spec", {}).get("limits") or ():
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            canonical_amounts(item.get(name))
        if item.get("type") != "Container":
            continue
        _inherit(item, "default", "max")
        _inherit(item, "defaultRequest", "default")
        _inherit(item, "defaultRequest", "min")


def _inherit(item: Manifest, name: str, source: str) -> None:
    for resource, amount in (item.get(source) or {}).items():
        item.setdefault(name, {}).setdefault(resource, amount)


def _replication(controller: Manifest) -> None:
    spec = controller.setdefault("spec", {})
    if spec.get("template") is not None:
        default_template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        _inherit_labels(controller, labels)
    _fill(spec, {"replicas": 1})


def _inherit_labels(workload: Manifest, labels: Mapping[str, str]) -> None:
    if not workload["metadata"].get("labels"):
        workload["metadata"]["labels"] = dict(labels)


def _replica_set(workload: Manifest) -> None:
    spec = workload.setdefault("spec", {})
    _fill(spec, {"replicas": 1})
    default_template(spec)


def _deployment(workload: Manifest) -> None:
    _replica_set(workload)
    spec = workload["spec"]
    _fill(spec, {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}})
    strategy = spec["strategy"]
    _fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        _fill(strategy, {"rollingUpdate": {}})
        _fill(strategy["rollingUpdate"], {"maxUnavailable": "25%", "maxSurge": "25%"})


def _stateful_set(workload: Manifest) -> None:
    _replica_set(workload)
    spec = workload["spec"]
    _fill(
        spec,
        {
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {},
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {},
        },
    )
    _fill(spec["persistentVolumeClaimRetentionPolicy"], {"whenDeleted": "Retain", "whenScaled": "Retain"})
    update = spec["updateStrategy"]
    _fill(update, {"type": "RollingUpdate"})
    if update["type"] == "RollingUpdate":
        _fill(update, {"rollingUpdate": {}})
        _fill(update["rollingUpdate"], {"partition": 0})
    for claim in spec.get("volumeClaimTemplates") or ():
        _fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        default_claim_spec(claim.setdefault("spec", {}))
        claim["status"] = {"phase": "Pending"}


def _daemon_set(workload: Manifest) -> None:
    spec = workload.setdefault("spec", {})
    default_template(spec)
    _fill(spec, {"updateStrategy": {}, "revisionHistoryLimit": 10})
    update = spec["updateStrategy"]
    _fill(update, {"type": "RollingUpdate"})
    if update["type"] == "RollingUpdate":
        _fill(update, {"rollingUpdate": {}})
        _fill(update["rollingUpdate"], {"maxUnavailable": 1, "maxSurge": 0})


def _batch_job(job: Manifest) -> None:
    spec = job.setdefault("spec", {})
    default_template(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    per_index = spec.get("backoffLimitPerIndex") is not None
    _fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": 2**31 - 1 if per_index else 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
        },
    )
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            _fill(condition, {"status": "True"})


def _cron_job(job: Manifest) -> None:
    spec = job.setdefault("spec", {})
    _fill(
        spec,
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )
    template = spec.setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    default_template(template.setdefault("spec", {}))


def _endpoint_slice(endpoints: Manifest) -> None:
    for endpoint in endpoints.get("endpoints") or ():
        endpoint.setdefault("conditions", {})
    for port in endpoints.get("ports") or ():
        port.setdefault("name", "")
        _fill(port, {"protocol": "TCP"})


def _ingress(ingress: Manifest) -> None:
    spec = ingress.setdefault("spec", {})
    backends = [spec.get("defaultBackend")]
    for rule in spec.get("rules") or ():
        for path in (rule.get("http") or {}).get("paths") or ():
            backends.append(path.setdefault("backend", {}))
    for backend in backends:
        service = (backend or {}).get("service")
        if service is not None:
            service.setdefault("port", {})


def _ingress_class(ingress_class: Manifest) -> None:
    parameters = ingress_class.setdefault("spec", {}).get("parameters")
    if parameters is not None:
        _fill(parameters, {"scope": "Cluster"})


def _network_policy(policy: Manifest) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    for name in ("ingress", "egress"):
        for rule in spec.get(name) or ():
            for port in rule.get("ports") or ():
                _fill(port, {"protocol": "TCP"})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _binding(binding: Manifest) -> None:
    group = kinds.ROLE.group
    _fill(binding.setdefault("roleRef", {}), {"apiGroup": group})
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            _fill(subject, {"apiGroup": group})


def _webhooks(configuration: Manifest, values: Mapping[str, Any]) -> None:
    for webhook in configuration.get("webhooks") or ():
        _fill(
            webhook,
            {
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "timeoutSeconds": 10,
                **values,
            },
        )
        if service := (webhook.get("clientConfig") or {}).get("service"):
            _fill(service, {"port": 443})
        for rule in webhook.get("rules") or ():
            _fill(rule, {"scope": "*"})


def _mutating(configuration: Manifest) -> None:
    _webhooks(configuration, {"reinvocationPolicy": "Never"})


def _validating(configuration: Manifest) -> None:
    _webhooks(configuration, {})


def _csi_driver(driver: Manifest) -> None:
    _fill(
        driver.setdefault("spec", {}),
        {
            "attachRequired": True,
            "podInfoOnMount": False,
            "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "requiresRepublish": False,
            "seLinuxMount": False,
            "volumeLifecycleModes": ["Persistent"],
        },
    )


def _storage_capacity(capacity: Manifest) -> None:
    for name in ("capacity", "maximumVolumeSize"):
        if capacity.get(name) is not None:
            capacity[name] = canonical(capacity[name])


def _crd(crd: Manifest) -> None:
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        _fill(names, {"singular": str(kind).lower(), "listKind": f"{kind}List"})
    _fill(spec, {"conversion": {}})
    _fill(spec["conversion"], {"strategy": "None"})


def _role(role: Manifest) -> None:
    role.setdefault("rules", None)


DEFAULTS: Mapping[Kind, Default] = {
    kinds.POD: default_pod,
    kinds.SERVICE: _service,
    kinds.NAMESPACE: _namespace,
    kinds.NODE: _node,
    kinds.SECRET: _secret,
    kinds.ENDPOINTS: _endpoints,
    kinds.EVENT: _event,
    kinds.EVENTS_EVENT: _new_event,
    kinds.PERSISTENT_VOLUME: _volume,
    kinds.PERSISTENT_VOLUME_CLAIM: _claim,
    kinds.RESOURCE_QUOTA: _quota,
    kinds.LIMIT_RANGE: _limit_range,
    kinds.REPLICATION_CONTROLLER: _replication,
    kinds.POD_TEMPLATE: default_template,
    kinds.PRIORITY_CLASS: lambda it: _fill(it, {"preemptionPolicy": "PreemptLowerPriority", "value": 0}),
    kinds.LEASE: lambda it: _fill(it, {"spec": {}}),
    kinds.STORAGE_CLASS: lambda it: _fill(it, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    kinds.CSI_DRIVER: _csi_driver,
    kinds.CSI_STORAGE_CAPACITY: _storage_capacity,
    kinds.DEPLOYMENT: _deployment,
    kinds.REPLICA_SET: _replica_set,
    kinds.STATEFUL_SET: _stateful_set,
    kinds.DAEMON_SET: _daemon_set,
    kinds.BATCH_JOB: _batch_job,
    kinds.BATCH_CRON_JOB: _cron_job,
    kinds.ENDPOINT_SLICE: _endpoint_slice,
    kinds.NETWORK_POLICY: _network_policy,
    kinds.INGRESS: _ingress,
    kinds.INGRESS_CLASS: _ingress_class,
    kinds.ROLE: _role,
    kinds.CLUSTER_ROLE: _role,
    kinds.ROLE_BINDING: _binding,
    kinds.CLUSTER_ROLE_BINDING: _binding,
    kinds.MUTATING_WEBHOOK: _mutating,
    kinds.VALIDATING_WEBHOOK: _validating,
    kinds.CRD: _crd,
    kinds.RUNTIME_CLASS: lambda it: canonical_amounts((it.get("overhead") or {}).get("podFixed")),
    kinds.CERTIFICATE_SIGNING_REQUEST: lambda it: _fill(it, {"spec": {}}),
    kinds.RESOURCE_CLAIM: default_claim,
    kinds.RESOURCE_CLAIM_TEMPLATE: default_claim_template,
    kinds.RESOURCE_SLICE: default_slice,
    kinds.HORIZONTAL_POD_AUTOSCALER: default_autoscaler,
    kinds.HORIZONTAL_POD_AUTOSCALER_V1: default_autoscaler_v1,
}
