"""API types: the fields of API objects that the scheduler reads; all other JSON is skipped."""

from typing import Any

import msgspec
from msgspec import Raw

ABSENT = Raw(b"")


class ApiObject(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of partial JSON objects: only the declared fields are decoded."""


class Owner(ApiObject, frozen=True):
    uid: str = ""
    controller: bool | None = None


class Metadata(ApiObject, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


class Container(ApiObject, frozen=True):
    name: str = ""
    image: str = ""
    resources: Raw = ABSENT
    ports: Raw = ABSENT
    restart_policy: str | None = None


class Gate(ApiObject, frozen=True):
    name: str = ""


class PodResourceClaim(ApiObject, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(ApiObject, frozen=True):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Raw = ABSENT
    resources: Raw = ABSENT
    node_name: str | None = None
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    volumes: Raw = ABSENT
    host_network: bool | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[Gate] | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    resource_claims: list[PodResourceClaim] | None = None
    active_deadline_seconds: int | None = None


class StatusCondition(ApiObject, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    transition_id: str | None = msgspec.field(name="transitionID", default=None)


class ContainerStatus(ApiObject, frozen=True):
    name: str = ""
    resources: Raw = ABSENT
    allocated_resources: Raw = ABSENT


class PodResourceClaimStatus(ApiObject, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(ApiObject, frozen=True):
    phase: str | None = None
    conditions: list[StatusCondition] | None = None
    nominated_node_name: str | None = None
    start_time: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class ApiPod(ApiObject, frozen=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PartialObjectMetadata(ApiObject, frozen=True):
    """Metadata of an object, decoded when the rest of it is malformed."""

    metadata: Metadata


class ApiTaint(ApiObject, frozen=True):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(ApiObject, frozen=True):
    taints: list[ApiTaint] | None = None
    unschedulable: bool | None = None


class Image(ApiObject, frozen=True):
    names: list[str] | None = None
    size_bytes: int | None = None


class NodeStatus(ApiObject, frozen=True):
    allocatable: dict[str, str | int | float] | None = None
    capacity: dict[str, str | int | float] | None = None
    images: list[Image] | None = None


class ApiNode(ApiObject, frozen=True):
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PodGroupSpec(ApiObject, frozen=True):
    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    min_resources: dict[str, str | int | float] | None = None
    network_topology: dict[str, Any] | None = None
    sub_group_policy: list[dict[str, Any]] | None = None


class PodGroupStatus(ApiObject, frozen=True):
    phase: str | None = None
    conditions: list[StatusCondition] | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None


class ApiPodGroup(ApiObject, frozen=True):
    metadata: Metadata
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class QueueSpec(ApiObject, frozen=True):
    weight: int | None = None
    priority: int | None = None
    parent: str | None = None
    capability: dict[str, str | int | float] | None = None
    deserved: dict[str, str | int | float] | None = None
    guarantee: dict[str, dict[str, str | int | float] | None] | None = None
    reclaimable: bool | None = None
    affinity: dict[str, Any] | None = None
    dequeue_strategy: str | None = None


class QueueStatus(ApiObject, frozen=True):
    state: str | None = None
    allocated: dict[str, str | int | float] | None = None
    conditions: list[StatusCondition] | None = None


class ApiQueue(ApiObject, frozen=True):
    metadata: Metadata
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
