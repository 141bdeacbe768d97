"""Printers of the built-in kinds."""

from volcano.apiserver.endpoints.tables import autoscaling, cluster, core, devices, workloads
from volcano.apiserver.endpoints.tables.cells import Printer
from volcano.apiserver.endpoints.tables.custom import custom_printer
from volcano.apiserver.endpoints.tables.pods import POD_PRINTER
from volcano.apiserver.interfaces import Served
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind

PRINTERS: dict[Kind, Printer] = {
    kinds.POD: POD_PRINTER,
    kinds.NODE: core.NODE_PRINTER,
    kinds.NAMESPACE: core.NAMESPACE_PRINTER,
    kinds.EVENT: core.EVENT_PRINTER,
    kinds.EVENTS_EVENT: core.EVENT_PRINTER,
    kinds.SERVICE: core.SERVICE_PRINTER,
    kinds.ENDPOINTS: core.ENDPOINTS_PRINTER,
    kinds.ENDPOINT_SLICE: core.ENDPOINT_SLICE_PRINTER,
    kinds.CONFIG_MAP: core.CONFIG_MAP_PRINTER,
    kinds.SECRET: core.SECRET_PRINTER,
    kinds.SERVICE_ACCOUNT: cluster.NAME_AND_AGE_PRINTER,
    kinds.RESOURCE_QUOTA: core.QUOTA_PRINTER,
    kinds.LIMIT_RANGE: cluster.CREATED_AT_PRINTER,
    kinds.LEASE: core.LEASE_PRINTER,
    kinds.NETWORK_POLICY: core.NETWORK_POLICY_PRINTER,
    kinds.INGRESS: core.INGRESS_PRINTER,
    kinds.INGRESS_CLASS: core.INGRESS_CLASS_PRINTER,
    kinds.DEPLOYMENT: workloads.DEPLOYMENT_PRINTER,
    kinds.REPLICA_SET: workloads.REPLICA_SET_PRINTER,
    kinds.REPLICATION_CONTROLLER: workloads.REPLICATION_CONTROLLER_PRINTER,
    kinds.STATEFUL_SET: workloads.STATEFUL_SET_PRINTER,
    kinds.DAEMON_SET: workloads.DAEMON_SET_PRINTER,
    kinds.BATCH_JOB: workloads.JOB_PRINTER,
    kinds.BATCH_CRON_JOB: workloads.CRON_JOB_PRINTER,
    kinds.CONTROLLER_REVISION: workloads.CONTROLLER_REVISION_PRINTER,
    kinds.POD_TEMPLATE: workloads.POD_TEMPLATE_PRINTER,
    kinds.POD_DISRUPTION_BUDGET: workloads.DISRUPTION_BUDGET_PRINTER,
    kinds.PERSISTENT_VOLUME: cluster.VOLUME_PRINTER,
    kinds.PERSISTENT_VOLUME_CLAIM: cluster.CLAIM_PRINTER,
    kinds.STORAGE_CLASS: cluster.STORAGE_CLASS_PRINTER,
    kinds.CSI_NODE: cluster.CSI_NODE_PRINTER,
    kinds.CSI_DRIVER: cluster.CSI_DRIVER_PRINTER,
    kinds.CSI_STORAGE_CAPACITY: cluster.CREATED_AT_PRINTER,
    kinds.VOLUME_ATTACHMENT: cluster.VOLUME_ATTACHMENT_PRINTER,
    kinds.ROLE: cluster.CREATED_AT_PRINTER,
    kinds.CLUSTER_ROLE: cluster.CREATED_AT_PRINTER,
    kinds.ROLE_BINDING: cluster.BINDING_PRINTER,
    kinds.CLUSTER_ROLE_BINDING: cluster.BINDING_PRINTER,
    kinds.PRIORITY_CLASS: cluster.PRIORITY_CLASS_PRINTER,
    kinds.MUTATING_WEBHOOK: cluster.WEBHOOK_PRINTER,
    kinds.VALIDATING_WEBHOOK: cluster.WEBHOOK_PRINTER,
    kinds.CRD: cluster.CREATED_AT_PRINTER,
    kinds.RUNTIME_CLASS: cluster.RUNTIME_CLASS_PRINTER,
    kinds.HORIZONTAL_POD_AUTOSCALER: autoscaling.AUTOSCALER_PRINTER,
    kinds.HORIZONTAL_POD_AUTOSCALER_V1: autoscaling.AUTOSCALER_V1_PRINTER,
    kinds.CERTIFICATE_SIGNING_REQUEST: cluster.CERTIFICATE_REQUEST_PRINTER,
    kinds.RESOURCE_CLAIM: devices.RESOURCE_CLAIM_PRINTER,
    kinds.RESOURCE_SLICE: devices.RESOURCE_SLICE_PRINTER,
}


def printer_of(served: Served, subresource: str = "") -> Printer:
    """Printer of a kind: from the columns of its CRD, built in, or name and age."""
    if subresource == "scale":
        return cluster.SCALE_PRINTER
    if served.crd:
        return custom_printer(served.columns)
    return PRINTERS.get(served.kind, cluster.NAME_AND_AGE_PRINTER)
