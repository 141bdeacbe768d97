"""Topology of simulated nodes: `rack=8,spine=4` groups them into labelled racks and spines with a HyperNode each."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from volcano.kube.api.kinds import HYPER_NODE
from volcano.kube.api.manifest import Manifest
from volcano.nodes.pools import PoolError, SimulatedNode

LABEL_PREFIX = "topology.volcano.sh/"
SOURCE_LABEL = "volcano.sh/network-topology-source"
SIMULATED = "simulated"
MOST_LEVELS = 8
_LEVEL_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Level:
    """One tier: its name, and how many of the next lower tier one group contains; of nodes in the lowest tier."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Topology:
    """Tiers from the lowest to the highest."""

    levels: tuple[Level, ...] = ()

    def groups(self, position: int) -> Iterator[tuple[Level, str]]:
        """The groups of the node at a position, from the lowest tier: level and name."""
        for level in self.levels:
            position //= level.size
            yield level, f"{level.name}-{position}"

    def labelled(self, nodes: Sequence[SimulatedNode]) -> list[SimulatedNode]:
        """The nodes in their order, each with a label per tier."""
        return [
            replace(node, labels={LABEL_PREFIX + level.name: name for level, name in self.groups(position)})
            for position, node in enumerate(nodes)
        ]

    def hyper_nodes(self, nodes: Sequence[SimulatedNode]) -> list[Manifest]:
        """One HyperNode per group."""
        members: dict[tuple[int, str], dict[str, None]] = {}
        for position, node in enumerate(nodes):
            below = node.name
            for tier, (_, name) in enumerate(self.groups(position), start=1):
                members.setdefault((tier, name), {}).setdefault(below)
                below = name
        return [
            _hyper_node(name, tier, self.levels[tier - 1].name, list(below))
            for (tier, name), below in sorted(members.items(), key=lambda item: item[0][0])
        ]


def parse_topology(text: str) -> Topology:
    """Parses `rack=8,spine=4`: racks of 8 nodes, spines of 4 racks."""
    levels: list[Level] = []
    for part in text.split(","):
        name, separator, size = part.strip().partition("=")
        if not separator or not _LEVEL_NAME.fullmatch(name):
            raise PoolError(
                f"--topology {text!r}: {part.strip()!r} is not of the form name=size with a name of lower-case "
                "letters, digits or '-'; write such as rack=8,spine=4"
            )
        if not (size.isascii() and size.isdigit() and 1 <= int(size) <= 100_000):
            below = f"{levels[-1].name}s" if levels else "nodes"
            raise PoolError(
                f"--topology {text!r}: {name}={size!r} must be the number of {below} in a {name}, 1 or more"
            )
        if any(level.name == name for level in levels):
            raise PoolError(f"--topology {text!r}: {name} is listed twice; each tier needs a name of its own")
        levels.append(Level(name, int(size)))
    if len(levels) > MOST_LEVELS:
        raise PoolError(f"--topology {text!r}: has {len(levels)} tiers; at most {MOST_LEVELS} are possible")
    return Topology(tuple(levels))


def _hyper_node(name: str, tier: int, tier_name: str, members: list[str]) -> Manifest:
    kind = "Node" if tier == 1 else "HyperNode"
    return {
        "apiVersion": HYPER_NODE.api_version,
        "kind": HYPER_NODE.kind,
        "metadata": {"name": name, "labels": {SOURCE_LABEL: SIMULATED}},
        "spec": {
            "tier": tier,
            "tierName": tier_name,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members],
        },
    }
