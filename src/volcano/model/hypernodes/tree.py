"""HyperNode tree: HyperNodes linked into domains, with the nodes below each; a bad link is left out, the rest works."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from volcano.model.hypernodes.hypernode import HyperNode
from volcano.model.hypernodes.members import NodeNames, NodeSelection, member_problem

ROOT: Final = "<cluster-top-hypernode>"

CYCLE: Final = "Cycle"
SECOND_PARENT: Final = "SecondParent"
TIER_NOT_ABOVE_MEMBER: Final = "TierNotAboveMember"
TIER_NAME_CONFLICT: Final = "TierNameConflict"
NO_NODES: NodeNames = frozenset()


@dataclass(frozen=True, slots=True)
class Domain:
    """A usable HyperNode, or the root above all of them; `nodes` are the existing nodes below it."""

    name: str
    tier: int
    tier_name: str
    parent: str  # "" only for the root
    children: tuple[str, ...]
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class TreeProblem:
    """Why a part of a HyperNode is left out of the tree."""

    hypernode: str
    reason: (
        str  # Cycle, SecondParent, TierNotAboveMember, TierNameConflict, UnsupportedMember or InvalidMember
    )
    message: str


class HyperNodeTree:
    """Domains by name below one virtual root that contains every node. Immutable."""

    __slots__ = ("_direct", "_lowest", "domains", "problems", "root", "tier_names")

    def __init__(
        self,
        domains: Mapping[str, Domain],
        root: Domain,
        problems: Mapping[str, TreeProblem],
        tier_names: Mapping[str, int],
        direct: Mapping[str, NodeNames],
    ) -> None:
        self.domains = domains
        self.root = root
        self.problems = problems
        self.tier_names = tier_names
        self._direct = direct
        self._lowest: dict[str, str] | None = None

    @classmethod
    def build(
        cls, hypernodes: Iterable[HyperNode], nodes: Mapping[str, Mapping[str, str]]
    ) -> "HyperNodeTree":
        """The tree of these HyperNodes over these nodes (name → labels)."""
        by_name = {found.name: found for found in hypernodes}
        selection = NodeSelection(nodes)
        direct = {name: selection.select(found) for name, found in by_name.items()}
        return link(by_name, direct, frozenset(nodes))

    def get(self, name: str) -> Domain | None:
        """A domain or the root by its name; None when there is none."""
        return self.root if name == ROOT else self.domains.get(name)

    def lowest(self, node: str) -> Domain:
        """The domain of the lowest tier that contains the node, the first by name of several; else the root."""
        if self._lowest is None:
            self._lowest = self._find_lowest()
        name = self._lowest.get(node)
        return self.root if name is None else self.domains[name]

    def _find_lowest(self) -> dict[str, str]:
        # Tiers grow upwards, so the lowest domain of a node is one that selects the node itself.
        found: dict[str, str] = {}
        for domain in sorted(self.domains.values(), key=lambda domain: (domain.tier, domain.name)):
            for node in self._direct.get(domain.name, NO_NODES):
                found.setdefault(node, domain.name)
        return found

    def ancestors(self, name: str) -> Iterator[Domain]:
        """The domain itself, then its ancestors; the root is the last."""
        domain: Domain | None = self.get(name)
        while domain is not None:
            yield domain
            domain = self.get(domain.parent) if domain.parent else None

    def common(self, left: str, right: str) -> Domain:
        """The lowest common ancestor of two domains."""
        above = {domain.name for domain in self.ancestors(left)}
        return next((domain for domain in self.ancestors(right) if domain.name in above), self.root)


def link(
    hypernodes: Mapping[str, HyperNode],
    direct: Mapping[str, NodeNames],
    nodes: NodeNames,
    before: HyperNodeTree | None = None,
    changed: frozenset[str] = frozenset(),
) -> HyperNodeTree:
    """The tree of HyperNodes that select these nodes (`direct`). Domains of `before` are reused where neither their
    nodes nor those below are in `changed` and their place is the same."""
    parents, problems = _parents(hypernodes)
    for name in sorted(hypernodes):
        text = member_problem(hypernodes[name])
        if text is not None:
            problems.setdefault(name, TreeProblem(name, *text))
    tier_names = _tier_names(hypernodes, problems)
    children: dict[str, list[str]] = {}
    for name in sorted(hypernodes):
        children.setdefault(parents.get(name, ROOT), []).append(name)
    domains: dict[str, Domain] = {}
    recomputed: set[str] = set()
    for found in sorted(hypernodes.values(), key=lambda found: (found.tier, found.name)):
        below = tuple(children.get(found.name, ()))
        parent = parents.get(found.name, ROOT)
        known = before.domains.get(found.name) if before is not None else None
        unchanged = found.name not in changed and not any(child in recomputed for child in below)
        if known is not None and unchanged and known.children == below:
            contained = known.nodes
        else:
            recomputed.add(found.name)
            contained = direct.get(found.name, NO_NODES).union(*(domains[child].nodes for child in below))
        domain = Domain(found.name, found.tier, found.tier_name, parent, below, contained)
        domains[found.name] = known if known is not None and known == domain else domain
    top = max((found.tier for found in hypernodes.values()), default=0)
    root = Domain(ROOT, max(top, 0) + 1, "", "", tuple(children.get(ROOT, ())), nodes)
    return HyperNodeTree(domains, root, problems, tier_names, direct)


def _parents(hypernodes: Mapping[str, HyperNode]) -> tuple[dict[str, str], dict[str, TreeProblem]]:
    """The parent of each HyperNode that has one, and the links that are left out.

    A parent has a higher tier than its members; a member of several goes to the lowest, the first by name of those.
    """
    problems: dict[str, TreeProblem] = {}
    wanted = {name: _member_names(found, hypernodes) for name, found in hypernodes.items()}
    parents: dict[str, str] = {}
    for found in sorted(hypernodes.values(), key=lambda found: (found.tier, found.name)):
        for member in wanted[found.name]:
            problem = _bad_link(found, hypernodes[member], parents, wanted)
            if problem is None:
                parents[member] = found.name
            elif found.name not in problems or problem.reason == CYCLE:
                problems[found.name] = problem
    return parents, problems


def _member_names(found: HyperNode, hypernodes: Mapping[str, HyperNode]) -> tuple[str, ...]:
    """Existing HyperNodes that a HyperNode lists by name, sorted."""
    names = {member.name for member in found.members if member.kind == "HyperNode" and member.name}
    return tuple(sorted(name for name in names if name in hypernodes))


def _bad_link(
    found: HyperNode,
    member: HyperNode,
    parents: Mapping[str, str],
    wanted: Mapping[str, tuple[str, ...]],
) -> TreeProblem | None:
    """Why a HyperNode cannot be the parent of a member; None when it can."""
    if found.tier <= member.tier:
        chain = _path(member.name, found.name, wanted)
        if chain:
            text = f"HyperNode {member.name} cannot be a member of {found.name}, which is below it: "
            return TreeProblem(found.name, CYCLE, text + " -> ".join((found.name, *chain)))
        text = (
            f"HyperNode {member.name} of tier {member.tier} cannot be a member of {found.name} of tier "
            f"{found.tier}; the tier of a parent must be higher"
        )
        return TreeProblem(found.name, TIER_NOT_ABOVE_MEMBER, text)
    known = parents.get(member.name)
    if known is not None and known != found.name:
        text = f"HyperNode {member.name} already has the parent {known} and cannot have a second one"
        return TreeProblem(found.name, SECOND_PARENT, text)
    return None


def _path(start: str, end: str, wanted: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Names on a path of memberships from one HyperNode to another, both included; empty when there is none."""
    reached: dict[str, str] = {start: ""}
    waiting = [start]
    for name in waiting:
        if name == end:
            break
        for member in wanted[name]:
            if member not in reached:
                reached[member] = name
                waiting.append(member)
    if end not in reached:
        return ()
    found = [end]
    while found[-1] != start:
        found.append(reached[found[-1]])
    return tuple(reversed(found))


def _tier_names(hypernodes: Mapping[str, HyperNode], problems: dict[str, TreeProblem]) -> dict[str, int]:
    """Tier by tier name; of several the highest, and the others are reported."""
    found: dict[str, int] = {}
    for each in hypernodes.values():
        if each.tier_name:
            found[each.tier_name] = max(each.tier, found.get(each.tier_name, each.tier))
    for name in sorted(hypernodes):
        each = hypernodes[name]
        if each.tier_name and found[each.tier_name] != each.tier:
            text = (
                f"tierName {each.tier_name} means tier {found[each.tier_name]} elsewhere, and tier {each.tier} "
                "here; a name must have one tier"
            )
            problems.setdefault(name, TreeProblem(name, TIER_NAME_CONFLICT, text))
    return found
