"""Members of a HyperNode: the nodes that they select by name, pattern or labels."""

from collections.abc import Mapping
from functools import lru_cache

from volcano.model.topology import HyperNode, Member
from volcano.re2_patterns import Pattern, PatternError

NodeNames = frozenset[str]
Nodes = Mapping[str, Mapping[str, str]]  # name → labels

UNSUPPORTED_MEMBER = "UnsupportedMember"
INVALID_MEMBER = "InvalidMember"


def member_nodes(hypernode: HyperNode, nodes: Nodes) -> NodeNames:
    """Existing nodes that the members of a HyperNode select themselves; those of HyperNode members are not included."""
    exact = {member.name for member in hypernode.members if member.kind == "Node" and member.name}
    found = {name for name in exact if name in nodes}
    selecting = [member for member in hypernode.members if member.kind == "Node" and not member.name]
    if selecting:
        found.update(
            name for name, labels in nodes.items() if any(selects(m, name, labels) for m in selecting)
        )
    return frozenset(found)


def selects(member: Member, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a member selects a node; a pattern may match anywhere in the name, an empty selector selects nothing."""
    if member.kind != "Node":
        return False
    if member.name:
        return member.name == name
    if member.pattern:
        pattern = _compiled(member.pattern)
        return isinstance(pattern, Pattern) and pattern.contains(name)
    return member.labels is not None and not member.labels.empty and member.labels.matches(labels)


def member_problem(hypernode: HyperNode) -> tuple[str, str] | None:
    """Reason and message about the first member that can select nothing; None when there is none."""
    for index, member in enumerate(hypernode.members):
        if member.kind == "HyperNode" and not member.name:
            text = "members of type HyperNode are selected by exactMatch only"
            return UNSUPPORTED_MEMBER, f"spec.members[{index}]: {text}"
        if member.pattern and not isinstance(pattern := _compiled(member.pattern), Pattern):
            return INVALID_MEMBER, f"spec.members[{index}].selector.regexMatch.pattern: {pattern}"
    return None


@lru_cache(maxsize=8192)
def _compiled(source: str) -> Pattern | str:
    """The compiled pattern, or why it is not valid."""
    try:
        return Pattern(source)
    except PatternError as error:
        return str(error)
