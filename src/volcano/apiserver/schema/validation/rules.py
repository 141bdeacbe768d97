"""Validation functions of the built-in kinds: on every write, on create and on update."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from volcano.apiserver.schema.validation import (
    autoscalers,
    certificates,
    cluster,
    configuration,
    crds,
    ingresses,
    pods,
    policies,
    rbac,
    services,
    storage,
    webhook_configurations,
    workloads,
)
from volcano.apiserver.schema.validation.devices import claims as resource_claims
from volcano.apiserver.schema.validation.devices import classes as device_classes
from volcano.apiserver.schema.validation.devices import slices as resource_slices
from volcano.kube.api import kinds
from volcano.kube.api.errors import Cause
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

Validate = Callable[[Manifest], Iterable[Cause]]
# Takes the new object, the old one and the subresource.
ValidateUpdate = Callable[[Manifest, Manifest, str], Iterable[Cause]]

ALWAYS: Mapping[Kind, Validate] = {
    kinds.NAMESPACE: cluster.namespace,
    kinds.NODE: cluster.node,
    kinds.POD: pods.pod,
    kinds.SERVICE: services.service,
    kinds.ENDPOINTS: services.endpoints,
    kinds.CONFIG_MAP: configuration.config_map,
    kinds.SECRET: configuration.secret,
    kinds.EVENT: cluster.event,
    kinds.EVENTS_EVENT: cluster.new_event,
    kinds.PERSISTENT_VOLUME: storage.volume,
    kinds.PERSISTENT_VOLUME_CLAIM: storage.claim,
    kinds.RESOURCE_QUOTA: policies.resource_quota,
    kinds.LIMIT_RANGE: policies.limit_range,
    kinds.REPLICATION_CONTROLLER: workloads.replication_controller,
    kinds.POD_TEMPLATE: workloads.pod_template,
    kinds.PRIORITY_CLASS: policies.priority_class,
    kinds.POD_DISRUPTION_BUDGET: workloads.budget,
    kinds.LEASE: workloads.lease,
    kinds.STORAGE_CLASS: storage.storage_class,
    kinds.CSI_NODE: storage.csi_node,
    kinds.CSI_DRIVER: storage.csi_driver,
    kinds.CSI_STORAGE_CAPACITY: storage.storage_capacity,
    kinds.VOLUME_ATTACHMENT: storage.volume_attachment,
    kinds.DEPLOYMENT: workloads.deployment,
    kinds.REPLICA_SET: workloads.replica_set,
    kinds.STATEFUL_SET: workloads.stateful_set,
    kinds.DAEMON_SET: workloads.daemon_set,
    kinds.CONTROLLER_REVISION: workloads.controller_revision,
    kinds.BATCH_JOB: workloads.job,
    kinds.BATCH_CRON_JOB: workloads.cron_job,
    kinds.ENDPOINT_SLICE: services.endpoint_slice,
    kinds.NETWORK_POLICY: services.network_policy,
    kinds.INGRESS: ingresses.ingress,
    kinds.INGRESS_CLASS: ingresses.ingress_class,
    kinds.HORIZONTAL_POD_AUTOSCALER: autoscalers.autoscaler,
    kinds.HORIZONTAL_POD_AUTOSCALER_V1: autoscalers.autoscaler_v1,
    kinds.ROLE: rbac.role,
    kinds.CLUSTER_ROLE: rbac.cluster_role,
    kinds.ROLE_BINDING: rbac.role_binding,
    kinds.CLUSTER_ROLE_BINDING: rbac.cluster_role_binding,
    kinds.MUTATING_WEBHOOK: webhook_configurations.webhook_configuration,
    kinds.VALIDATING_WEBHOOK: webhook_configurations.webhook_configuration,
    kinds.CRD: crds.crd,
    kinds.RUNTIME_CLASS: cluster.runtime_class,
    kinds.CERTIFICATE_SIGNING_REQUEST: certificates.certificate_signing_request,
    kinds.DEVICE_CLASS: device_classes.device_class,
    kinds.RESOURCE_SLICE: resource_slices.resource_slice,
}
# Validation that depends on the spec alone, so that its result can be reused for equal specs.
OF_SPEC: Mapping[Kind, Callable[[Mapping[str, Any], str], Iterable[Cause]]] = {kinds.POD: pods.pod_spec}
ON_CREATE: Mapping[Kind, Validate] = {
    kinds.BATCH_JOB: workloads.new_job,
    kinds.POD: pods.pod_create,
    kinds.INGRESS: ingresses.new_ingress,
    kinds.RESOURCE_CLAIM: resource_claims.claim,
    kinds.RESOURCE_CLAIM_TEMPLATE: resource_claims.template,
    kinds.HORIZONTAL_POD_AUTOSCALER: autoscalers.new_autoscaler,
    kinds.HORIZONTAL_POD_AUTOSCALER_V1: autoscalers.new_autoscaler_v1,
}
ON_UPDATE: Mapping[Kind, ValidateUpdate] = {
    kinds.POD: pods.pod_update,
    kinds.SERVICE: services.service_update,
    kinds.CONFIG_MAP: configuration.config_map_update,
    kinds.SECRET: configuration.secret_update,
    kinds.PERSISTENT_VOLUME: storage.volume_update,
    kinds.PERSISTENT_VOLUME_CLAIM: storage.claim_update,
    kinds.RESOURCE_QUOTA: policies.resource_quota_update,
    kinds.PRIORITY_CLASS: policies.priority_class_update,
    kinds.STORAGE_CLASS: storage.storage_class_update,
    kinds.DEPLOYMENT: workloads.selector_update,
    kinds.REPLICA_SET: workloads.selector_update,
    kinds.DAEMON_SET: workloads.selector_update,
    kinds.STATEFUL_SET: workloads.stateful_set_update,
    kinds.CONTROLLER_REVISION: workloads.controller_revision_update,
    kinds.BATCH_JOB: workloads.job_update,
    kinds.ENDPOINT_SLICE: services.endpoint_slice_update,
    kinds.INGRESS: ingresses.ingress_status,
    kinds.INGRESS_CLASS: ingresses.ingress_class_update,
    kinds.HORIZONTAL_POD_AUTOSCALER: autoscalers.autoscaler_update,
    kinds.HORIZONTAL_POD_AUTOSCALER_V1: autoscalers.autoscaler_v1_update,
    kinds.ROLE_BINDING: rbac.binding_update,
    kinds.CLUSTER_ROLE_BINDING: rbac.binding_update,
    kinds.CRD: crds.crd_update,
    kinds.RUNTIME_CLASS: cluster.runtime_class_update,
    kinds.CERTIFICATE_SIGNING_REQUEST: certificates.certificate_update,
    kinds.RESOURCE_CLAIM: resource_claims.claim_update,
    kinds.RESOURCE_CLAIM_TEMPLATE: resource_claims.template_update,
    kinds.RESOURCE_SLICE: resource_slices.resource_slice_update,
}
