"""Initial objects of a local cluster: Volcano's components, their configuration and a storage class."""

from collections.abc import Mapping, Sequence

from volcano import __version__
from volcano.accounting.api import GROUP, JOBS, RUNS, USAGE
from volcano.controllers.kubernetes.volumes import DEFAULT_CLASS, PROVISIONER
from volcano.kube.api import names
from volcano.kube.api.kinds import (
    CLUSTER_ROLE,
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    SERVICE,
    STORAGE_CLASS,
    Kind,
)
from volcano.kube.api.manifest import Manifest
from volcano.nodes.pools import Pool, Taint

# Addresses of the API server and the name server in pods.
API_ADDRESS, DNS_ADDRESS = "10.96.0.1", "10.96.0.10"
COMPONENTS = ("volcano-scheduler", "volcano-controllers", "volcano-admission")
CONFIG_NAME, CONFIG_KEY = names.SCHEDULER_CONFIG_MAP, names.SCHEDULER_CONFIG_KEY
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# The node of the components. No other pod is scheduled there, so that it adds nothing to the capacity of
# queues.
CONTROL_PLANE_POOL = Pool(
    name="volcano-control-plane",
    count=1,
    resources={"cpu": "0", "memory": "0", "pods": "20"},
    labels={CONTROL_PLANE: ""},
    taints=(Taint(CONTROL_PLANE, "", "NoSchedule"),),
)
# Taint of simulated nodes beside real ones: pods prefer the real ones.
ONLY_SIMULATED = Taint(names.SIMULATED, "", "PreferNoSchedule")
CONTROL_PLANE_NODE = names.LOCAL_CONTROL_PLANE_NODE
READ = ("get", "list", "watch")


def system_manifests(scheduler_conf: str) -> Sequence[tuple[Kind, Manifest]]:
    """Everything in volcano-system, the default storage class, and the roles of users."""
    return [
        (NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}}),
        (CONFIG_MAP, _config(scheduler_conf)),
        (STORAGE_CLASS, _storage_class()),
        (SERVICE, _service("default", "kubernetes", API_ADDRESS, {"https": 443})),
        (SERVICE, _service("kube-system", "kube-dns", DNS_ADDRESS, {"dns": 53, "dns-tcp": 53})),
        *((DEPLOYMENT, _deployment(name)) for name in COMPONENTS),
        *((CLUSTER_ROLE, role) for role in user_roles()),
    ]


def user_roles() -> list[Manifest]:
    """Volcano's ClusterRoles for users, aggregated into Kubernetes' `edit` and `view`."""
    job, command = ("batch.volcano.sh", "jobs"), ("bus.volcano.sh", "commands")
    group, queue = ("scheduling.volcano.sh", "podgroups"), ("scheduling.volcano.sh", "queues")
    used = [((GROUP, resource), ["list"]) for resource in (USAGE, RUNS, JOBS)]
    return [
        _user_role(
            "vcjob-editor-role",
            ("edit",),
            [
                (job, ["create", "get", "list", "watch", "update", "patch", "delete"]),
                (command, ["create", "get", "list"]),
                (group, READ),
                (queue, READ),
            ],
        ),
        _user_role("vcjob-viewer-role", ("view",), [(job, READ), (group, READ), (queue, READ)]),
        _user_role("volcano-accounting-viewer-role", ("view",), used),
    ]


def _user_role(
    name: str, wholes: Sequence[str], grants: Sequence[tuple[tuple[str, str], Sequence[str]]]
) -> Manifest:
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{whole}": "true" for whole in wholes}
    return {
        "apiVersion": CLUSTER_ROLE.api_version,
        "kind": CLUSTER_ROLE.kind,
        "metadata": {"name": name, "labels": {"app": "volcano", **labels}},
        "rules": [
            {"apiGroups": [api_group], "resources": [resource], "verbs": list(verbs)}
            for (api_group, resource), verbs in grants
        ],
    }


def _service(namespace: str, name: str, address: str, ports: Mapping[str, int]) -> Manifest:
    """A Service with a fixed address and without a selector, as no pod serves it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterIP": address,
            "ports": [
                {"name": port, "port": number, "protocol": "UDP" if port == "dns" else "TCP"}
                for port, number in ports.items()
            ],
        },
    }


def _config(scheduler_conf: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_NAME, "namespace": names.SYSTEM_NAMESPACE},
        "data": {CONFIG_KEY: scheduler_conf},
    }


def _storage_class() -> Manifest:
    return {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": "local", "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def _deployment(name: str) -> Manifest:
    """The Deployment of a component that runs in this process."""
    labels = {"app": name}
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {names.SIM_DURATION: "forever"}},
                "spec": {
                    "nodeName": CONTROL_PLANE_NODE,
                    "tolerations": [{"operator": "Exists"}],
                    "priorityClassName": "system-cluster-critical",
                    "containers": [{"name": name, "image": f"volcano/{name}:{__version__}"}],
                },
            },
        },
    }
