"""Prevents privilege escalation: a user can grant only rights that the user holds."""

from collections.abc import Iterable

from volcano.apiserver.authz.actions import Action, Rule, missing, rule_of
from volcano.apiserver.authz.rbac import GROUP, MASTERS, Authorizer
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.kube.api.errors import Forbidden, NotFound
from volcano.kube.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind
from volcano.kube.api.manifest import Key, Manifest

ROLES, BINDINGS = (ROLE, CLUSTER_ROLE), (ROLE_BINDING, CLUSTER_ROLE_BINDING)


class EscalationCheck:
    """Admission plugin that rejects roles and bindings which grant rights that their writer does not have."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, kind: Kind) -> bool:
        return kind in ROLES or kind in BINDINGS

    async def __call__(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None or MASTERS in request.user.groups or request.subresource:
            return new
        if request.kind in ROLES:
            self._check_role(request, new, old)
        elif request.kind in BINDINGS:
            self._check_binding(request, new, old, lookup)
        return new

    def _check_role(self, request: Attributes, new: Manifest, old: Manifest | None) -> None:
        if old is not None and _same(new, old, "rules", "aggregationRule"):
            return
        if self._may(request, "escalate", request.kind.plural, request.key.name):
            return
        wanted = [rule_of(rule) for rule in new.get("rules") or ()]
        if new.get("aggregationRule"):
            everything = frozenset("*")  # rules to be aggregated are not known in advance
            wanted += [Rule(everything, everything, everything), Rule(everything, paths=("*",))]
        self._check(request, wanted)

    def _check_binding(
        self, request: Attributes, new: Manifest, old: Manifest | None, lookup: Lookup
    ) -> None:
        if old is not None and _same(new, old, "roleRef", "subjects"):
            return
        reference = new.get("roleRef") or {}
        kind = CLUSTER_ROLE if reference.get("kind") == "ClusterRole" else ROLE
        name = str(reference.get("name", ""))
        if self._may(request, "bind", kind.plural, name):
            return
        namespace = request.key.namespace
        role = lookup.find(kind, Key("" if kind is CLUSTER_ROLE else namespace, name))
        if role is None:
            raise NotFound(f'{kind.resource} "{name}" not found', name=name, group=GROUP, kind=kind.plural)
        self._check(request, self._authorizer.expand(role))

    def _may(self, request: Attributes, verb: str, resource: str, name: str) -> bool:
        action = Action(verb, GROUP, resource, name=name, namespace=request.key.namespace)
        return self._authorizer.allowed(request.user, action)

    def _check(self, request: Attributes, wanted: Iterable[Rule]) -> None:
        held = self._authorizer.rules(request.user, request.key.namespace)
        lacking = missing(wanted, held)
        if lacking:
            groups = " ".join(f'"{group}"' for group in request.user.groups)
            raise Forbidden(
                f'{request.kind.resource} "{request.key.name}" is forbidden: user "{request.user.name}" '
                f"(groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n"
                + "\n".join(_shown(rule) for rule in lacking),
                name=request.key.name,
                group=GROUP,
                kind=request.kind.plural,
            )


def _same(new: Manifest, old: Manifest, *fields: str) -> bool:
    return all((new.get(field) or None) == (old.get(field) or None) for field in fields)


def _shown(rule: Rule) -> str:
    parts = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.names),
        ("NonResourceURLs", rule.paths),
        ("Verbs", rule.verbs),
    )
    shown = (
        f"{name}:[{' '.join(f'{chr(34)}{v}{chr(34)}' for v in sorted(values))}]"
        for name, values in parts
        if values
    )
    return "{" + ", ".join(shown) + "}"
