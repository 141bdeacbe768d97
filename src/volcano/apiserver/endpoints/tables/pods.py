"""Print handler for pods: READY, STATUS, RESTARTS."""

from typing import Any

from volcano.apiserver.endpoints.tables.cells import AGE, NAME, NONE, Printer, age, text, wide
from volcano.kube.api.fields import at, is_true, items, name_of
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.pod_status import pod_status, ready_containers, restarts


def print_pod(pod: Manifest, now: float) -> list[Any]:
    """Prints a pod, with the columns of `-o wide`."""
    return [
        name_of(pod),
        ready_containers(pod),
        pod_status(pod),
        restarts(pod, now),
        age(pod, now),
        at(items(pod, "status", "podIPs")[0], "ip", default=NONE) if items(pod, "status", "podIPs") else NONE,
        at(pod, "spec", "nodeName") or NONE,
        at(pod, "status", "nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def _readiness_gates(pod: Manifest) -> str:
    gates = items(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(is_true(pod, str(gate.get('conditionType'))) for gate in gates)}/{len(gates)}"


def pod_conditions(pod: Manifest) -> list[Manifest]:
    """Row conditions, by which kubectl can hide completed pods."""
    match at(pod, "status", "phase"):
        case "Succeeded":
            message = "The pod has completed successfully."
        case "Failed":
            message = "The pod failed."
        case _:
            return []
    return [{"type": "Completed", "status": "True", "reason": at(pod, "status", "phase"), "message": message}]


POD_PRINTER = Printer(
    (
        NAME,
        *text("Ready", "Status", "Restarts"),
        AGE,
        *wide("IP", "Node", "Nominated Node", "Readiness Gates"),
    ),
    print_pod,
)
