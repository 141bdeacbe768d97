"""Admission of services: allocates cluster IPs and node ports."""

import ipaddress
import zlib

from volcano.apiserver.errors import invalid
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.apiserver.schema.validation import field
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

_EXTERNAL = ("NodePort", "LoadBalancer")


class ServiceAdmission:
    """Admission plugin that allocates addresses and node ports, just before the write.

    The search starts at an offset derived from the service's name, so that concurrent writes do not
    collide.
    """

    def __init__(self, addresses: str = "10.96.0.0/16", ports: tuple[int, int] = (30_000, 32_767)) -> None:
        self._network = ipaddress.ip_network(addresses)
        self._ports = ports

    def handles(self, kind: Kind) -> bool:
        return kind == kinds.SERVICE

    async def __call__(
        self, attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None or attributes.kind != kinds.SERVICE or attributes.subresource:
            return new
        spec = new.setdefault("spec", {})
        if spec.get("type") == "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(name, None)
            return new
        own = new["metadata"].get("uid")
        others = [each for each in lookup.all(kinds.SERVICE) if each["metadata"].get("uid") != own]
        seed = zlib.crc32(f"{attributes.key}/{own}".encode())
        self._address(attributes, spec, others, seed)
        if spec.get("type") in _EXTERNAL and spec.get("allocateLoadBalancerNodePorts") is not False:
            self._node_ports(attributes, spec, others, seed)
        return new

    def _address(self, attributes: Attributes, spec: Manifest, others: list[Manifest], seed: int) -> None:
        taken = {each["spec"].get("clusterIP") for each in others}
        wanted = spec.get("clusterIP")
        if not wanted:
            size = self._network.num_addresses
            offsets = ((seed + step) % (size - 11) + 10 for step in range(size))
            spec["clusterIP"] = next(
                address for at in offsets if (address := str(self._network[at])) not in taken
            )
        elif wanted != "None" and wanted in taken:
            cause = field.invalid(
                "spec.clusterIPs", [wanted], "failed to allocate IP: provided IP is already allocated"
            )
            raise invalid(attributes.kind, attributes.key.name, [cause])
        spec["clusterIPs"] = [spec["clusterIP"]]
        if not spec.get("ipFamilies"):
            spec["ipFamilies"] = ["IPv4"]
        if not spec.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = "SingleStack"

    def _node_ports(self, attributes: Attributes, spec: Manifest, others: list[Manifest], seed: int) -> None:
        taken = {port.get("nodePort") for each in others for port in each["spec"].get("ports") or ()}
        low, high = self._ports
        for index, port in enumerate(spec.get("ports") or ()):
            wanted = port.get("nodePort")
            if not wanted:
                span = high - low + 1
                candidates = (low + (seed + step) % span for step in range(span))
                wanted = port["nodePort"] = next(number for number in candidates if number not in taken)
            elif wanted in taken or not low <= wanted <= high:
                detail = (
                    "provided port is already allocated"
                    if wanted in taken
                    else f"provided port is not in the valid range. The range of valid ports is {low}-{high}"
                )
                cause = field.invalid(f"spec.ports[{index}].nodePort", wanted, detail)
                raise invalid(attributes.kind, attributes.key.name, [cause])
            taken.add(wanted)
