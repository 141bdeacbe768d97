"""What a fresh cluster contains besides its API: our own components, their configuration and a storage class."""

from collections.abc import Sequence

from volcano import __version__
from volcano.controllers.builtin.volumes import DEFAULT_CLASS, PROVISIONER
from volcano.kube import names
from volcano.kube.kinds import CONFIG_MAP, DEPLOYMENT, NAMESPACE, STORAGE_CLASS, Kind
from volcano.kube.manifest import Manifest
from volcano.nodes.pools import Pool, Taint

COMPONENTS = ("volcano-scheduler", "volcano-controllers", "volcano-admission")
CONFIG_NAME = "volcano-scheduler-configmap"
CONFIG_KEY = "volcano-scheduler.conf"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# The node our own components are shown on. Nothing else is placed there, so it adds nothing to what queues share.
CONTROL_PLANE_POOL = Pool(
    name="volcano-control-plane",
    count=1,
    resources={"cpu": "0", "memory": "0", "pods": "20"},
    labels={CONTROL_PLANE: ""},
    taints=(Taint(CONTROL_PLANE, "", "NoSchedule"),),
)
CONTROL_PLANE_NODE = "volcano-control-plane-0"


def system_manifests(scheduler_conf: str) -> Sequence[tuple[Kind, Manifest]]:
    """Everything in volcano-system, and the default storage class."""
    return [
        (NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}}),
        (CONFIG_MAP, _config(scheduler_conf)),
        (STORAGE_CLASS, _storage_class()),
        *((DEPLOYMENT, _deployment(name)) for name in COMPONENTS),
    ]


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
    """A component that runs in this very process, shown as the Deployment it would be elsewhere."""
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
