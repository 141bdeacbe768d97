"""HyperNode: groups of machines that are close to each other."""

from dataclasses import dataclass

from volcano.kube.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class Member:
    """Which nodes or hypernodes belong to a hypernode: exactly one of the three ways is used."""

    kind: str  # Node or HyperNode
    name: str = ""
    pattern: str = ""
    labels: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class HyperNode:
    """One group of machines in a tree of groups; the lower the tier, the closer together."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[Member, ...] = ()
