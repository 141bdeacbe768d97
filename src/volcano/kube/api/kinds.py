"""The table of kinds: group, version, plural, scope, short names and subresources."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object in one version, as discovery describes it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = (
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    )
    # Kinds are keys of all indexes: their hash is computed once.
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.group, self.version, self.kind)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Called for every event by every controller, nearly always with the same object or with another
        kind."""
        if self is other:
            return True
        if not isinstance(other, Kind) or self._hash != other._hash:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`: the apiVersion of manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def resource(self) -> str:
        """`pods`, `deployments.apps`: the name in error messages and RBAC."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def __str__(self) -> str:
        return f"{self.kind}.{self.api_version}"


_COMPARED = tuple(each.name for each in fields(Kind) if each.compare)

ALL = ("all",)
STATUS = ("status",)
SCALABLE = ("scale", "status")

# core/v1
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", False, ("ns",), (), ("finalize", "status"))
NODE = Kind("", "v1", "Node", "nodes", False, ("no",), (), ("proxy", "status"))
POD = Kind(
    "",
    "v1",
    "Pod",
    "pods",
    True,
    ("po",),
    ALL,
    (
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ),
)
SERVICE = Kind("", "v1", "Service", "services", True, ("svc",), ALL, ("proxy", "status"))
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints", True, ("ep",))
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", True, ("cm",))
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",), (), ("token",))
EVENT = Kind("", "v1", "Event", "events", True, ("ev",))
PERSISTENT_VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, ("pv",), (), STATUS)
PERSISTENT_VOLUME_CLAIM = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, ("pvc",), (), STATUS
)
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), (), STATUS)
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", True, ("limits",))
REPLICATION_CONTROLLER = Kind(
    "", "v1", "ReplicationController", "replicationcontrollers", True, ("rc",), ALL, SCALABLE
)
POD_TEMPLATE = Kind("", "v1", "PodTemplate", "podtemplates")

EVENTS_EVENT = Kind("events.k8s.io", "v1", "Event", "events", True, ("ev",))
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",))
POD_DISRUPTION_BUDGET = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), (), STATUS
)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",))
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False)
CSI_DRIVER = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False)
CSI_STORAGE_CAPACITY = Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities")
VOLUME_ATTACHMENT = Kind(
    "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, (), (), STATUS
)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", True, ("deploy",), ALL, SCALABLE)
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), ALL, SCALABLE)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), ALL, SCALABLE)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), ALL, STATUS)
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
BATCH_JOB = Kind("batch", "v1", "Job", "jobs", True, (), ALL, STATUS)
BATCH_CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs", True, ("cj",), ALL, STATUS)
HORIZONTAL_POD_AUTOSCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, ("hpa",), ALL, STATUS
)
HORIZONTAL_POD_AUTOSCALER_V1 = Kind(
    "autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, ("hpa",), ALL, STATUS
)
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, ("netpol",))
INGRESS = Kind("networking.k8s.io", "v1", "Ingress", "ingresses", True, ("ing",), (), STATUS)
INGRESS_CLASS = Kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", False)
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False)
CLUSTER_ROLE_BINDING = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False
)
RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False)
CERTIFICATE_SIGNING_REQUEST = Kind(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    False,
    ("csr",),
    (),
    ("approval", "status"),
)
RESOURCE_CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, (), (), STATUS)
RESOURCE_CLAIM_TEMPLATE = Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates")
DEVICE_CLASS = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False)
RESOURCE_SLICE = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False)
MUTATING_WEBHOOK = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    False,
    (),
    ("api-extensions",),
)
VALIDATING_WEBHOOK = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    (),
    ("api-extensions",),
)
CRD = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    False,
    ("crd", "crds"),
    ("api-extensions",),
    STATUS,
)

# Kinds that are served and never stored.
ONLY_CREATE = ("create",)
TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, verbs=ONLY_CREATE)
SELF_SUBJECT_REVIEW = Kind(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, verbs=ONLY_CREATE
)
SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, verbs=ONLY_CREATE
)
SELF_SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    False,
    verbs=ONLY_CREATE,
)
SELF_SUBJECT_RULES_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectRulesReview",
    "selfsubjectrulesreviews",
    False,
    verbs=ONLY_CREATE,
)
LOCAL_SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io",
    "v1",
    "LocalSubjectAccessReview",
    "localsubjectaccessreviews",
    True,
    verbs=ONLY_CREATE,
)
# Computed from other objects and from measurements; read-only.
ONLY_READ = ("get", "list")
API_SERVICE = Kind(
    "apiregistration.k8s.io",
    "v1",
    "APIService",
    "apiservices",
    False,
    (),
    ("api-extensions",),
    verbs=ONLY_READ,
)
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", False, verbs=ONLY_READ)
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", verbs=ONLY_READ)

# Volcano's own kinds; their full descriptions are CRDs.
JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", True, ("vcjob", "vj"), (), STATUS)
CRON_JOB = Kind(
    "batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs", True, ("cronvcjob", "cronvj"), (), STATUS
)
COMMAND = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands")
QUEUE = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", False, ("q", "queue-v1beta1"), (), STATUS)
POD_GROUP = Kind(
    "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", True, ("pg", "podgroup-v1beta1")
)
JOB_FLOW = Kind("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows", True, ("jf",), (), STATUS)
JOB_TEMPLATE = Kind("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates", True, ("jt",), (), STATUS)
HYPER_NODE = Kind("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", False, ("hn",), (), STATUS)
NUMATOPOLOGY = Kind("nodeinfo.volcano.sh", "v1alpha1", "Numatopology", "numatopologies", False, ("numatopo",))
NODE_SHARD = Kind("shard.volcano.sh", "v1alpha1", "NodeShard", "nodeshards", False, ("nsh",), (), STATUS)
NODE_RESERVATION = Kind(
    "reservation.volcano.sh", "v1alpha1", "NodeReservation", "nodereservations", False, ("nres",)
)
COLOCATION_CONFIGURATION = Kind(
    "config.volcano.sh",
    "v1alpha1",
    "ColocationConfiguration",
    "colocationconfigurations",
    True,
    (),
    (),
    STATUS,
)

BUILT_IN: tuple[Kind, ...] = (
    NAMESPACE, NODE, POD, SERVICE, ENDPOINTS, CONFIG_MAP, SECRET, SERVICE_ACCOUNT, EVENT, PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM, RESOURCE_QUOTA, LIMIT_RANGE, REPLICATION_CONTROLLER, POD_TEMPLATE, EVENTS_EVENT,
    PRIORITY_CLASS, POD_DISRUPTION_BUDGET, LEASE, STORAGE_CLASS, CSI_NODE, CSI_DRIVER, CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, CONTROLLER_REVISION, BATCH_JOB,
    BATCH_CRON_JOB, ENDPOINT_SLICE, NETWORK_POLICY, INGRESS, INGRESS_CLASS, ROLE, ROLE_BINDING, CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    RUNTIME_CLASS, CERTIFICATE_SIGNING_REQUEST, MUTATING_WEBHOOK, VALIDATING_WEBHOOK, CRD, RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE, DEVICE_CLASS, RESOURCE_SLICE,
    HORIZONTAL_POD_AUTOSCALER, HORIZONTAL_POD_AUTOSCALER_V1,
)  # fmt: skip
REVIEWS: tuple[Kind, ...] = (
    TOKEN_REVIEW, SELF_SUBJECT_REVIEW, SUBJECT_ACCESS_REVIEW, SELF_SUBJECT_ACCESS_REVIEW, SELF_SUBJECT_RULES_REVIEW,
    LOCAL_SUBJECT_ACCESS_REVIEW,
)  # fmt: skip
COMPUTED: tuple[Kind, ...] = (API_SERVICE, NODE_METRICS, POD_METRICS)
VIRTUAL: tuple[Kind, ...] = (*REVIEWS, *COMPUTED)
OURS: tuple[Kind, ...] = (
    JOB, CRON_JOB, COMMAND, QUEUE, POD_GROUP, JOB_FLOW, JOB_TEMPLATE, HYPER_NODE, NUMATOPOLOGY, NODE_SHARD,
    COLOCATION_CONFIGURATION, NODE_RESERVATION,
)  # fmt: skip


def by_gvk(kinds: Iterable[Kind]) -> dict[tuple[str, str], Kind]:
    """Returns kinds by (apiVersion, kind)."""
    return {(kind.api_version, kind.kind): kind for kind in kinds}
