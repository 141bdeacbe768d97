"""The default roles and bindings of a cluster, as compact tables."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from volcano.apiserver.authz.actions import Rule, rule_of
from volcano.apiserver.authz.rbac import GROUP
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

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
CERTIFICATES = "certificates.k8s.io"
CSRS = Grant((CERTIFICATES,), "certificatesigningrequests", ("create", *READ))
WORKLOADS = (
    "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"
)
METRICS_READER = "system:aggregated-metrics-reader"
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
        Grant(("autoscaling",), "horizontalpodautoscalers", WRITE),
        Grant(("policy",), "poddisruptionbudgets", WRITE),
        Grant(("networking.k8s.io",), "ingresses networkpolicies", WRITE),
        Grant(("resource.k8s.io",), "resourceclaims resourceclaimtemplates", WRITE),
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
        Grant(("autoscaling",), "horizontalpodautoscalers horizontalpodautoscalers/status", READ),
        Grant(("policy",), "poddisruptionbudgets poddisruptionbudgets/status", READ),
        Grant(("networking.k8s.io",), "ingresses ingresses/status networkpolicies", READ),
        Grant(("resource.k8s.io",), "resourceclaims resourceclaims/status resourceclaimtemplates", READ),
        Grant(OURS, "*", READ),
    ),
    # As metrics-server installs it.
    METRICS_READER: (Grant(("metrics.k8s.io",), "pods nodes", READ),),
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
        Grant(CORE, "pods/finalizers", ("update",)),
        Grant(APPS, "replicasets statefulsets", READ),
        Grant(("policy",), "poddisruptionbudgets", READ),
        Grant(("storage.k8s.io",), "csinodes csidrivers csistoragecapacities volumeattachments", READ),
        Grant(("resource.k8s.io",), "deviceclasses resourceslices", READ),
        Grant(("resource.k8s.io",), "resourceclaims", ("create", "delete")),
        Grant(("resource.k8s.io",), "resourceclaims resourceclaims/status", ("patch", "update", *READ)),
        Grant(("resource.k8s.io",), "resourceclaims/binding", ("patch", "update")),
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
        CSRS,
        Grant(("node.k8s.io",), "runtimeclasses", READ),
        Grant(("resource.k8s.io",), "resourceclaims", ("get",)),
        Grant(("resource.k8s.io",), "resourceslices", ("deletecollection",)),
        Grant(("resource.k8s.io",), "resourceslices", ("deletecollection",)),
    ),
    "system:node-bootstrapper": (CSRS,),
    "system:node-problem-detector": (
        Grant(CORE, "nodes", ("get",)),
        Grant(CORE, "nodes/status", ("patch",)),
        Grant(EVENTS, "events", RECORD),
    ),
    "system:kubelet-api-admin": (
        Grant(CORE, "nodes", (*READ, "proxy")),
        Grant(
            CORE,
            "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats",
            ("*",),
        ),
    ),
    "system:kube-dns": (Grant(CORE, "endpoints services", ("list", "watch")),),
    "system:kube-aggregator": (Grant(CORE, "endpoints services", READ),),
    **{
        f"system:certificates.k8s.io:certificatesigningrequests:{name}": (
            Grant((CERTIFICATES,), f"certificatesigningrequests/{name}", ("create",)),
        )
        for name in ("nodeclient", "selfnodeclient")
    },
    **{
        f"system:certificates.k8s.io:{signer}-approver": (
            Grant((CERTIFICATES,), "signers", ("approve",), (f"kubernetes.io/{signer}",)),
        )
        for signer in (
            "kube-apiserver-client",
            "kube-apiserver-client-kubelet",
            "kubelet-serving",
            "legacy-unknown",
        )
    },
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
PART_OF = {f"system:aggregate-to-{role}": role for role in AGGREGATED} | {METRICS_READER: "view"}
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
BOOTSTRAPPERS = "system:bootstrappers"

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
    "system:node": [],  # kubelets are authorized by the Node authorizer, each for its own node
    # As kubeadm binds them: new nodes request their first certificate with a bootstrap token, and renew it themselves.
    "system:node-bootstrapper": [("Group", BOOTSTRAPPERS)],
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": [("Group", BOOTSTRAPPERS)],
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": [("Group", "system:nodes")],
    "system:node-proxier": [("User", "system:kube-proxy")],
}
AUTHENTICATION_READER = "extension-apiserver-authentication-reader"
# Subjects of default bindings of earlier versions, which are removed from existing clusters.
FORMER_SUBJECTS: dict[str, Sequence[tuple[str, str]]] = {"system:node": [("Group", "system:nodes")]}
# Roles in kube-system, with the users of the binding of their name.
_LOCK_LEASES = Grant(("coordination.k8s.io",), "leases", ("create", "get", "list", "update", "watch"))
SYSTEM_ROLES: dict[str, tuple[Sequence[Grant], Sequence[str]]] = {
    AUTHENTICATION_READER: (
        (Grant(CORE, "configmaps", READ, ("extension-apiserver-authentication",)),),
        ("system:kube-controller-manager", "system:kube-scheduler"),
    ),
    **{
        f"system::leader-locking-{component}": ((_LOCK_LEASES,), (f"system:{component}",))
        for component in ("kube-controller-manager", "kube-scheduler")
    },
}


def default_rbac() -> Iterator[tuple[Kind, Manifest]]:
    """Every default RBAC object."""
    for name, grants in CLUSTER_ROLES.items():
        yield kinds.CLUSTER_ROLE, _role(name, grants, part_of=PART_OF.get(name, ""))
    for name, part_of in AGGREGATED.items():
        role = _role(name, _aggregated(name), part_of=part_of)
        selector = {"matchLabels": {f"{AGGREGATE}{name}": "true"}}
        yield kinds.CLUSTER_ROLE, {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    for name, subjects in CLUSTER_BINDINGS.items():
        yield kinds.CLUSTER_ROLE_BINDING, _binding(name, subjects)
    for name, (grants, users) in SYSTEM_ROLES.items():
        role = _in_kube_system("Role", _role(name, grants))
        yield kinds.ROLE, role
        bound = _in_kube_system("RoleBinding", _binding(name, [("User", user) for user in users], "Role"))
        bound["metadata"]["name"] = name if name.startswith("system::") else f"system::{name}"
        yield kinds.ROLE_BINDING, bound


def node_rules() -> list[Rule]:
    """The rules of the role system:node."""
    return [rule_of(_rule(grant)) for grant in CLUSTER_ROLES["system:node"]]


def _in_kube_system(kind: str, manifest: Manifest) -> Manifest:
    return {**manifest, "kind": kind, "metadata": {**manifest["metadata"], "namespace": "kube-system"}}


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


def _binding(name: str, subjects: Sequence[tuple[str, str]], kind: str = "ClusterRole") -> Manifest:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": [subject_of(*subject) for subject in subjects],
    }


def subject_of(kind: str, name: str) -> Manifest:
    """A user or group as the subject of a binding."""
    return {"kind": kind, "apiGroup": GROUP, "name": name}
