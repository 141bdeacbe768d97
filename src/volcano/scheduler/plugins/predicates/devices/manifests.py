"""Allocations as manifests: what is written to the status of a claim."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest
from volcano.model.devices import (
    AllocatedDevice,
    ClaimSpec,
    DeviceClass,
    DeviceRequest,
    DeviceToleration,
    NodeReach,
)


def allocation_manifest(
    spec: ClaimSpec,
    devices: Sequence[AllocatedDevice],
    reaches: Sequence[tuple[NodeReach, bool]],
    node: str,
    classes: Mapping[str, DeviceClass],
) -> Manifest:
    """`status.allocation`; `reaches` are those of the devices, each with whether it binds to the node."""
    results = [_result(device) for device in devices]
    allocation: Manifest = {"devices": {"results": results}}
    if config := list(_config(spec, devices, classes)):
        allocation["devices"]["config"] = config
    if (selector := node_selector(reaches, node)) is not None:
        allocation["nodeSelector"] = selector
    return allocation


def _result(device: AllocatedDevice) -> Manifest:
    result: Manifest = {"request": device.request, **device.id._asdict()}
    if device.admin:
        result["adminAccess"] = True
    if device.share_id:
        result["shareID"] = device.share_id
    if device.consumed:
        result["consumedCapacity"] = {
            name: quantity.format_binary(amount) for name, amount in device.consumed
        }
    if device.tolerations:
        result["tolerations"] = [_toleration(each) for each in device.tolerations]
    return result


def _toleration(toleration: DeviceToleration) -> Manifest:
    return {name: value for name, value in toleration._asdict().items() if value}


def _config(
    spec: ClaimSpec, devices: Sequence[AllocatedDevice], classes: Mapping[str, DeviceClass]
) -> Iterator[Manifest]:
    """Parameters for drivers, first those of the classes of the requests, then those of the claim."""
    allocated = dict.fromkeys(device.request for device in devices)
    requests: dict[str, DeviceRequest] = {
        request.name: request for alternatives in spec.requests for request in alternatives
    }
    for name in allocated:
        for config in classes[requests[name].device_class].config:
            yield {"source": "FromClass", "requests": [name], **config}
    for config in spec.config:
        wanted = config.get("requests") or ()
        if not wanted or any(name in wanted or name.partition("/")[0] in wanted for name in allocated):
            yield {"source": "FromClaim", **config}


def node_selector(reaches: Sequence[tuple[NodeReach, bool]], node: str) -> Manifest | None:
    """The nodes that can use all of some devices; None: every node."""
    term: dict[str, list[Any]] = {"matchExpressions": [], "matchFields": []}
    for reach, binds_to_node in reaches:
        if reach.node or binds_to_node:
            name = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [name]}]}
        for part, wanted in (("matchExpressions", reach.expressions), ("matchFields", reach.fields)):
            term[part] += [each for each in wanted if each not in term[part]]
    kept = {name: conditions for name, conditions in term.items() if conditions}
    return {"nodeSelectorTerms": [kept]} if kept else None
