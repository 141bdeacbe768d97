"""Actions to authorize and the rules that allow them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.interfaces import User
from volcano.kube.api.errors import Forbidden


@dataclass(frozen=True, slots=True)
class Action:
    """A verb on a resource or on a non-resource path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""  # set for non-resource requests
    selected_node: str = ""  # spec.nodeName in the field selector of a list or watch

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class Rule:
    """One PolicyRule, as sets."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    def allows(self, action: Action) -> bool:
        if action.verb not in self.verbs and "*" not in self.verbs:
            return False
        if action.path:
            return any(_path_matches(pattern, action.path) for pattern in self.paths)
        return (
            (action.group in self.groups or "*" in self.groups)
            and self._covers_resource(action)
            and (not self.names or action.name in self.names)
        )

    def _covers_resource(self, action: Action) -> bool:
        if "*" in self.resources or action.full_resource in self.resources:
            return True
        return bool(action.subresource) and f"*/{action.subresource}" in self.resources


def rule_of(manifest: Mapping[str, Any]) -> Rule:
    """A PolicyRule as stored."""
    return Rule(
        frozenset(manifest.get("verbs") or ()),
        frozenset(manifest.get("apiGroups") or ()),
        frozenset(manifest.get("resources") or ()),
        frozenset(manifest.get("resourceNames") or ()),
        tuple(manifest.get("nonResourceURLs") or ()),
    )


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def forbidden_action(user: User, action: Action, reason: str = "") -> Forbidden:
    """The 403 for an action, with the message of kube-apiserver."""
    why = f": {reason}" if reason else ""
    if action.path:
        return Forbidden(f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"{why}')
    named = f' "{action.name}"' if action.name else ""
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    qualified = f"{action.resource}.{action.group}" if action.group else action.resource
    return Forbidden(
        f'{qualified}{named} is forbidden: User "{user.name}" cannot {action.verb} resource '
        f'"{action.full_resource}" in API group "{action.group}" {where}{why}',
        name=action.name,
        group=action.group,
        kind=action.resource,
    )


def missing(wanted: Iterable[Rule], held: Iterable[Rule]) -> list[Rule]:
    """The parts of `wanted` that no rule in `held` covers, one verb and resource at a time."""
    owned = list(held)
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(own, part) for own in owned)]


def _parts(rule: Rule) -> Iterator[Rule]:
    for verb in sorted(rule.verbs):
        for path in rule.paths:
            yield Rule(frozenset({verb}), paths=(path,))
        for group in sorted(rule.groups):
            for resource in sorted(rule.resources):
                for name in sorted(rule.names) or [""]:
                    names = frozenset({name} if name else ())
                    yield Rule(frozenset({verb}), frozenset({group}), frozenset({resource}), names)


def _covers(own: Rule, part: Rule) -> bool:
    if not ("*" in own.verbs or part.verbs <= own.verbs):
        return False
    if part.paths:
        return any(_path_matches(pattern, part.paths[0]) for pattern in own.paths)
    (resource,) = part.resources
    _, _, subresource = resource.partition("/")
    return (
        ("*" in own.groups or part.groups <= own.groups)
        and (
            "*" in own.resources
            or resource in own.resources
            or bool(subresource and f"*/{subresource}" in own.resources)
        )
        and (not own.names or bool(part.names and part.names <= own.names))
    )
