"""Devices that a node has and does not offer, because they are unhealthy."""

from collections.abc import Iterator
from contextlib import suppress

from volcano.kube.api.fields import at
from volcano.kube.api.manifest import Manifest, annotations_of
from volcano.kube.devices import ascend, gpushare, vgpu
from volcano.views.amounts import HUGE_PAGES, UNINTERESTING, amounts

NPU_REGISTER = ascend.register_name("")


def unhealthy_devices(node: Manifest) -> dict[str, int]:
    """Number of unhealthy devices by kind: whole ones, which a kubelet leaves out of the allocatable resources, and
    shared cards, which device plugins register as unhealthy."""
    found = dict(_whole(node))
    for name, text in annotations_of(node).items():
        with suppress(ValueError):  # a malformed registration is reported by the scheduler
            if name == vgpu.REGISTER:
                bad = sum(not card.healthy for card in vgpu.parse_register(text))
            elif name == gpushare.UNHEALTHY:
                bad = len(gpushare.parse_unhealthy(text))
            elif name.startswith(NPU_REGISTER):
                bad = sum(not npu.healthy for npu in ascend.parse_register(text))
            else:
                continue
            if bad:
                kind = name.removeprefix(NPU_REGISTER) if name.startswith(NPU_REGISTER) else "shared gpu"
                found[kind] = found.get(kind, 0) + bad
    return found


def _whole(node: Manifest) -> Iterator[tuple[str, int]]:
    capacity, offered = at(node, "status", "capacity"), at(node, "status", "allocatable")
    if not isinstance(capacity, dict) or not isinstance(offered, dict):
        return
    for name, count in capacity.items():
        if _is_device(name) and offered.get(name) != count:  # equal texts need no parsing
            missing = amounts({name: count}).get(name, 0.0) - amounts({name: offered.get(name, 0)}).get(
                name, 0.0
            )
            if missing >= 1:
                yield name, int(missing)


def _is_device(name: str) -> bool:
    """Whole devices have a domain. Parts of cards follow from the registration of the cards."""
    shared = name.startswith(("volcano.sh/", "hami.io/")) or "batch" in name
    return "/" in name and name not in UNINTERESTING and not name.startswith(HUGE_PAGES) and not shared
