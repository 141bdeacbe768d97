"""RBAC authorizer: evaluates stored roles and bindings, indexed and cached until they change."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.authz.actions import Action, Rule, forbidden_action, rule_of
from volcano.apiserver.authz.nodes import NodeAuthorizer
from volcano.apiserver.interfaces import Lookup, User
from volcano.apiserver.storage.history import Change
from volcano.kube.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from volcano.kube.api.manifest import Key, Manifest, labels_of
from volcano.kube.api.selectors import from_object

GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
ACCOUNT_PREFIX = "system:serviceaccount:"
MAX_CACHED_USERS = 20_000


@dataclass(frozen=True, slots=True)
class Grant:
    """One binding that applies to a user: its rules and its reference."""

    rules: tuple[Rule, ...]
    reason: str


class Authorizer:
    """Authorizes actions of users: kubelets by the Node authorizer, all users by RBAC. `forget` invalidates the
    caches after a change of an RBAC object."""

    def __init__(self, lookup: Lookup, nodes: NodeAuthorizer | None = None) -> None:
        self._lookup = lookup
        self._nodes = nodes
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
        if self._nodes is not None and self._nodes.decide(user, action).allowed:
            return ""
        for grant in self.grants(user, action.namespace):
            if any(rule.allows(action) for rule in grant.rules):
                return grant.reason
        return None

    def check(self, user: User, action: Action) -> None:
        """Raises `Forbidden`, with the message of kube-apiserver, when the user may not do this."""
        if self.reason(user, action) is None:
            raise forbidden_action(user, action, self.denial(user, action))

    def denial(self, user: User, action: Action) -> str:
        """Why a denied action is denied; empty when there is no more to say than that no rule allows it."""
        return self._nodes.decide(user, action).reason if self._nodes is not None else ""

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
