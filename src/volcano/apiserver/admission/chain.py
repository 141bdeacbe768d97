"""The server's own admission as a whole: what comes before webhooks, what comes after, and what it relies on."""

from volcano.apiserver.admission.claims import admit_claim
from volcano.apiserver.admission.pods import PodAdmission, admit_limits
from volcano.apiserver.admission.quota import admit_quota
from volcano.apiserver.admission.services import ServiceAdmission
from volcano.apiserver.interfaces import Admit
from volcano.apiserver.schema.crds import admit_crd
from volcano.apiserver.schema.validation.policies import SYSTEM_PRIORITIES
from volcano.kube.manifest import Manifest

_DESCRIPTIONS = {
    "system-cluster-critical": "For system pods that the cluster cannot do without.",
    "system-node-critical": "For system pods that their node cannot do without.",
}


def before_webhooks() -> list[Admit]:
    """What fills in: priorities, service accounts, default limits and tolerations of pods; classes of claims."""
    return [PodAdmission(), admit_claim, admit_crd]


def after_webhooks(addresses: str = "10.96.0.0/16") -> list[Admit]:
    """What judges the final object; quotas come last, as nothing may happen between counting and writing."""
    return [admit_limits, ServiceAdmission(addresses), admit_quota]


def system_priority_classes() -> list[Manifest]:
    """The priority classes that are there from the start."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": _DESCRIPTIONS[name],
        }
        for name, value in SYSTEM_PRIORITIES.items()
    ]
