"""Source `label`: HyperNodes from the labels of nodes, one tier per label."""

import re
from collections.abc import Callable, Iterable, Mapping

from volcano.controllers.hypernode.configuration import TopologyType, usable_levels
from volcano.controllers.hypernode.discovered import Discovered
from volcano.kube.manifest import Manifest, key_of, labels_of

MAX_ATTEMPTS = 20  # to draw a name that is not in use
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
LabelValue = tuple[str, str]  # key and value


class LabelDiscovery:
    """Groups nodes by their labels; a HyperNode keeps its name as long as its label's value exists."""

    def __init__(self, random_suffix: Callable[[], str]) -> None:
        self._suffix = random_suffix

    def discover(
        self,
        types: Iterable[TopologyType],
        nodes: Iterable[Manifest],
        existing: Mapping[str, Manifest],
        taken: Callable[[str], bool],
    ) -> list[Discovered]:
        """The HyperNodes of all types. `existing` are those of earlier results by name; `taken` says whether any
        HyperNode has a name. Types that use the same label share the HyperNodes of its values."""
        ordered = sorted(nodes, key=lambda node: key_of(node).name)
        groups: dict[LabelValue, _Group] = {}
        for kind in usable_levels(tuple(types)):
            for node in ordered:
                self._climb(kind, node, groups)
        names: dict[LabelValue, str] = {}
        used: set[str] = set()
        for value, group in groups.items():
            names[value] = self._name(group, value, existing, lambda name: name in used or taken(name), used)
            used.add(names[value])
        return [
            Discovered(
                names[value],
                group.tier,
                list(group.nodes) if group.tier == 1 else [names[below] for below in group.groups],
                of_nodes=group.tier == 1,
                tier_name=value[0],
                labels={value[0]: value[1]},
            )
            for value, group in groups.items()
        ]

    @staticmethod
    def _climb(kind: TopologyType, node: Manifest, groups: dict[LabelValue, "_Group"]) -> None:
        """Adds a node to the groups of its labels, from the narrowest upwards until a label is missing."""
        labels, below = labels_of(node), None
        for tier, label in enumerate(kind.levels, start=1):
            if label not in labels:
                return
            value = (label, labels[label])
            group = groups.setdefault(value, _Group(kind.name, tier))
            if below is None:
                group.nodes.setdefault(key_of(node).name)
            else:
                group.groups.setdefault(below)
            below = value

    def _name(
        self,
        group: "_Group",
        value: LabelValue,
        existing: Mapping[str, Manifest],
        is_taken: Callable[[str], bool],
        used: set[str],
    ) -> str:
        prefix = f"hypernode-{_part_of_name(group.kind)}-tier{group.tier}"
        for name in sorted(existing):
            is_same = labels_of(existing[name]).get(value[0]) == value[1]
            if is_same and name.startswith(prefix) and name not in used:
                return name
        for _ in range(MAX_ATTEMPTS):
            name = f"{prefix}-{self._suffix()}"
            if not is_taken(name):
                break
        return name


class _Group:
    """Nodes or narrower groups that share the value of a label, in order."""

    __slots__ = ("groups", "kind", "nodes", "tier")

    def __init__(self, kind: str, tier: int) -> None:
        self.kind, self.tier = kind, tier
        self.nodes: dict[str, None] = {}
        self.groups: dict[LabelValue, None] = {}


def _part_of_name(kind: str) -> str:
    """The name of a type as part of an object's name."""
    part = re.sub(r"[^a-z0-9.-]", "-", kind.lower())
    return part if _SUBDOMAIN.fullmatch(f"a-{part}-a") else part.replace(".", "-")
