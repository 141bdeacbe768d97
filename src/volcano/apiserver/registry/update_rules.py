"""Rules of PUT by kind: whether it creates missing objects, and whether it must name a version."""

from volcano.kube.api import kinds

# Kinds that a PUT may create, and kinds whose PUT must name a version.
CREATED_BY_UPDATE = frozenset(
    kind.resource
    for kind in (
        kinds.ROLE,
        kinds.ROLE_BINDING,
        kinds.CLUSTER_ROLE,
        kinds.CLUSTER_ROLE_BINDING,
        kinds.LEASE,
        kinds.LIMIT_RANGE,
        kinds.EVENT,
        kinds.SERVICE,
        kinds.ENDPOINTS,
    )
)
CONDITIONAL_ONLY = frozenset(
    kind.resource
    for kind in (
        kinds.POD_DISRUPTION_BUDGET,
        kinds.CSI_DRIVER,
        kinds.CSI_NODE,
        kinds.CSI_STORAGE_CAPACITY,
        kinds.VOLUME_ATTACHMENT,
        kinds.LEASE,
        kinds.MUTATING_WEBHOOK,
        kinds.VALIDATING_WEBHOOK,
        kinds.CRD,
    )
)
