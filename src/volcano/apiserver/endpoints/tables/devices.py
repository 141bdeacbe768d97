"""Print handlers of resource.k8s.io."""

from typing import Any

from volcano.apiserver.endpoints.tables.cells import AGE, NAME, Printer, age, text
from volcano.kube.api.fields import at, name_of
from volcano.kube.api.manifest import Manifest


def claim_state(claim: Manifest) -> str:
    """`pending`, `allocated,reserved` and the like."""
    states = ["deleted"] if at(claim, "metadata", "deletionTimestamp") else []
    if at(claim, "status", "allocation") is not None:
        states.append("allocated")
        if at(claim, "status", "reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def print_claim(claim: Manifest, now: float) -> list[Any]:
    return [name_of(claim), claim_state(claim), age(claim, now)]


def print_slice(resource_slice: Manifest, now: float) -> list[Any]:
    places = (("nodeName",), ("driver",), ("pool", "name"))
    cells = [at(resource_slice, "spec", *path, default="") for path in places]
    return [name_of(resource_slice), *cells, age(resource_slice, now)]


RESOURCE_CLAIM_PRINTER = Printer((NAME, *text("State"), AGE), print_claim)
RESOURCE_SLICE_PRINTER = Printer((NAME, *text("Node", "Driver", "Pool"), AGE), print_slice)
