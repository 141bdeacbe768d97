"""Members of HyperNodes: the nodes that they select by name, pattern or labels."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import lru_cache

from volcano.kube.api.formats.re2_patterns import Pattern, PatternError
from volcano.kube.api.selectors import Operator
from volcano.model.hypernodes.hypernode import HyperNode, Member

NodeNames = frozenset[str]
Labels = Mapping[str, str]
Nodes = Mapping[str, Labels]  # by name

UNSUPPORTED_MEMBER = "UnsupportedMember"
INVALID_MEMBER = "InvalidMember"
# Beginning of a pattern that only names with this beginning can match, if there are no alternatives.
_PREFIX = re.compile(r"\^([A-Za-z0-9-]+)")


class NodeSelection:
    """Evaluates members against many nodes: label values and beginnings of names narrow the nodes to be compared."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._sorted: list[str] | None = None
        self._by_label: dict[str, dict[str, list[str]]] = {}

    def select(self, hypernode: HyperNode) -> NodeNames:
        """Existing nodes that the members of a HyperNode select; those of HyperNode members are not included."""
        found: set[str] = set()
        for member in hypernode.members:
            if member.kind != "Node":
                continue
            if member.name:
                if member.name in self._nodes:
                    found.add(member.name)
            else:
                found.update(
                    name for name in self._candidates(member) if selects(member, name, self._nodes[name])
                )
        return frozenset(found)

    def _candidates(self, member: Member) -> Iterable[str]:
        if member.pattern:
            return self._with_prefix(literal_prefix(member.pattern))
        wanted = label_values(member)
        if wanted is None:
            return self._nodes
        key, values = wanted
        index = self._by_label.get(key)
        if index is None:
            index = self._by_label[key] = {}
            for name, labels in self._nodes.items():
                if key in labels:
                    index.setdefault(labels[key], []).append(name)
        return [name for value in values for name in index.get(value, ())]

    def _with_prefix(self, prefix: str) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self._nodes)
        start = bisect_left(self._sorted, prefix)
        end = bisect_left(self._sorted, prefix + chr(0x10FFFF)) if prefix else len(self._sorted)
        return self._sorted[start:end]


def selects(member: Member, name: str, labels: Labels) -> bool:
    """Whether a member selects a node; a pattern may match anywhere in the name, an empty selector selects nothing."""
    if member.kind != "Node":
        return False
    if member.name:
        return member.name == name
    if member.pattern:
        pattern = _compiled(member.pattern)
        return isinstance(pattern, Pattern) and pattern.contains(name)
    return member.labels is not None and not member.labels.empty and member.labels.matches(labels)


def label_values(member: Member) -> tuple[str, frozenset[str]] | None:
    """A label and the values of which a node must have one to be selected; None when there is no such label."""
    for requirement in member.labels.requirements if member.labels is not None else ():
        if requirement.operator is Operator.IN:
            return requirement.key, frozenset(requirement.values)
    return None


def literal_prefix(pattern: str) -> str:
    """Beginning that all names matching a pattern have; "" when none is known."""
    found = _PREFIX.match(pattern)
    if found is None or "|" in pattern:
        return ""
    prefix = found.group(1)
    return prefix[:-1] if pattern[found.end() : found.end() + 1] in ("?", "*", "{") else prefix


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
