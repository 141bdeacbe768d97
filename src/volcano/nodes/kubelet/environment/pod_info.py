"""What a pod's environment and volumes may ask about where the pod runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PodFacts:
    """Where a pod is: known once it has a sandbox, and the same for all its containers."""

    address: str  # empty before the pod has one
    addresses: tuple[str, ...]
    host_address: str
    node_name: str
    # Of the node, as quantities: what a limit that was not set counts as.
    node_allocatable: Mapping[str, str] = field(default_factory=dict)
