"""Builders of ResourceSlices and DeviceClasses, for nodes that publish their devices."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from volcano.kube.api.kinds import DEVICE_CLASS, RESOURCE_SLICE
from volcano.kube.api.manifest import Manifest

MOST_DEVICES: Final = 128  # of one slice
MOST_COMPLEX_DEVICES: Final = 64  # with taints or counters


def device(
    name: str,
    attributes: Mapping[str, str | int | bool] | None = None,
    capacity: Mapping[str, str] | None = None,
    **more: Any,
) -> Manifest:
    """A device with attributes and capacities, such as `{"model": "A100"}` and `{"memory": "80Gi"}`."""
    found: Manifest = {"name": name, **more}
    if attributes:
        found["attributes"] = {key: {_type_of(value): value} for key, value in attributes.items()}
    if capacity:
        found["capacity"] = {key: {"value": value} for key, value in capacity.items()}
    return found


def node_slices(
    node: str, driver: str, devices: Sequence[Manifest], *, generation: int = 1, owner: Manifest | None = None
) -> list[Manifest]:
    """The ResourceSlices of one node: a pool of its name. `owner` is a reference to the Node, so that they go with it.

    A changed pool is published with a higher generation.
    """
    is_complex = any(each.get("taints") or each.get("consumesCounters") for each in devices)
    most = MOST_COMPLEX_DEVICES if is_complex else MOST_DEVICES
    parts = [devices[start : start + most] for start in range(0, len(devices), most)] or [()]
    pool = {"name": node, "generation": generation, "resourceSliceCount": len(parts)}
    return [
        {
            "apiVersion": RESOURCE_SLICE.api_version,
            "kind": RESOURCE_SLICE.kind,
            "metadata": {
                "name": f"{node}-{driver}-{number}",
                **({"ownerReferences": [owner]} if owner is not None else {}),
            },
            "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": list(part)},
        }
        for number, part in enumerate(parts)
    ]


def driver_class(name: str, driver: str) -> Manifest:
    """A DeviceClass of all devices of a driver."""
    expression = f'device.driver == "{driver}"'
    return {
        "apiVersion": DEVICE_CLASS.api_version,
        "kind": DEVICE_CLASS.kind,
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _type_of(value: str | int | bool) -> str:
    return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
