"""The default roles and bindings of a cluster, as compact tables."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from volcano.apiserver.authz.rbac import GROUP
from volcano.kube import kinds
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Manifest

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
ALL_VERBS = (*WRITE, *READ)
RECORD = ("create", "patch", "update")  # by event recorders
EVENTS = ("", "events.k8s.io")
OURS = tuple(sorted({kind.group for kind in kinds.OURS}))
AGGREGATE = f"{GROUP}/aggregate-to-"


class Grant(NamedTuple):
    """One rule: verbs on resources of API groups, or on paths when `groups` is empty."""

    groups: tuple[str, ...]
    resources: str  # or paths, separated by spaces
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


CORE, APPS, BATCH = ("",), ("apps",), ("batch",)
WORKLOADS = (
    "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"
)
HEALTH_PATHS = "/healthz /livez /readyz /version /version/"
REVIEWS = (
    Grant(("authentication.k8s.io",), "tokenreviews", ("create",)),
    Grant(("authorization.k8s.io",), "subjectaccessreviews", ("create",)),
)

CLUSTER_ROLES: dict[str, Sequence[Grant]] = {
    "cluster-admin": (Grant(("*",), "*", ("*",)), Grant((), "*", ("*",))),
    "system:aggregate-to-admin": (
        Grant(("authorization.k8s.io",), "localsubjectaccessreviews", ("create",)),
        Grant((GROUP,), "rolebindings roles", ALL_VERBS),
    ),
    "system:aggregate-to-edit": (
        Grant(CORE, "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", READ),
        Grant(CORE, "serviceaccounts", ("impersonate",)),
        Grant(CORE, "pods pods/attach pods/exec pods/portforward pods/proxy", WRITE),
        Grant(CORE, "pods/eviction serviceaccounts/token", ("create",)),
        Grant(
            CORE,
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale",
            WRITE,
        ),
        Grant(CORE, "secrets serviceaccounts services services/proxy", WRITE),
        Grant(EVENTS, "events", WRITE),
        Grant(APPS, WORKLOADS, WRITE),
        Grant(BATCH, "cronjobs jobs", WRITE),
        Grant(("policy",), "poddisruptionbudgets", WRITE),
        Grant(("networking.k8s.io",), "ingresses networkpolicies", WRITE),
        Grant(("coordination.k8s.io",), "leases", ALL_VERBS),
        Grant(("batch.volcano.sh",), "jobs cronjobs", WRITE),
        Grant(("bus.volcano.sh",), "commands", WRITE),
        Grant(("flow.volcano.sh",), "jobflows jobtemplates", WRITE),
        Grant(("scheduling.volcano.sh",), "podgroups", WRITE),
    ),
    "system:aggregate-to-view": (
        Grant(CORE, "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods", READ),
        Grant(CORE, "replicationcontrollers replicationcontrollers/scale serviceaccounts services", READ),
        Grant(
            CORE,
            "services/status bindings limitranges namespaces namespaces/status pods/log pods/status",
            READ,
        ),
        Grant(CORE, "replicationcontrollers/status resourcequotas resourcequotas/status", READ),
        Grant(EVENTS, "events", READ),
        Grant(("discovery.k8s.io",), "endpointslices", READ),
        Grant(APPS, f"{WORKLOADS} controllerrevisions", READ),
        Grant(APPS, "daemonsets/status deployments/status replicasets/status statefulsets/status", READ),
        Grant(BATCH, "cronjobs cronjobs/status jobs jobs/status", READ),
        Grant(("policy",), "poddisruptionbudgets poddisruptionbudgets/status", READ),
        Grant(("networking.k8s.io",), "ingresses ingresses/status networkpolicies", READ),
        Grant(OURS, "*", READ),
    ),
    "system:auth-delegator": REVIEWS,
    "system:basic-user": (
        Grant(("authorization.k8s.io",), "selfsubjectaccessreviews selfsubjectrulesreviews", ("create",)),
        Grant(("authentication.k8s.io",), "selfsubjectreviews", ("create",)),
    ),
    "system:discovery": (
        Grant((), f"/api /api/* /apis /apis/* /openapi /openapi/* {HEALTH_PATHS}", ("get",)),
    ),
    "system:public-info-viewer": (Grant((), HEALTH_PATHS, ("get",)),),
    "system:monitoring": (
        Grant((), "/healthz /healthz/* /livez /livez/* /readyz /readyz/* /metrics /metrics/slis", ("get",)),
        Grant(CORE, "nodes/metrics", ("get",)),
    ),
    "system:service-account-issuer-discovery": (
        Grant(
            (),
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
            ("get",),
        ),
    ),
    "system:kube-controller-manager": (
        Grant(EVENTS, "events", RECORD),
        Grant(("coordination.k8s.io",), "leases", ("create",)),
        Grant(("coordination.k8s.io",), "leases", ("get", "update"), ("kube-controller-manager",)),
        Grant(CORE, "secrets serviceaccounts", ("create", "get", "update")),
        Grant(CORE, "secrets", ("delete",)),
        Grant(CORE, "configmaps namespaces", ("get",)),
        *REVIEWS,
        Grant(("*",), "*", ("list", "watch")),
        Grant(CORE, "serviceaccounts/token", ("create",)),
    ),
    "system:kube-scheduler": (
        Grant(EVENTS, "events", RECORD),
        Grant(("coordination.k8s.io",), "leases", ("create",)),
        Grant(("coordination.k8s.io",), "leases", ("get", "list", "update", "watch"), ("kube-scheduler",)),
        Grant(
            CORE,
            "nodes namespaces replicationcontrollers services persistentvolumeclaims persistentvolumes",
            READ,
        ),
        Grant(CORE, "pods", ("delete", *READ)),
        Grant(CORE, "bindings pods/binding", ("create",)),
        Grant(CORE, "pods/status", ("patch", "update")),
        Grant(APPS, "replicasets statefulsets", READ),
        Grant(("policy",), "poddisruptionbudgets", READ),
        Grant(("storage.k8s.io",), "csinodes csidrivers csistoragecapacities volumeattachments", READ),
        *REVIEWS,
    ),
    "system:volume-scheduler": (
        Grant(CORE, "persistentvolumes persistentvolumeclaims", ("patch", "update", *READ)),
        Grant(("storage.k8s.io",), "storageclasses", READ),
    ),
    "system:node": (
        *REVIEWS,
        Grant(("authorization.k8s.io",), "localsubjectaccessreviews", ("create",)),
        Grant(CORE, "services configmaps secrets", READ),
        Grant(CORE, "nodes", ("create", "patch", "update", *READ)),
        Grant(CORE, "nodes/status pods/status", ("patch", "update")),
        Grant(EVENTS, "events", RECORD),
        Grant(CORE, "pods", ("create", "delete", *READ)),
        Grant(CORE, "pods/eviction serviceaccounts/token", ("create",)),
        Grant(CORE, "persistentvolumeclaims persistentvolumes endpoints serviceaccounts", ("get",)),
        Grant(CORE, "persistentvolumeclaims/status", ("get", "patch", "update")),
        Grant(("coordination.k8s.io",), "leases", ("create", "delete", "get", "patch", "update")),
        Grant(("storage.k8s.io",), "volumeattachments", ("get",)),
        Grant(("storage.k8s.io",), "csidrivers", READ),
        Grant(("storage.k8s.io",), "csinodes", ("create", "delete", "get", "patch", "update")),
    ),
    "system:node-proxier": (
        Grant(CORE, "endpoints services", ("list", "watch")),
        Grant(CORE, "nodes", READ),
        Grant(EVENTS, "events", RECORD),
        Grant(("discovery.k8s.io",), "endpointslices", ("list", "watch")),
    ),
    "system:persistent-volume-provisioner": (
        Grant(CORE, "persistentvolumes", ("create", "delete", *READ)),
        Grant(CORE, "persistentvolumeclaims", ("update", *READ)),
        Grant(("storage.k8s.io",), "storageclasses", READ),
        Grant(CORE, "events", ("watch",)),
        Grant(EVENTS, "events", RECORD),
    ),
}
# Aggregated roles: the union of all ClusterRoles with their label, and the role they are aggregated into.
AGGREGATED = {"admin": "", "edit": "admin", "view": "edit"}
PART_OF = {f"system:aggregate-to-{role}": role for role in AGGREGATED}
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"

# ClusterRoleBindings, named after their role: (kind of subject, name).
CLUSTER_BINDINGS: dict[str, Sequence[tuple[str, str]]] = {
    "cluster-admin": [("Group", "system:masters")],
    "system:basic-user": [("Group", AUTHENTICATED)],
    "system:discovery": [("Group", AUTHENTICATED)],
    "system:public-info-viewer": [("Group", AUTHENTICATED), ("Group", UNAUTHENTICATED)],
    "system:monitoring": [("Group", "system:monitoring")],
    "system:service-account-issuer-discovery": [("Group", "system:serviceaccounts")],
    "system:kube-controller-manager": [("User", "system:kube-controller-manager")],
    "system:kube-scheduler": [("User", "system:kube-scheduler")],
    "system:volume-scheduler": [("User", "system:kube-scheduler")],
    "system:node": [("Group", "system:nodes")],
    "system:node-proxier": [("User", "system:kube-proxy")],
}
AUTHENTICATION_READER = "extension-apiserver-authentication-reader"


def default_rbac() -> Iterator[tuple[Kind, Manifest]]:
    """Every default RBAC object; existing ones are left alone."""
    for name, grants in CLUSTER_ROLES.items():
        yield kinds.CLUSTER_ROLE, _role(name, grants, part_of=PART_OF.get(name, ""))
    for name, part_of in AGGREGATED.items():
        role = _role(name, _aggregated(name), part_of=part_of)
        selector = {"matchLabels": {f"{AGGREGATE}{name}": "true"}}
        yield kinds.CLUSTER_ROLE, {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    for name, subjects in CLUSTER_BINDINGS.items():
        yield kinds.CLUSTER_ROLE_BINDING, _binding(name, subjects)
    reader = Grant(CORE, "configmaps", READ, ("extension-apiserver-authentication",))
    role = _role(AUTHENTICATION_READER, [reader])
    yield kinds.ROLE, {**role, "kind": "Role", "metadata": {**role["metadata"], "namespace": "kube-system"}}


def _aggregated(name: str) -> list[Grant]:
    """The initial rules of an aggregated role, so that it is readable before aggregation."""
    inherited = next((part for part, whole in AGGREGATED.items() if whole == name), "")
    return [*CLUSTER_ROLES[f"system:aggregate-to-{name}"], *(_aggregated(inherited) if inherited else ())]


def _metadata(name: str, part_of: str = "") -> Manifest:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if part_of:
        labels[f"{AGGREGATE}{part_of}"] = "true"
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {"name": name, "labels": labels, "annotations": annotations}


def _role(name: str, grants: Sequence[Grant], part_of: str = "") -> Manifest:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(name, part_of),
        "rules": [_rule(grant) for grant in grants],
    }


def _rule(grant: Grant) -> Manifest:
    what = grant.resources.split()
    if not grant.groups:
        return {"nonResourceURLs": what, "verbs": list(grant.verbs)}
    rule: Manifest = {"apiGroups": list(grant.groups), "resources": what, "verbs": list(grant.verbs)}
    if grant.names:
        rule["resourceNames"] = list(grant.names)
    return rule


def _binding(name: str, subjects: Sequence[tuple[str, str]]) -> Manifest:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": kind, "apiGroup": GROUP, "name": subject} for kind, subject in subjects],
    }
