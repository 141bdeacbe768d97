"""RBAC authorizer: evaluates stored roles and bindings, indexed and cached until they change."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.interfaces import Lookup, User
from volcano.apiserver.storage.history import Change
from volcano.kube.errors import Forbidden
from volcano.kube.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from volcano.kube.manifest import Key, Manifest, labels_of
from volcano.kube.selectors import from_object

GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
ACCOUNT_PREFIX = "system:serviceaccount:"
MAX_CACHED_USERS = 20_000


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


@dataclass(frozen=True, slots=True)
class Grant:
    """One binding that applies to a user: its rules and its reference."""

    rules: tuple[Rule, ...]
    reason: str


class Authorizer:
    """Authorizes actions of users. `forget` invalidates the caches after a change of an RBAC object."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._bindings: dict[tuple[str, str], dict[str, list[Manifest]]] | None = None
        self._grants: dict[tuple[str, tuple[str, ...], str], tuple[Grant, ...]] = {}
        self._roles: dict[tuple[str, Key], tuple[Rule, ...]] = {}

    def on_change(self, collection: str, change: Change) -> None:
        """Observes the store: a changed RBAC object invalidates the caches."""
        if collection.endswith(GROUP):
            self.forget()

    def forget(self) -> None:
        self._bindings = None
        self._grants.clear()
        self._roles.clear()

    @staticmethod
    def unrestricted(user: User) -> bool:
        """Whether the user is a cluster admin by group, independent of roles."""
        return MASTERS in user.groups

    def allowed(self, user: User, action: Action) -> bool:
        return self.reason(user, action) is not None

    def reason(self, user: User, action: Action) -> str | None:
        """Why the user may do this; None when it is denied."""
        if self.unrestricted(user):
            return ""
        for grant in self.grants(user, action.namespace):
            if any(rule.allows(action) for rule in grant.rules):
                return grant.reason
        return None

    def check(self, user: User, action: Action) -> None:
        """Raises `Forbidden`, with the message of kube-apiserver, when the user may not do this."""
        if self.reason(user, action) is None:
            raise forbidden_action(user, action)

    def rules(self, user: User, namespace: str) -> Iterator[Rule]:
        """All rules of the user in a namespace (or, with none, in the cluster)."""
        if self.unrestricted(user):
            everything = frozenset("*")
            yield Rule(everything, everything, everything)
            yield Rule(everything, paths=("*",))
        for grant in self.grants(user, namespace):
            yield from grant.rules

    def grants(self, user: User, namespace: str) -> tuple[Grant, ...]:
        """The bindings that apply to a user, for the whole cluster and in one namespace."""
        key = (user.name, user.groups, namespace)
        known = self._grants.get(key)
        if known is None:
            if len(self._grants) >= MAX_CACHED_USERS:
                self._grants.clear()
            known = self._grants[key] = tuple(self._find_grants(user, namespace))
        return known

    def _find_grants(self, user: User, namespace: str) -> Iterator[Grant]:
        bindings = self._index()
        for subject in _subject_keys(user):
            where = bindings.get(subject, {})
            for scope in ("", namespace) if namespace else ("",):
                for binding in where.get(scope, ()):
                    yield Grant(self.role_rules(binding, scope), _reason_text(binding, scope, subject))

    def role_rules(self, binding: Manifest, namespace: str) -> tuple[Rule, ...]:
        """The rules of the role that a binding refers to; none when the role does not exist."""
        reference = binding.get("roleRef") or {}
        kind = CLUSTER_ROLE if reference.get("kind") == "ClusterRole" else ROLE
        key = Key("" if kind is CLUSTER_ROLE else namespace, str(reference.get("name", "")))
        known = self._roles.get((kind.kind, key))
        if known is None:
            role = self._lookup.find(kind, key)
            known = tuple(self.expand(role)) if role else ()
            self._roles[kind.kind, key] = known
        return known

    def expand(self, role: Manifest) -> Iterator[Rule]:
        """The own rules of a role and those that it aggregates from other ClusterRoles."""
        seen: set[str] = set()
        waiting = [role]
        while waiting:
            current = waiting.pop()
            yield from (rule_of(rule) for rule in current.get("rules") or ())
            selectors = (current.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
            for selector in map(from_object, selectors):
                for candidate in self._lookup.all(CLUSTER_ROLE):
                    name = candidate["metadata"]["name"]
                    if name not in seen and selector.matches(labels_of(candidate)):
                        seen.add(name)
                        waiting.append(candidate)

    def _index(self) -> dict[tuple[str, str], dict[str, list[Manifest]]]:
        """Bindings by subject and then by namespace."""
        if self._bindings is None:
            index: dict[tuple[str, str], dict[str, list[Manifest]]] = defaultdict(lambda: defaultdict(list))
            for binding in [*self._lookup.all(CLUSTER_ROLE_BINDING), *self._lookup.all(ROLE_BINDING)]:
                namespace = binding["metadata"].get("namespace", "")
                for subject in binding.get("subjects") or ():
                    index[_subject(subject, namespace)][namespace].append(binding)
            self._bindings = {subject: dict(scopes) for subject, scopes in index.items()}
        return self._bindings


def _subject(subject: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    name = str(subject.get("name", ""))
    if subject.get("kind") == "ServiceAccount":
        return "User", f"{ACCOUNT_PREFIX}{subject.get('namespace') or namespace}:{name}"
    return str(subject.get("kind", "")), name


def _subject_keys(user: User) -> Iterator[tuple[str, str]]:
    yield "User", user.name
    yield from (("Group", group) for group in user.groups)


def _reason_text(binding: Manifest, namespace: str, subject: tuple[str, str]) -> str:
    """The reason in a SubjectAccessReview."""
    metadata, reference = binding["metadata"], binding.get("roleRef") or {}
    where = (
        f'RoleBinding "{metadata["name"]}/{namespace}"'
        if namespace
        else f'ClusterRoleBinding "{metadata["name"]}"'
    )
    kind, name = subject
    if name.startswith(ACCOUNT_PREFIX):
        account_namespace, _, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
        kind, name = "ServiceAccount", f"{account}/{account_namespace}"
    return f'RBAC: allowed by {where} of {reference.get("kind")} "{reference.get("name")}" to {kind} "{name}"'


def forbidden_action(user: User, action: Action) -> Forbidden:
    """The 403 for an action, with the message of kube-apiserver."""
    if action.path:
        return Forbidden(f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"')
    named = f' "{action.name}"' if action.name else ""
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    qualified = f"{action.resource}.{action.group}" if action.group else action.resource
    return Forbidden(
        f'{qualified}{named} is forbidden: User "{user.name}" cannot {action.verb} resource '
        f'"{action.full_resource}" in API group "{action.group}" {where}',
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
