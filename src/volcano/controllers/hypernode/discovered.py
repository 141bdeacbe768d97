"""HyperNodes as a source has discovered them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcano.kube.api.kinds import HYPER_NODE
from volcano.kube.api.manifest import Manifest

SOURCE_LABEL = "volcano.sh/network-topology-source"


@dataclass(frozen=True, slots=True)
class Discovered:
    """One discovered HyperNode with its members in order, all nodes or all HyperNodes."""

    name: str
    tier: int
    members: Sequence[str]
    of_nodes: bool
    tier_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def manifest(self, source: str) -> Manifest:
        kind = "Node" if self.of_nodes else "HyperNode"
        members = [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in self.members]
        spec: dict[str, Any] = {"tier": self.tier, "members": members}
        if self.tier_name:
            spec["tierName"] = self.tier_name
        return {
            "apiVersion": HYPER_NODE.api_version,
            "kind": HYPER_NODE.kind,
            "metadata": {"name": self.name, "labels": {**self.labels, SOURCE_LABEL: source}},
            "spec": spec,
        }
