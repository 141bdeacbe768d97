"""HyperNode: groups of nodes that are close to each other in the network."""

from dataclasses import dataclass

from volcano.kube.api.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class Member:
    """Members of a hypernode, selected by name, pattern or labels."""

    kind: str  # Node or HyperNode
    name: str = ""
    pattern: str = ""
    labels: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class HyperNode:
    """One group of nodes in a tree of groups; the lower the tier, the closer together."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[Member, ...] = ()
